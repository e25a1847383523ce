// Attacks by notices that parse: each is what some honest client could send, at the wrong time, in
// the wrong number, or about the wrong memory.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <stdexcept>

#include "dataplane/wire/completion.h"
#include "dataplane/wire/vertex.h"
#include "tests/fault/attacks.h"

namespace tally::testing {
namespace {

using transport::Random;

constexpr wire::Kind kCollectives[] = {wire::Kind::kAllReduce, wire::Kind::kReduce,
                                       wire::Kind::kBroadcast, wire::Kind::kReduceScatter,
                                       wire::Kind::kAllGather, wire::Kind::kBarrier};
constexpr ElementType kTypes[] = {ElementType::kF32,  ElementType::kF64, ElementType::kF16,
                                  ElementType::kBf16, ElementType::kI8,  ElementType::kU8,
                                  ElementType::kI32,  ElementType::kI64};
constexpr Operation kOperations[] = {Operation::kSum, Operation::kAverage, Operation::kMin,
                                     Operation::kMax};

wire::Notice any_notice(const RawSession& session, Random& random) {
  return session.notice(static_cast<std::uint32_t>(random.below(8)),
                        static_cast<std::uint32_t>(random.below(4)));
}

// The other rank of the job posts tag 3 with 50,000 elements of f32: this one disagrees.
void disagreements(RawSession& session, Random& random, const RawOptions&) {
  wire::Notice notice = session.notice(3, static_cast<std::uint32_t>(random.below(2)), 50'000);
  notice.kind = random.pick(kCollectives);
  notice.type = random.pick(kTypes);
  notice.operation = random.pick(kOperations);
  if (notice.kind == wire::Kind::kReduce || notice.kind == wire::Kind::kBroadcast) {
    notice.root = static_cast<std::uint16_t>(random.below(2));
  }
  if (notice.kind == wire::Kind::kBarrier) notice.count = 0;
  session.send(notice);
  session.drain();
}

// Every collective, type and operation, with counts that no number of ranks divides.
void collectives(RawSession& session, Random& random, const RawOptions& options) {
  constexpr std::uint64_t kCounts[] = {0, 1, 2, 3, 5, 4095, 4097, 12'289};
  wire::Notice notice = any_notice(session, random);
  notice.kind = random.pick(kCollectives);
  notice.type = random.pick(kTypes);
  notice.operation = random.pick(kOperations);
  notice.count = random.pick(kCounts);
  if (notice.kind == wire::Kind::kReduce || notice.kind == wire::Kind::kBroadcast) {
    notice.root = static_cast<std::uint16_t>(random.below(options.ranks + 1));
  }
  session.send(notice);
  session.drain();
}

void deadlines(RawSession& session, Random& random, const RawOptions&) {
  for (int i = 0; i < 50; ++i) {
    wire::Notice notice = session.notice(static_cast<std::uint32_t>(random.next()), 0);
    notice.deadline_ms = static_cast<std::uint32_t>(1 + random.below(3));
    session.send(notice);
  }
  session.drain();
}

// Of operations that nobody has announced, on the account of ranks that do not exist.
void cancels(RawSession& session, Random& random, const RawOptions&) {
  wire::Notice notice = any_notice(session, random);
  notice.kind = wire::Kind::kCancel;
  notice.part = static_cast<std::uint16_t>(random.below(3) == 0 ? random.next() : 0);
  notice.root = static_cast<std::uint16_t>(random.next());
  session.send(notice);
  session.drain();
}

void parts(RawSession& session, Random& random, const RawOptions&) {
  wire::Notice notice = any_notice(session, random);
  notice.part = static_cast<std::uint16_t>(random.next());
  notice.group = static_cast<std::uint16_t>(random.below(2) == 0 ? random.next() : 0);
  session.send(static_cast<std::uint32_t>(random.below(session.shards())), wire::encode(notice));
  session.drain();
}

void rounds(RawSession& session, Random& random, const RawOptions&) {
  constexpr std::uint32_t kRounds[] = {0, 1, INT32_MAX, UINT32_MAX - 1, UINT32_MAX};
  wire::Notice notice = any_notice(session, random);
  notice.tag = random.pick(kRounds);
  notice.round = random.pick(kRounds);
  session.send(notice);
  session.drain();
}

// What only a child node of a tree may say.
void child_messages(RawSession& session, Random& random, const RawOptions&) {
  constexpr wire::VertexKind kKinds[] = {
      wire::VertexKind::kTileReady,  wire::VertexKind::kTilePlaced, wire::VertexKind::kTileWanted,
      wire::VertexKind::kTileResult, wire::VertexKind::kMissing,    wire::VertexKind::kBroken};
  wire::VertexMessage message;
  message.kind = random.pick(kKinds);
  message.epoch = session.epoch;
  message.tag = static_cast<std::uint32_t>(random.below(8));
  message.buffer = static_cast<std::uint32_t>(random.below(2) == 0 ? random.next() : 0);
  message.count = static_cast<std::uint32_t>(1 + random.below(4096));
  if (message.kind == wire::VertexKind::kBroken) message.status = Status::kPeerLost;
  session.send(static_cast<std::uint32_t>(random.below(session.shards())), wire::encode(message));
}

void partial_notices(RawSession& session, Random& random, const RawOptions&) {
  wire::Notice notice = any_notice(session, random);
  notice.flags = wire::kPartial;
  notice.out_region = wire::kNoRegion;
  session.send(notice);
  session.drain();
}

// A completion is what the node sends.
void completions(RawSession& session, Random& random, const RawOptions&) {
  wire::Completion completion;
  completion.epoch = session.epoch;
  completion.tag = static_cast<std::uint32_t>(random.below(8));
  session.send(static_cast<std::uint32_t>(random.below(session.shards())),
               wire::encode(completion));
}

// Checksums that are not those of the contribution, statistics that land on them.
void false_checksums(RawSession& session, Random& random, const RawOptions&) {
  wire::Notice notice = any_notice(session, random);
  notice.flags = wire::kHasChecksums;
  if (random.below(2) == 0) notice.flags |= wire::kWantStats;
  notice.side_region = session.region;
  session.send(notice);
  session.drain();
}

// The result lands on its own input, at another place.
void overlaps(RawSession& session, Random& random, const RawOptions&) {
  wire::Notice notice = session.notice(static_cast<std::uint32_t>(random.below(8)), 0, 50'000);
  notice.in_offset = 4 * random.below(1000);
  notice.out_offset = 4 * random.below(1000);
  session.send(notice);
  session.drain();
}

void misaligned(RawSession& session, Random& random, const RawOptions&) {
  wire::Notice notice = session.notice(static_cast<std::uint32_t>(random.below(8)), 0, 10'000);
  notice.type = random.pick(kTypes);
  notice.in_offset = random.below(4096);
  notice.out_offset = random.below(4096);
  session.send(notice);
  session.drain();
}

// The highest priority, as small and as often as can be.
void priorities(RawSession& session, Random& random, const RawOptions&) {
  for (int i = 0; i < 100; ++i) {
    wire::Notice notice = session.notice(static_cast<std::uint32_t>(random.below(64)),
                                         static_cast<std::uint32_t>(i), 1);
    notice.priority = 255;
    session.send(notice);
  }
  session.drain();
}

// Entries of the ring change while the node reads them.
void torn_entries(RawSession& session, Random& random, const RawOptions&) {
  const auto shard = static_cast<std::uint32_t>(random.below(session.shards()));
  const auto entries = session.segment.notice_entries(shard);
  const std::uint64_t seed = random.next();
  // As a rule a child does not have the segment.
  ::madvise(session.memory.mapping.data(), session.memory.mapping.size(), MADV_DOFORK);
  const pid_t writer = ::fork();  // a process: what it writes is no race of this one
  if (writer == 0) {
    Random bytes(seed);
    for (int i = 0; i < 2000; ++i) {
      auto& byte = entries[bytes.below(entries.size())].bytes[bytes.below(sizeof(RingEntry))];
      static_cast<volatile std::byte&>(byte) = static_cast<std::byte>(bytes.below(8));
    }
    ::_exit(0);
  }
  for (int i = 0; i < 50; ++i) session.send(any_notice(session, random));
  int status = -1;
  if (writer < 0 || ::waitpid(writer, &status, 0) != writer || status != 0) {
    throw std::runtime_error("the writer of torn entries has not written them");
  }
  session.drain();
}

// The contribution changes while the node sums it.
void changing_inputs(RawSession& session, Random& random, const RawOptions&) {
  session.send(session.notice(static_cast<std::uint32_t>(random.below(8)), 0, 100'000));
  auto* const data = reinterpret_cast<volatile std::uint64_t*>(session.data.mapping.data());
  for (int i = 0; i < 2000; ++i) data[random.below(RawSession::kRegionBytes / 8)] = random.next();
  session.drain();
}

constexpr Attack kNoticeAttacks[] = {
    {"disagreements", disagreements},
    {"collectives", collectives},
    {"deadlines", deadlines},
    {"cancels", cancels},
    {"parts", parts},
    {"rounds", rounds},
    {"child-messages", child_messages},
    {"partial-notices", partial_notices},
    {"completions", completions},
    {"false-checksums", false_checksums},
    {"overlaps", overlaps},
    {"misaligned", misaligned},
    {"priorities", priorities},
    {"torn-entries", torn_entries},
    {"changing-inputs", changing_inputs},
};

}  // namespace

std::span<const Attack> notice_attacks() {
  return kNoticeAttacks;
}

}  // namespace tally::testing
