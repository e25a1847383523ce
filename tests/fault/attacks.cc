#include "tests/fault/attacks.h"

#include <fcntl.h>
#include <sys/socket.h>

#include <array>
#include <cstring>
#include <vector>

namespace tally::testing {
namespace {

using transport::Random;

RingEntry noise(Random& random) {
  RingEntry entry;
  for (std::size_t i = 0; i < sizeof entry.bytes; i += 8) {
    const std::uint64_t word = random.next();
    std::memcpy(entry.bytes + i, &word, sizeof word);
  }
  return entry;
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
  RingEntry entry = wire::encode(session.notice(static_cast<std::uint32_t>(random.below(4)), 0));
  const std::size_t at = random.below(sizeof entry.bytes - 2) + 2;
  entry.bytes[at] = static_cast<std::byte>(random.below(8) == 0 ? random.next() : random.below(8));
  session.send(any_shard(session, random), entry);
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

constexpr Attack kRingAttacks[] = {
    {"garbage", garbage}, {"indices", indices},       {"fields", fields},
    {"bounds", bounds},   {"duplicates", duplicates}, {"stale-epochs", stale_epochs},
    {"flood", flood},     {"undrained", undrained},   {"doorbells", doorbells},
    {"words", words},
};

}  // namespace

std::span<const Attack> attacks() {
  static const auto all = [] {
    std::vector<Attack> table(std::begin(kRingAttacks), std::end(kRingAttacks));
    for (const auto more :
         {notice_attacks(), memory_attacks(), region_attacks(), request_attacks()}) {
      table.insert(table.end(), more.begin(), more.end());
    }
    return table;
  }();
  return all;
}

}  // namespace tally::testing
