// Attacks by memory and descriptors: they are not what they are said to be, or not for long.
#include <fcntl.h>
#include <linux/falloc.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "tests/fault/attacks.h"

namespace tally::testing {
namespace {

using nlohmann::json;
using transport::Random;

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

// Single pages come and go, and are filled again, while the node reads and stores.
void flickering_pages(RawSession& session, Random& random, const RawOptions&) {
  constexpr off_t kPages = RawSession::kRegionBytes / 4096;
  session.send(session.notice(static_cast<std::uint32_t>(random.below(8)), 0, 100'000));
  for (int i = 0; i < 20; ++i) {
    const auto page = static_cast<off_t>(random.below(kPages)) * 4096;
    ::fallocate(session.data.fd.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, page, 4096);
    session.data.mapping.data()[page] = std::byte{1};
  }
  session.drain();
}

// One memory under two numbers: the input of one operation is taken away with the result of
// another.
void twins(RawSession& session, Random& random, const RawOptions&) {
  const auto twin = session.add_region(session.data.fd.get(), RawSession::kRegionBytes);
  if (!twin) return;
  wire::Notice notice = session.notice(static_cast<std::uint32_t>(random.below(8)), 0, 50'000);
  notice.out_region = *twin;
  session.send(notice);
  ::fallocate(session.data.fd.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 1 << 19);
  static_cast<void>(session.channel.call("region.deregister", {{"region", *twin}}, {},
                                         monotonic_now() + kSecond));
  session.drain();
}

// Deregistered while operations use it, and its number registered again, all without waiting for an
// answer.
void reused_numbers(RawSession& session, Random& random, const RawOptions&) {
  session.send(session.notice(static_cast<std::uint32_t>(random.below(8)), 0, 100'000));
  const json region = {{"region", session.region}};
  for (int i = 0; i < 4; ++i) {
    static_cast<void>(session.channel.ask("region.deregister", region, monotonic_now() + kSecond));
  }
  const int fds[] = {session.data.fd.get()};
  static_cast<void>(session.channel.call(
      "region.register", {{"bytes", RawSession::kRegionBytes}, {"region", session.region}}, fds,
      monotonic_now() + kSecond));
  session.drain();
}

void region_numbers(RawSession& session, Random& random, const RawOptions&) {
  constexpr std::uint64_t kNumbers[] = {0, 1, 8191, 8192, 8193, 1 << 20, UINT32_MAX, UINT64_MAX};
  const int fds[] = {session.data.fd.get()};
  const std::uint64_t number = random.pick(kNumbers);
  static_cast<void>(session.channel.call("region.register", {{"bytes", 4096}, {"region", number}},
                                         fds, monotonic_now() + kSecond));
  if (random.below(2) == 0) {
    static_cast<void>(session.channel.call("region.deregister", {{"region", number}}, {},
                                           monotonic_now() + kSecond));
  }
}

// Few regions with numbers far apart, which come and go while notices name them.
void scattered_numbers(RawSession& session, Random& random, const RawOptions&) {
  const int fds[] = {session.data.fd.get()};
  const std::uint64_t number = 1 + random.below(8192);
  const bool known = static_cast<bool>(session.channel.call(
      "region.register", {{"bytes", 4096}, {"region", number}}, fds, monotonic_now() + kSecond));
  wire::Notice notice = session.notice(static_cast<std::uint32_t>(random.below(8)), 0);
  notice.in_region = static_cast<std::uint32_t>(number + random.below(2));
  session.send(notice);
  if (known && random.below(4) != 0) {
    static_cast<void>(session.channel.call("region.deregister", {{"region", number}}, {},
                                           monotonic_now() + kSecond));
  }
  session.drain();
}

// Guards of other memory come and go at the node while its pages are missing: each is released
// where a handler may just look at it.
void changing_guards(RawSession& session, Random& random, const RawOptions&) {
  constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_SEAL;
  constexpr std::size_t kBytes = 64 << 10;
  const UniqueFd short_lived = memfd(kBytes, MFD_ALLOW_SEALING, kSeals, true);
  const auto region = session.add_region(short_lived.get(), kBytes);
  session.send(session.notice(static_cast<std::uint32_t>(random.below(8)), 0, 100'000));
  for (const int fd : {session.data.fd.get(), short_lived.get()}) {
    ::fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, kBytes);
  }
  if (region) {
    wire::Notice notice = session.notice(static_cast<std::uint32_t>(8 + random.below(8)), 0);
    notice.in_region = *region;
    session.send(notice);
    static_cast<void>(
        session.channel.ask("region.deregister", {{"region", *region}}, monotonic_now() + kSecond));
  }
  if (random.below(8) == 0) ::shutdown(session.channel.fd(), SHUT_RDWR);
  session.drain();
}

// Descriptors of every kind but the right one.
void no_memory(RawSession& session, Random& random, const RawOptions&) {
  constexpr const char* kPaths[] = {"/dev/zero",      "/dev/null", "/proc/self/mem",
                                    "/proc/self/exe", "/",         "/dev/full"};
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) return;
  const UniqueFd reader(ends[0]), writer(ends[1]);
  const UniqueFd file(::open(random.pick(kPaths), O_RDONLY | O_CLOEXEC));
  const UniqueFd path(::open("/", O_PATH | O_CLOEXEC));
  for (const int fd : {file.get(), path.get(), reader.get(), writer.get(), session.channel.fd()}) {
    if (fd >= 0) static_cast<void>(session.add_region(fd, 4096));
  }
}

// A session that is attached a second time, with doorbells that are none.
void attached_again(RawSession& session, Random& random, const RawOptions&) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) return;
  const UniqueFd reader(ends[0]), writer(ends[1]);
  const int kinds[] = {reader.get(), writer.get(), session.memory.fd.get(),
                       session.doorbells[0].get(), session.channel.fd()};
  std::vector<int> fds{random.below(4) == 0 ? session.data.fd.get() : session.memory.fd.get()};
  for (std::uint64_t i = random.below(session.shards() + 2); i > 0; --i) {
    fds.push_back(random.pick(kinds));
  }
  static_cast<void>(
      session.channel.call("session.attach", json::object(), fds, monotonic_now() + kSecond));
}

// The doorbells' other ends are closed or half closed, one after the other.
void torn_doorbells(RawSession& session, Random& random, const RawOptions&) {
  const auto shard = static_cast<std::uint32_t>(random.below(session.shards()));
  session.send(session.notice(static_cast<std::uint32_t>(random.below(8)), 0, 10'000));
  ::shutdown(session.doorbells[shard].get(), random.below(2) == 0 ? SHUT_RD : SHUT_WR);
  if (random.below(4) == 0) session.doorbells[shard].reset();
}

// More memory than there is, in one piece and in many.
void huge_regions(RawSession& session, Random& random, const RawOptions&) {
  const std::uint64_t bytes = std::uint64_t{1} << (20 + random.below(28));
  static_cast<void>(session.add_region(session.data.fd.get(), bytes));
}

constexpr Attack kMemoryAttacks[] = {
    {"holes", holes},
    {"regions", regions},
    {"flickering-pages", flickering_pages},
    {"twins", twins},
    {"reused-numbers", reused_numbers},
    {"region-numbers", region_numbers},
    {"scattered-numbers", scattered_numbers},
    {"changing-guards", changing_guards},
    {"no-memory", no_memory},
    {"attached-again", attached_again},
    {"torn-doorbells", torn_doorbells},
    {"huge-regions", huge_regions},
};

}  // namespace

std::span<const Attack> memory_attacks() {
  return kMemoryAttacks;
}

}  // namespace tally::testing
