#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "dataplane/wire/completion.h"
#include "dataplane/wire/little_endian.h"
#include "dataplane/wire/notice.h"

namespace tally::wire {
namespace {

Notice sample() {
  Notice notice;
  notice.kind = Kind::kReduce;
  notice.type = ElementType::kBf16;
  notice.operation = Operation::kAverage;
  notice.flags = kWantStats;
  notice.priority = 200;
  notice.part = 0x1234;
  notice.epoch = 0xdeadbeef;
  notice.tag = 17;
  notice.round = 5;
  notice.cookie = 0xc00c1e;
  notice.count = 1ULL << 40;
  notice.in_region = 3;
  notice.out_region = 4;
  notice.in_offset = kMaxBytes - 1;
  notice.out_offset = 4096;
  notice.side_region = 9;
  notice.deadline_ms = 60'000;
  notice.group = 0;
  notice.root = 1023;
  return notice;
}

TEST(LittleEndian, PutsTheLowByteFirst) {
  Le48 field;
  field.set(0x0102'0304'0506);
  std::uint8_t bytes[6];
  std::memcpy(bytes, &field, sizeof bytes);
  EXPECT_EQ(bytes[0], 6);
  EXPECT_EQ(bytes[5], 1);
  EXPECT_EQ(field.get(), 0x0102'0304'0506u);
  EXPECT_EQ(Le48::kMax, 0xffff'ffff'ffffu);
  EXPECT_EQ(Le64::kMax, UINT64_MAX);
}

TEST(Notice, ComesBackAsItWasSent) {
  const Notice sent = sample();
  Notice got;
  ASSERT_EQ(parse(encode(sent), got), Status::kOk);
  EXPECT_EQ(encode(got).bytes[0], std::byte{kVersion});
  EXPECT_EQ(std::memcmp(encode(got).bytes, encode(sent).bytes, kMessageBytes), 0);
  EXPECT_EQ(got.in_offset, sent.in_offset);
  EXPECT_EQ(got.root, sent.root);
  EXPECT_EQ(got.side_region, sent.side_region);
}

// Each row spoils one byte of a good notice, or one field in a way that no correct peer would.
TEST(Notice, RefusesWhatNoPeerSends) {
  struct Row {
    const char* why;
    std::size_t at;
    std::uint8_t value;
  };
  for (const Row& row : {Row{"version", 0, 2}, Row{"kind 0", 1, 0}, Row{"kind 8", 1, 8},
                         Row{"type 8", 2, 8}, Row{"operation 4", 3, 4}, Row{"flag 8", 4, 8}}) {
    RingEntry entry = encode(sample());
    entry.bytes[row.at] = std::byte{row.value};
    Notice got;
    got.tag = 99;
    EXPECT_EQ(parse(entry, got), Status::kProtocol) << row.why;
    EXPECT_EQ(got.tag, 99u) << "set only after success: " << row.why;
  }
}

TEST(Notice, RefusesValuesThatCannotBeRight) {
  const auto refuse = [](auto&& spoil, Status status, const char* why) {
    Notice notice = sample();
    spoil(notice);
    Notice got;
    EXPECT_EQ(parse(encode(notice), got), status) << why;
  };
  refuse([](Notice& n) { n.count = kMaxBytes; }, Status::kInvalidArgument, "bytes past the limit");
  refuse([](Notice& n) { n.in_offset = kMaxBytes + 1; }, Status::kInvalidArgument, "in offset");
  refuse([](Notice& n) { n.out_offset = kMaxBytes + 1; }, Status::kInvalidArgument, "out offset");
  refuse([](Notice& n) { n.root = kMaxRanks; }, Status::kInvalidArgument, "root past the ranks");
  refuse([](Notice& n) { n.kind = Kind::kAllReduce; }, Status::kInvalidArgument, "root of no use");
  refuse([](Notice& n) { n.side_region = kNoRegion; }, Status::kInvalidArgument,
         "no region for statistics");
  refuse([](Notice& n) { n.side_region = kNoRegion, n.flags = kHasChecksums; },
         Status::kInvalidArgument, "no region for checksums");
  refuse([](Notice& n) { n.out_region = kMaxRegions + 1; }, Status::kInvalidArgument,
         "a region that nobody has for the result");
  refuse([](Notice& n) { n.side_region = 1U << 31; }, Status::kInvalidArgument,
         "a region that nobody has for statistics");
  refuse(
      [](Notice& n) {
        n.flags = kPartial;
        n.in_region = 1U << 31;
      },
      Status::kInvalidArgument, "a region that nobody has for buffers");
  refuse([](Notice& n) { n.flags |= kPartial; }, Status::kInvalidArgument,
         "statistics of a partial sum");
  refuse([](Notice& n) { n.kind = Kind::kAllGather, n.root = 0; }, Status::kUnsupported,
         "statistics of a gathered result");
  refuse([](Notice& n) { n.kind = Kind::kBarrier, n.root = 0, n.flags = 0; },
         Status::kInvalidArgument, "a barrier with elements");
}

TEST(Notice, AnyBytesAreParsedOrRefused) {
  std::mt19937_64 random(7);
  for (int i = 0; i < 20'000; ++i) {
    RingEntry entry = encode(sample());
    for (int flips = 0; flips < 3; ++flips) {
      entry.bytes[random() % kMessageBytes] = static_cast<std::byte>(random());
    }
    Notice got;
    if (parse(entry, got) != Status::kOk) continue;
    Notice again;
    ASSERT_EQ(parse(encode(got), again), Status::kOk);
    ASSERT_EQ(std::memcmp(encode(again).bytes, entry.bytes, kMessageBytes), 0);
  }
}

TEST(Completion, ComesBackAsItWasSent) {
  Completion sent;
  sent.status = Status::kMismatch;
  sent.flags = kStarted | kHasLast;
  sent.field = Field::kCount;
  sent.part = 3;
  sent.group = 1;
  sent.epoch = 8;
  sent.tag = 17;
  sent.round = 5;
  sent.cookie = 77;
  sent.culprit = 2;
  sent.witness = 0;
  sent.missing = 4;
  sent.last_tag = 16;
  sent.last_round = 6;
  sent.culprit_value = 1ULL << 50;
  sent.witness_value = 42;
  sent.elapsed_us = 3'200'000;
  Completion got;
  ASSERT_EQ(parse(encode(sent), got), Status::kOk);
  EXPECT_EQ(std::memcmp(encode(got).bytes, encode(sent).bytes, kMessageBytes), 0);
  EXPECT_EQ(got.culprit_value, sent.culprit_value);
  EXPECT_EQ(got.elapsed_us, sent.elapsed_us);
}

TEST(Completion, RefusesWhatNoNodeSends) {
  const auto spoiled = [](std::size_t at, std::uint8_t value) {
    RingEntry entry = encode(Completion{});
    entry.bytes[at] = std::byte{value};
    Completion got;
    return parse(entry, got);
  };
  EXPECT_EQ(spoiled(0, 0), Status::kProtocol) << "version";
  EXPECT_EQ(spoiled(1, 1), Status::kProtocol) << "a notice is no completion";
  EXPECT_EQ(spoiled(2, kStatusCount), Status::kProtocol) << "status";
  EXPECT_EQ(spoiled(4, 4), Status::kProtocol) << "flags";
  EXPECT_EQ(spoiled(5, kFieldCount), Status::kProtocol) << "field";
  EXPECT_EQ(spoiled(60, 1), Status::kProtocol) << "reserved";
}

TEST(Names, EveryKindAndFieldHasOne) {
  EXPECT_EQ(name(Kind::kReduceScatter), "reduce-scatter");
  EXPECT_EQ(name(Field::kRoot), "root");
  EXPECT_EQ(name(static_cast<Kind>(99)), "unknown");
}

}  // namespace
}  // namespace tally::wire
