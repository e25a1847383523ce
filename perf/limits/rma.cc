// Measures what libfabric moves in the shape of an all-reduce of two workers, without a protocol. A
// node reads from each worker (fi_read) and writes to each (fi_write with FI_DELIVERY_COMPLETE),
// tile after tile. The three processes use loopback; fi_rma_bw does the same between two. Prints
// the bytes of all four streams per second, in GB/s, of each round.
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "base/clock.h"
#include "base/idle.h"
#include "base/system/fd.h"
#include "dataplane/transport/fabric/domain.h"

namespace tally::perf {
namespace {

namespace fabric = transport::fabric;

constexpr std::size_t kWorkers = 2;
constexpr std::size_t kTile = 256 << 10;  // the largest tile of a shard
constexpr std::size_t kWindow = 8;        // tiles of each stream in flight, as at a shard
constexpr std::uint32_t kPoll = 100;      // ms; then a waiting process checks whether it must end
constexpr unsigned kLimitSeconds = 120;
constexpr Nanos kRound = 500 * kMillisecond;

[[noreturn]] void fail(const char* what, const std::string& why) {
  std::fprintf(stderr, "%s: %s\n", what, why.c_str());
  std::_Exit(1);
}

template <typename T>
T must(Result<T> result, const char* what) {
  if (!result) fail(what, result.error().message);
  return std::move(result).value();
}

// The address of a worker, and its memory: first its contribution, then its result.
struct Invitation {
  std::array<char, 256> name{};
  std::size_t name_bytes = 0;
  std::array<std::uint64_t, 2> base{};
  std::array<std::uint64_t, 2> key{};
};

std::unique_ptr<fabric::Domain> open(const std::string& provider,
                                     std::vector<std::span<std::byte>> memory) {
  fabric::DomainOptions options;
  options.address = "127.0.0.1";
  options.provider = provider;
  options.memory = std::move(memory);
  return must(fabric::Domain::open(options), "libfabric");
}

// Takes completions. When there are none, sleeps if `idle` allows it.
std::size_t progress(fabric::Domain& domain, std::span<fi_cq_data_entry> out, IdlePolicy& idle) {
  const Nanos now = monotonic_now();
  const ssize_t count = ::fi_cq_read(&domain.completions(), out.data(), out.size());
  if (count > 0) {
    idle.worked(now);
    return static_cast<std::size_t>(count);
  }
  if (count != -FI_EAGAIN) fail("completions", domain.library().text(count));
  idle.rest(now, [&] {
    if (!domain.may_sleep()) return;
    pollfd news{domain.wait_fd(), POLLIN, 0};
    ::poll(&news, 1, kPoll);
  });
  return 0;
}

// A worker. The node reads and writes its memory until the node hangs up.
[[noreturn]] void work(const std::string& provider, std::size_t size, int node) {
  std::array<std::vector<std::byte>, 2> buffers{std::vector<std::byte>(size, std::byte{1}),
                                                std::vector<std::byte>(size, std::byte{1})};
  const auto domain = open(provider, {});
  const auto endpoint = must(domain->endpoint(), "an endpoint");
  Invitation invitation;
  std::vector<fabric::Fid<fid_mr>> exposed;
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    auto region = must(domain->expose(buffers[i].data(), size), "memory");
    invitation.base[i] = domain->base_of(buffers[i].data());
    invitation.key[i] = ::fi_mr_key(region.get());
    exposed.push_back(std::move(region));
  }
  const fabric::Name name = must(domain->name_of(*endpoint), "a name");
  if (name.size() > invitation.name.size()) fail("a name", "too long");
  std::memcpy(invitation.name.data(), name.data(), name.size());
  invitation.name_bytes = name.size();
  if (::write(node, &invitation, sizeof invitation) != sizeof invitation) fail("write", "a pipe");
  IdlePolicy idle;
  std::array<fi_cq_data_entry, 64> entries;
  for (pollfd end{node, 0, 0}; ::poll(&end, 1, 0) == 0;) progress(*domain, entries, idle);
  std::_Exit(0);
}

// One direction to or from one worker.
struct Stream {
  fid_ep* endpoint = nullptr;
  fi_addr_t address = 0;
  std::uint64_t base = 0;
  std::uint64_t key = 0;
  bool writes = false;
  std::vector<std::byte> landing{};  // kWindow tiles
  std::uint64_t left = 0;            // bytes that are not started yet
  std::uint64_t offset = 0;          // of the next tile
  struct Tile {
    fi_context2 room{};
    Stream* stream = nullptr;
    std::size_t index = 0;
  };
  std::array<Tile, kWindow> tiles{};
  std::vector<Tile*> free{};
};

// False when the provider cannot start a tile now.
bool start(fabric::Domain& domain, Stream& stream, std::size_t size) {
  Stream::Tile& tile = *stream.free.back();
  iovec local{stream.landing.data() + tile.index * kTile, std::min(kTile, size)};
  fi_rma_iov remote{stream.base + stream.offset, local.iov_len, stream.key};
  void* descriptor = domain.descriptor(static_cast<const std::byte*>(local.iov_base));
  fi_msg_rma message{};
  message.msg_iov = &local;
  message.desc = &descriptor;
  message.iov_count = 1;
  message.addr = stream.address;
  message.rma_iov = &remote;
  message.rma_iov_count = 1;
  message.context = &tile.room;
  const ssize_t error =
      stream.writes ? ::fi_writemsg(stream.endpoint, &message, FI_COMPLETION | FI_DELIVERY_COMPLETE)
                    : ::fi_readmsg(stream.endpoint, &message, FI_COMPLETION);
  if (error == -FI_EAGAIN) return false;
  if (error != 0) fail("an operation", domain.library().text(error));
  stream.free.pop_back();
  stream.left -= std::min<std::uint64_t>(stream.left, local.iov_len);
  stream.offset = stream.offset + 2 * local.iov_len <= size ? stream.offset + local.iov_len : 0;
  return true;
}

void run(fabric::Domain& domain, std::vector<Stream>& streams, std::size_t size) {
  IdlePolicy idle;
  std::array<fi_cq_data_entry, 64> entries;
  std::size_t under_way = 0;
  const auto left = [](const Stream& stream) { return stream.left > 0; };
  while (under_way > 0 || std::any_of(streams.begin(), streams.end(), left)) {
    for (Stream& stream : streams) {
      while (stream.left > 0 && !stream.free.empty() && start(domain, stream, size)) ++under_way;
    }
    const std::size_t count = progress(domain, entries, idle);
    for (const auto& entry : std::span(entries).first(count)) {
      auto* tile = reinterpret_cast<Stream::Tile*>(entry.op_context);
      tile->stream->free.push_back(tile);
      --under_way;
    }
  }
}

// Starts the workers, and returns their invitations.
std::vector<Invitation> invite(const std::string& provider, std::size_t size,
                               std::vector<UniqueFd>& pipes) {
  std::vector<Invitation> invitations(kWorkers);
  for (Invitation& invitation : invitations) {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) fail("a pipe", std::strerror(errno));
    UniqueFd here(ends[0]), there(ends[1]);
    if (::fork() == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      ::alarm(kLimitSeconds);
      here.reset();
      pipes.clear();
      work(provider, size, there.get());
    }
    there.reset();
    if (::read(here.get(), &invitation, sizeof invitation) != sizeof invitation) {
      fail("a worker", "it did not start");
    }
    pipes.push_back(std::move(here));
  }
  return invitations;
}

int measure(const std::string& provider, std::size_t size, int rounds) {
  ::alarm(kLimitSeconds);
  std::vector<UniqueFd> pipes;  // the workers end when these are closed
  const auto invitations = invite(provider, size, pipes);
  std::vector<Stream> streams(2 * kWorkers);
  std::vector<std::span<std::byte>> landing;
  for (Stream& stream : streams) {
    stream.landing.resize(kWindow * kTile);
    landing.emplace_back(stream.landing);
  }
  const auto domain = open(provider, landing);
  const auto endpoint = must(domain->endpoint(), "an endpoint");
  for (std::size_t i = 0; i < streams.size(); ++i) {
    const Invitation& worker = invitations[i / 2];
    Stream& stream = streams[i];
    stream.endpoint = endpoint.get();
    stream.writes = i % 2 == 1;
    stream.base = worker.base[i % 2];
    stream.key = worker.key[i % 2];
    if (!stream.writes) {
      const auto* name = reinterpret_cast<const std::byte*>(worker.name.data());
      stream.address = must(domain->insert({name, worker.name_bytes}), "an address");
    } else {
      stream.address = streams[i - 1].address;
    }
    for (std::size_t j = 0; j < kWindow; ++j) {
      stream.tiles[j].stream = &stream;
      stream.tiles[j].index = j;
      stream.free.push_back(&stream.tiles[j]);
    }
  }
  std::uint64_t bytes = 64 << 20;
  for (int i = -1; i < rounds; ++i) {  // the first round finds how much a round should move
    for (Stream& stream : streams) stream.left = bytes;
    const Nanos begin = monotonic_now();
    run(*domain, streams, size);
    const double rate =
        static_cast<double>(streams.size() * bytes) / static_cast<double>(monotonic_now() - begin);
    if (i < 0) {
      bytes = static_cast<std::uint64_t>(rate * static_cast<double>(kRound) / 4);
      continue;
    }
    std::printf("%.3f\n", rate);
    std::fflush(stdout);
  }
  pipes.clear();
  while (::wait(nullptr) > 0) continue;
  return 0;
}

}  // namespace
}  // namespace tally::perf

int main(int argc, char** argv) {
  const bool enough = argc == 3 || argc == 4;
  const auto size = enough ? std::strtoull(argv[1], nullptr, 10) : 0;
  const int rounds = enough ? std::atoi(argv[2]) : 0;
  if (size < 4096 || size > (1ull << 30) || rounds < 1 || rounds > 100) {
    std::fprintf(stderr, "usage: rma BYTES-OF-A-BUFFER ROUNDS [PROVIDER]\n");
    return 2;
  }
  return tally::perf::measure(argc == 4 ? argv[3] : "", size, rounds);
}
