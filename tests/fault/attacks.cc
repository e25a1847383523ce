#include "tests/fault/attacks.h"

#include <fcntl.h>
#include <linux/falloc.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <array>
#include <cstring>
#include <optional>

#include "client/address.h"

namespace tally::testing {
namespace {

using nlohmann::json;
using transport::Random;
namespace shm = transport::shm;

RingSlot noise(Random& random) {
  RingSlot slot;
  for (std::size_t i = 0; i < sizeof slot.bytes; i += 8) {
    const std::uint64_t word = random.next();
    std::memcpy(slot.bytes + i, &word, sizeof word);
  }
  return slot;
}

std::uint32_t any_shard(const RawSession& session, Random& random) {
  return static_cast<std::uint32_t>(random.below(session.shards()));
}

// -- the rings ------------------------------------------------------------------------------------

void garbage(RawSession& session, Random& random, const RawOptions&) {
  session.send(any_shard(session, random), noise(random));
}

// Indices that cannot be, in either ring.
void indices(RawSession& session, Random& random, const RawOptions&) {
  auto& block = session.segment.block(any_shard(session, random));
  std::atomic<std::uint32_t>* words[] = {&block.notices.tail, &block.notices.head,
                                         &block.completions.tail, &block.completions.head};
  words[random.below(4)]->store(static_cast<std::uint32_t>(random.next()));
  session.ring(any_shard(session, random));
}

// Any bytes of a right notice are wrong; often one that parses.
void fields(RawSession& session, Random& random, const RawOptions&) {
  RingSlot slot = wire::encode(session.notice(static_cast<std::uint32_t>(random.below(4)), 0));
  const std::size_t at = random.below(sizeof slot.bytes - 2) + 2;
  slot.bytes[at] = static_cast<std::byte>(random.below(8) == 0 ? random.next() : random.below(8));
  session.send(any_shard(session, random), slot);
  session.drain();
}

// Offsets and lengths around every limit there is.
void bounds(RawSession& session, Random& random, const RawOptions&) {
  constexpr std::uint64_t kRegion = RawSession::kRegionBytes;
  constexpr std::uint64_t kValues[] = {
      0, 4, 4096, kRegion - 4, kRegion, kRegion + 4, wire::kMaxBytes - 4, wire::kMaxBytes / 4};
  wire::Notice notice = session.notice(static_cast<std::uint32_t>(random.below(64)),
                                       static_cast<std::uint32_t>(random.below(3)));
  notice.in_offset = random.pick(kValues);
  notice.out_offset = random.pick(kValues);
  notice.count = random.pick(kValues);
  const std::uint32_t regions[] = {session.region, session.region, 0, 2, 3, UINT32_MAX};
  notice.in_region = random.pick(regions);
  notice.out_region = random.pick(regions);
  if (random.below(2) == 0) {
    notice.flags = static_cast<std::uint8_t>(1 + random.below(3));  // statistics, checksums
    notice.side_region = random.pick(regions);
  }
  session.send(notice);
  session.drain();
}

void duplicates(RawSession& session, Random& random, const RawOptions&) {
  wire::Notice notice = session.notice(static_cast<std::uint32_t>(random.below(8)),
                                       static_cast<std::uint32_t>(random.below(4)));
  session.send(notice);
  session.send(notice);
  notice.kind = wire::Kind::kCancel;
  for (std::uint64_t i = random.below(3); i > 0; --i) session.send(notice);
  session.drain();
}

void stale_epochs(RawSession& session, Random& random, const RawOptions&) {
  wire::Notice notice = session.notice(static_cast<std::uint32_t>(random.below(8)), 0);
  notice.epoch += static_cast<std::uint32_t>(random.below(2) == 0 ? 1 : -1);
  session.send(notice);
  session.drain();
}

// As many as the rings take, for ever.
void flood(RawSession& session, Random& random, const RawOptions&) {
  for (int i = 0; i < 1000; ++i) {
    session.send(session.notice(static_cast<std::uint32_t>(random.next()), 0));
    session.drain();
  }
}

// The completions are never taken.
void undrained(RawSession& session, Random& random, const RawOptions&) {
  for (int i = 0; i < 100; ++i) {
    session.send(session.notice(static_cast<std::uint32_t>(random.next()), 0));
  }
}

// -- doorbells and the fence ----------------------------------------------------------------------

// Never read, always asked for; full, and made to block where the kernel lets it.
void doorbells(RawSession& session, Random& random, const RawOptions&) {
  for (std::uint32_t shard = 0; shard < session.shards(); ++shard) {
    const int fd = session.node_ends[shard].get();
    ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) & ~O_NONBLOCK);
    const std::array<char, 4096> bytes{};
    while (::send(fd, bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL) > 0) continue;
    session.segment.block(shard).client_sleeps.store(1);
    session.ring(shard);
  }
  session.send(session.notice(static_cast<std::uint32_t>(random.below(8)), 0));
  session.drain();
}

void words(RawSession& session, Random& random, const RawOptions&) {
  auto& block = session.segment.block(any_shard(session, random));
  std::atomic<std::uint32_t>* words[] = {&block.storing, &block.shard_sleeps, &block.client_sleeps,
                                         &session.segment.header().fence};
  random.pick(words)->store(static_cast<std::uint32_t>(random.below(2)));
  session.send(session.notice(static_cast<std::uint32_t>(random.below(8)), 0));
  session.drain();
}

// -- memory ---------------------------------------------------------------------------------------

// Takes the pages away while the node uses them: of the region, now and then of the segment.
void holes(RawSession& session, Random& random, const RawOptions&) {
  const bool segment = random.below(50) == 0;
  const int fd = segment ? session.memory.fd.get() : session.data.fd.get();
  const auto bytes = segment ? session.memory.mapping.size() : session.data.mapping.size();
  session.send(session.notice(static_cast<std::uint32_t>(random.below(8)), 0, 50'000));
  ::fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, static_cast<off_t>(bytes));
  static_cast<void>(!::ftruncate(fd, 0));  // the seals are to stop it
  session.drain();
}

UniqueFd memfd(std::size_t bytes, unsigned flags, int seals, bool populate) {
  UniqueFd fd(::memfd_create("raw", MFD_CLOEXEC | flags));
  if (fd && ::ftruncate(fd.get(), static_cast<off_t>(bytes)) == 0) {
    if (populate) ::fallocate(fd.get(), 0, 0, static_cast<off_t>(bytes));
    if (seals != 0) ::fcntl(fd.get(), F_ADD_SEALS, seals);
  }
  return fd;
}

// Memory that the node must not take: it says what it is, and is not.
void regions(RawSession& session, Random& random, const RawOptions&) {
  constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_SEAL;
  constexpr std::size_t kBytes = 64 << 10;
  switch (random.below(6)) {
    case 0:  // can shrink
      static_cast<void>(
          session.add_region(memfd(kBytes, MFD_ALLOW_SEALING, 0, true).get(), kBytes));
      break;
    case 1:  // sparse
      static_cast<void>(
          session.add_region(memfd(kBytes, MFD_ALLOW_SEALING, kSeals, false).get(), kBytes));
      break;
    case 2:  // shorter than it says
      static_cast<void>(session.add_region(memfd(kBytes, MFD_ALLOW_SEALING, kSeals, true).get(),
                                           kBytes + 1 + random.below(1u << 30)));
      break;
    case 3:  // no memory at all
      static_cast<void>(session.add_region(session.doorbells[0].get(), kBytes));
      break;
    case 4:  // hugetlbfs, where a page may be missing when it is touched
      static_cast<void>(session.add_region(
          memfd(2 << 20, MFD_ALLOW_SEALING | MFD_HUGETLB, kSeals, false).get(), 2 << 20));
      break;
    default:  // as many as it can have
      for (int i = 0; i < 200; ++i) {
        if (!session.add_region(session.data.fd.get(), 4096)) break;
      }
  }
}

// -- control --------------------------------------------------------------------------------------

void requests(RawSession& session, Random& random, const RawOptions&) {
  const char* methods[] = {"session.open",      "session.attach", "region.register",
                           "region.deregister", "node.status",    "session.flee"};
  const json values[] = {json(nullptr), json(-1),         json(1e300),
                         json("x"),     json::array({1}), json(UINT64_MAX)};
  const char* names[] = {"bytes", "region", "rank", "ranks", "version"};
  json params = json::object();
  for (std::uint64_t i = random.below(4); i > 0; --i)
    params[random.pick(names)] = random.pick(values);
  std::vector<int> fds;
  for (std::uint64_t i = random.below(6); i > 0; --i) fds.push_back(session.doorbells[0].get());
  static_cast<void>(
      session.channel.call(random.pick(methods), params, fds, monotonic_now() + kSecond));
  if (random.below(4) == 0) {
    const RingSlot bytes = noise(random);
    static_cast<void>(::send(session.channel.fd(), bytes.bytes, sizeof bytes.bytes, MSG_NOSIGNAL));
  }
}

// Connections that say nothing, half a request, or hang up; some 500 in a second.
void storm(RawSession&, Random& random, const RawOptions& options) {
  static std::array<UniqueFd, 64> half_open;
  auto address = client::parse_address(options.address);
  if (!address) return;
  UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address->socket),
                sizeof address->socket) != 0) {
    return;
  }
  static constexpr std::string_view kHalf = R"({"jsonrpc":"2.0","id":1,"method":"node.st)";
  if (random.below(2) == 0) {
    static_cast<void>(::send(socket.get(), kHalf.data(), kHalf.size(), MSG_NOSIGNAL));
  }
  if (random.below(2) == 0) random.pick(half_open) = std::move(socket);
  ::poll(nullptr, 0, 2);
}

// Sessions that come and go at once, in good order and not.
void sessions(RawSession& session, Random& random, const RawOptions&) {
  session.send(session.notice(static_cast<std::uint32_t>(random.below(8)), 0));
  if (random.below(2) == 0) {
    static_cast<void>(
        session.channel.call("session.close", json::object(), {}, monotonic_now() + kSecond));
  }
  ::shutdown(session.channel.fd(), SHUT_RDWR);
}

constexpr Attack kAttacks[] = {
    {"garbage", garbage},   {"indices", indices},       {"fields", fields},
    {"bounds", bounds},     {"duplicates", duplicates}, {"stale-epochs", stale_epochs},
    {"flood", flood},       {"undrained", undrained},   {"doorbells", doorbells},
    {"words", words},       {"holes", holes},           {"regions", regions},
    {"requests", requests}, {"storm", storm},           {"sessions", sessions},
};

}  // namespace

std::span<const Attack> attacks() {
  return kAttacks;
}

}  // namespace tally::testing
