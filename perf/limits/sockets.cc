// Measures what plain TCP sockets move in the shape of an all-reduce of two workers. A node
// receives a stream from each worker and sends one to each, all four at once. The three processes
// use loopback. Prints the bytes of all four streams per second, in GB/s, of each round.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/system/fd.h"
#include "perf/ceiling/streams.h"

namespace tally::perf {
namespace {

constexpr int kWorkers = 2;
constexpr unsigned kLimitSeconds = 120;
constexpr Nanos kRound = 500 * kMillisecond;

[[noreturn]] void fail(const char* what) {
  std::perror(what);
  std::_Exit(1);
}

// One direction of one connection. It moves `buffer` again and again, until `bytes` have passed.
struct Stream {
  int socket;
  bool sends;
  std::vector<std::byte>* buffer;
  std::uint64_t bytes;

  void run() const {
    const bool good =
        sends ? send_stream(socket, *buffer, bytes) : receive_stream(socket, *buffer, bytes);
    if (!good) fail("a stream broke");
  }
};

// Each stream has a thread, which is faster here than one thread that polls all streams (2.7 GB/s).
void run(std::vector<Stream>& streams) {
  std::vector<std::thread> threads;
  for (Stream& stream : streams) threads.emplace_back([&stream] { stream.run(); });
  for (std::thread& thread : threads) thread.join();
}

UniqueFd without_delay(int socket) {
  const int on = 1;
  ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return UniqueFd(socket);
}

[[noreturn]] void work(const sockaddr_in& node, std::size_t size, std::uint64_t bytes) {
  std::array<UniqueFd, 2> sockets;
  for (UniqueFd& socket : sockets) {
    const int made = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (::connect(made, reinterpret_cast<const sockaddr*>(&node), sizeof node) != 0)
      fail("connect");
    socket = without_delay(made);
  }
  std::vector<std::byte> gradients(size, std::byte{1}), results(size);
  // The node accepts in any order, so each connection first carries a byte with its direction.
  const char up = 'u', down = 'd';
  if (::send(sockets[0].get(), &up, 1, 0) != 1 || ::send(sockets[1].get(), &down, 1, 0) != 1) {
    fail("send");
  }
  std::vector<Stream> streams{{sockets[0].get(), true, &gradients, bytes},
                              {sockets[1].get(), false, &results, bytes}};
  run(streams);
  std::_Exit(0);
}

double round(std::size_t size, std::uint64_t bytes) {
  UniqueFd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  socklen_t length = sizeof address;
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  if (::bind(listener.get(), generic, sizeof address) != 0 || ::listen(listener.get(), 8) != 0 ||
      ::getsockname(listener.get(), generic, &length) != 0) {
    fail("listen");
  }
  for (int i = 0; i < kWorkers; ++i) {
    if (::fork() != 0) continue;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::alarm(kLimitSeconds);
    work(address, size, bytes);
  }
  std::vector<UniqueFd> sockets;
  std::vector<std::vector<std::byte>> buffers(2 * kWorkers,
                                              std::vector<std::byte>(size, std::byte{1}));
  std::vector<Stream> streams;
  for (std::size_t i = 0; i < 2 * kWorkers; ++i) {
    const int accepted = ::accept(listener.get(), nullptr, nullptr);
    char way = 0;
    if (accepted < 0 || ::recv(accepted, &way, 1, 0) != 1) fail("accept");
    sockets.push_back(without_delay(accepted));
    streams.push_back({accepted, way == 'd', &buffers[i], bytes});
  }
  const Nanos begin = monotonic_now();
  run(streams);
  while (::wait(nullptr) > 0) continue;
  return 2.0 * kWorkers * static_cast<double>(bytes) / static_cast<double>(monotonic_now() - begin);
}

int measure(std::size_t size, int rounds) {
  ::alarm(kLimitSeconds);
  double rate = round(size, std::uint64_t{64} << 20);  // GB/s; it also sets how much a round moves
  const auto bytes = static_cast<std::uint64_t>(rate * static_cast<double>(kRound) / 4);
  for (int i = 0; i < rounds; ++i) {
    rate = round(size, bytes);
    std::printf("%.3f\n", rate);
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace
}  // namespace tally::perf

int main(int argc, char** argv) {
  const auto size = argc == 3 ? std::strtoull(argv[1], nullptr, 10) : 0;
  const int rounds = argc == 3 ? std::atoi(argv[2]) : 0;
  if (size < 4096 || size > (1ull << 30) || rounds < 1 || rounds > 100) {
    std::fprintf(stderr, "usage: sockets BYTES-OF-A-BUFFER ROUNDS\n");
    return 2;
  }
  return tally::perf::measure(size, rounds);
}
