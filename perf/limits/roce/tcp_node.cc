// Measures what a node pays for the same READs and WRITEs over TCP: with transport fabric, or with
// plain sockets. The node and its workers are two threads, and each sleeps when it has nothing to
// do, so their processor time is the cost. Prints lines like those of roce_port.
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cctype>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/system/cycle_clock.h"
#include "base/system/fd.h"
#include "dataplane/transport/fabric/fabric_transport.h"
#include "perf/limits/roce/must.h"
#include "perf/limits/roce/node_loop.h"

namespace tally::perf {
namespace {

namespace fabric = transport::fabric;

constexpr unsigned kLimitSeconds = 300;
constexpr Nanos kRound = 200 * kMillisecond;
constexpr std::uint32_t kConnections = 4;
constexpr std::uint32_t kDepth = 2;  // operations in flight of each connection
constexpr int kPollMilliseconds = 20;

using Bytes = std::vector<std::byte>;
using Work = NodeLoop::Work;

Nanos time_of(clockid_t clock) {
  timespec time{};
  ::clock_gettime(clock, &time);
  return time.tv_sec * kSecond + time.tv_nsec;
}

Nanos thread_time() {
  return time_of(CLOCK_THREAD_CPUTIME_ID);
}

// A round: from its construction to stop(). The thread's processor time is in cycles of the
// time-stamp counter.
class Round {
 public:
  bool is_over() const { return monotonic_now() - begin_ > kRound; }
  void stop() {
    seconds_ = static_cast<double>(monotonic_now() - begin_) / kSecond;
    all_cycles_ = static_cast<double>(read_cycles() - cycles_);
    time_ = thread_time() - time_;
  }
  // Precondition: stop() was called.
  void print(const std::string& variant, std::uint64_t bytes, Nanos worker_time) const {
    const double cycles_per_nano = all_cycles_ / seconds_ / kSecond;
    std::printf(
        "{\"variant\": \"%s\", \"bytes\": %lu, \"cycles\": %.0f, \"all_cycles\": %.0f, "
        "\"seconds\": %.6f, \"worker_bytes\": %lu, \"worker_cycles\": %.0f}\n",
        variant.c_str(), bytes, static_cast<double>(time_) * cycles_per_nano, all_cycles_, seconds_,
        bytes, static_cast<double>(worker_time) * cycles_per_nano);
    std::fflush(stdout);
  }

 private:
  Nanos begin_ = monotonic_now();
  Nanos time_ = thread_time();
  std::uint64_t cycles_ = read_cycles();
  double seconds_ = 0;
  double all_cycles_ = 0;
};

// -- transport fabric ----------------------------------------------------------------------------

// The workers' ends, on one thread.
class FabricWorkers {
 public:
  FabricWorkers() : source_(kRegionBytes), target_(kRegionBytes) {
    fill(source_);
    domain_ = must(fabric::Domain::open({.address = "127.0.0.1"}));
    for (std::uint32_t i = 0; i < kConnections; ++i) {
      endpoints_.push_back(must(domain_->endpoint()));
    }
    readable_ = must(domain_->expose(source_.data(), source_.size()));
    writable_ = must(domain_->expose(target_.data(), target_.size()));
  }
  fabric::Name name(std::uint32_t worker) { return must(domain_->name_of(*endpoints_[worker])); }
  transport::onesided::Region source() const { return region(source_, readable_); }
  transport::onesided::Region target() const { return region(target_, writable_); }
  bool is_written() const { return is_filled(target_); }

  void run(const std::atomic<bool>& stop) {
    std::array<fi_cq_data_entry, 16> entries;
    while (!stop.load(std::memory_order_relaxed)) {
      if (::fi_cq_read(&domain_->completions(), entries.data(), entries.size()) > 0) continue;
      if (!domain_->may_sleep()) continue;
      pollfd news{domain_->wait_fd(), POLLIN, 0};
      ::poll(&news, 1, kPollMilliseconds);
    }
  }

 private:
  transport::onesided::Region region(const Bytes& memory,
                                     const fabric::Fid<fid_mr>& registered) const {
    return {domain_->base_of(memory.data()), memory.size(), ::fi_mr_key(registered.get())};
  }

  Bytes source_, target_;
  std::unique_ptr<fabric::Domain> domain_;
  std::vector<fabric::Fid<fid_ep>> endpoints_;
  fabric::Fid<fid_mr> readable_, writable_;
};

// Polls once, and sleeps when nothing has ended.
void poll_or_sleep(NodeLoop& loop, transport::Transport& transport) {
  if (loop.poll() > 0) return;
  if (transport.arm()) {
    pollfd news{transport.fd(), POLLIN, 0};
    ::poll(&news, 1, kPollMilliseconds);
  }
  transport.disarm();
}

void measure_fabric(const std::string& variant, Work work, int rounds) {
  FabricWorkers workers;
  Bytes result(kOperationBytes);
  fill(result);
  fabric::TransportOptions options;
  options.domain.address = "127.0.0.1";
  options.landing_bytes = kConnections * kDepth * kOperationBytes;
  options.tiles = result;
  const auto transport = must(fabric::FabricTransport::open(options));
  for (std::uint32_t i = 0; i < kConnections; ++i) {
    const fabric::Name name = workers.name(i);
    must(transport->attach(i, {.job = 1, .name = name, .secret = 1}));
    transport->add_region(i, kSourceRegion, workers.source());
    transport->add_region(i, kTargetRegion, workers.target());
  }
  std::atomic<bool> stop{false};
  std::thread thread([&] { workers.run(stop); });
  clockid_t workers_clock{};
  ::pthread_getcpuclockid(thread.native_handle(), &workers_clock);
  NodeLoop loop(*transport, result);
  for (int number = -1; number < rounds; ++number) {  // the first connects
    loop.begin(work, kConnections, kDepth);
    const Nanos before = time_of(workers_clock);
    Round round;
    while (!round.is_over()) poll_or_sleep(loop, *transport);
    round.stop();
    const Nanos worker_time = time_of(workers_clock) - before;
    if (number >= 0) round.print(variant, loop.done() * kOperationBytes, worker_time);
    loop.end();
    while (!loop.is_idle()) poll_or_sleep(loop, *transport);
    if (!loop.is_right()) fail("a sum of " + variant + " is wrong");
  }
  stop = true;
  thread.join();
  if (work == Work::kWrites && !workers.is_written()) fail("what was written is wrong");
}

// -- plain sockets -------------------------------------------------------------------------------

struct Sockets {
  std::string node;       // address
  std::string workers{};  // their network namespace; empty: the same
};

UniqueFd stream(int socket) {
  const int on = 1;
  ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  set_nonblocking(socket);
  return UniqueFd(socket);
}

sockaddr_in address_of(const std::string& host) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  if (::inet_pton(AF_INET, host.c_str(), &address.sin_addr) != 1) fail("no address: " + host);
  return address;
}

// Moves bytes of streams until `is_over`. Calls `move` with the socket, its offset in an operation
// and the number of the stream; `move` returns what send() or recv() has returned. Returns the
// bytes.
std::uint64_t move_streams(const std::vector<UniqueFd>& sockets, short events,
                           const std::function<ssize_t(int, std::size_t, std::size_t)>& move,
                           const std::function<bool()>& is_over) {
  std::vector<pollfd> polled;
  for (const UniqueFd& socket : sockets) polled.push_back({socket.get(), events, 0});
  std::vector<std::size_t> offsets(sockets.size());
  std::uint64_t bytes = 0;
  while (!is_over()) {
    if (::poll(polled.data(), polled.size(), kPollMilliseconds) <= 0) continue;
    for (std::size_t i = 0; i < polled.size(); ++i) {
      if (polled[i].revents == 0) continue;
      const ssize_t count = move(polled[i].fd, offsets[i], i);
      if (count < 0 && errno == EAGAIN) continue;
      if (count <= 0) return bytes;
      offsets[i] = (offsets[i] + static_cast<std::size_t>(count)) % kOperationBytes;
      bytes += static_cast<std::uint64_t>(count);
    }
  }
  return bytes;
}

// Sends or receives until the node hangs up. Returns the processor time.
Nanos work_at_sockets(const Sockets& setup, sockaddr_in node, bool sends) {
  if (!setup.workers.empty()) {
    const UniqueFd space(::open(("/run/netns/" + setup.workers).c_str(), O_RDONLY | O_CLOEXEC));
    if (!space || ::setns(space.get(), CLONE_NEWNET) != 0) fail("no namespace " + setup.workers);
  }
  std::vector<UniqueFd> sockets;
  for (std::uint32_t i = 0; i < kConnections; ++i) {
    const int made = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (::connect(made, reinterpret_cast<const sockaddr*>(&node), sizeof node) != 0) {
      fail("connect");
    }
    sockets.push_back(stream(made));
  }
  Bytes memory(kOperationBytes);
  fill(memory);
  const Nanos before = thread_time();
  const auto move = [&](int socket, std::size_t offset, std::size_t) {
    std::byte* const at = memory.data() + offset;
    const std::size_t most = kOperationBytes - offset;
    return sends ? ::send(socket, at, most, MSG_NOSIGNAL) : ::recv(socket, at, most, 0);
  };
  move_streams(sockets, sends ? POLLOUT : POLLIN, move, [] { return false; });
  return thread_time() - before;
}

// The node's ends, of connections that the workers make.
std::vector<UniqueFd> accept_all(int listener) {
  std::vector<UniqueFd> sockets;
  for (std::uint32_t i = 0; i < kConnections; ++i) {
    sockets.push_back(stream(::accept(listener, nullptr, nullptr)));
    if (!sockets.back()) fail("accept");
  }
  return sockets;
}

void measure_sockets(const std::string& variant, Work work, int rounds, const Sockets& setup) {
  const bool reads = work == Work::kReads;
  const UniqueFd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = address_of(setup.node);
  socklen_t length = sizeof address;
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  if (::bind(listener.get(), generic, sizeof address) != 0 || ::listen(listener.get(), 8) != 0 ||
      ::getsockname(listener.get(), generic, &length) != 0) {
    fail("cannot listen at " + setup.node);
  }
  Bytes memory(kConnections * kOperationBytes);
  fill(memory);
  Sum sum;
  const auto move = [&](int socket, std::size_t offset, std::size_t index) {
    std::byte* const operation = memory.data() + index * kOperationBytes;
    const std::size_t most = kOperationBytes - offset;
    if (!reads) return ::send(socket, operation + offset, most, MSG_NOSIGNAL);
    const ssize_t count = ::recv(socket, operation + offset, most, 0);
    // The sum takes whole operations, as the node's.
    if (count > 0 && static_cast<std::size_t>(count) == most) {
      const Span whole{operation, kOperationBytes};
      sum.add(View(&whole, 1), kOperationBytes, 0);
    }
    return count;
  };
  for (int number = 0; number < rounds; ++number) {
    Nanos worker_time = 0;
    std::thread worker([&] { worker_time = work_at_sockets(setup, address, reads); });
    std::vector<UniqueFd> sockets = accept_all(listener.get());
    sum.clear();
    Round round;
    const std::uint64_t bytes =
        move_streams(sockets, reads ? POLLIN : POLLOUT, move, [&] { return round.is_over(); });
    round.stop();
    sockets.clear();
    worker.join();
    round.print(variant, bytes, worker_time);
  }
}

int usage() {
  std::fprintf(stderr,
               "usage: tcp_node ROUNDS VARIANT...\n"
               "       tcp_node ROUNDS NODE-ADDRESS WORKERS-NAMESPACE VARIANT...\n"
               "variants: fabric-read fabric-write (on loopback) sockets-read sockets-write\n");
  return 2;
}

}  // namespace
}  // namespace tally::perf

int main(int argc, char** argv) {
  using namespace tally::perf;
  std::vector<std::string> arguments(argv + 1, argv + argc);
  const int rounds = arguments.size() >= 2 ? std::atoi(argv[1]) : 0;
  if (rounds < 1 || rounds > 1000) return usage();
  ::alarm(kLimitSeconds);
  arguments.erase(arguments.begin());
  Sockets setup{.node = "127.0.0.1"};
  if (std::isdigit(static_cast<unsigned char>(arguments[0][0])) != 0) {
    if (arguments.size() < 3) return usage();
    setup = {arguments[0], arguments[1]};
    arguments.erase(arguments.begin(), arguments.begin() + 2);
  }
  for (const std::string& variant : arguments) {
    const std::size_t dash = variant.find('-');
    const std::string over = variant.substr(0, dash);
    const std::string what = dash == std::string::npos ? "" : variant.substr(dash + 1);
    if (what != "read" && what != "write") return usage();
    const auto work = what == "read" ? Work::kReads : Work::kWrites;
    if (over == "fabric") {
      measure_fabric(variant, work, rounds);
    } else if (over == "sockets") {
      measure_sockets(variant, work, rounds, setup);
    } else {
      return usage();
    }
  }
  return 0;
}
