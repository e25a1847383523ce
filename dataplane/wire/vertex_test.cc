#include "dataplane/wire/vertex.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "dataplane/wire/completion.h"

namespace tally::wire {
namespace {

VertexMessage tile() {
  VertexMessage message;
  message.kind = VertexKind::kTileWanted;
  message.epoch = 0xdeadbeef;
  message.tree = 258;
  message.tag = 17;
  message.round = 5;
  message.part = 0x1234;
  message.buffer = 77;
  message.first = 1ULL << 40;
  message.count = 65'536;
  return message;
}

VertexMessage broken() {
  VertexMessage message;
  message.kind = VertexKind::kBroken;
  message.epoch = 3;
  message.status = Status::kPeerLost;
  message.culprit = 9;
  return message;
}

Status parsed(const VertexMessage& message) {
  VertexMessage got;
  return parse(encode(message), got);
}

TEST(VertexMessage, ComesBackAsItWasSent) {
  VertexMessage ready = tile();
  ready.kind = VertexKind::kTileReady;
  ready.flags = kVoid;
  VertexMessage missing = tile();
  missing.kind = VertexKind::kMissing;
  missing.buffer = missing.count = 0;
  missing.first = 0;
  for (const VertexMessage& sent : {tile(), ready, missing, broken()}) {
    VertexMessage got;
    ASSERT_EQ(parse(encode(sent), got), Status::kOk) << name(sent.kind);
    EXPECT_EQ(std::memcmp(encode(got).bytes, encode(sent).bytes, kMessageBytes), 0);
    EXPECT_EQ(got.kind, sent.kind);
    EXPECT_EQ(got.tree, sent.tree);
    EXPECT_EQ(got.first, sent.first);
    EXPECT_EQ(got.count, sent.count);
    EXPECT_EQ(got.buffer, sent.buffer);
    EXPECT_EQ(got.culprit, sent.culprit);
  }
}

// The rings carry all three: none can be taken for another.
TEST(VertexMessage, IsNoNoticeAndNoCompletion) {
  Notice notice;
  Completion completion;
  VertexMessage message;
  EXPECT_EQ(parse(encode(tile()), notice), Status::kProtocol);
  EXPECT_EQ(parse(encode(tile()), completion), Status::kProtocol);
  EXPECT_EQ(parse(encode(Notice{}), message), Status::kProtocol);
  EXPECT_EQ(parse(encode(Completion{}), message), Status::kProtocol);
}

TEST(VertexMessage, RefusesWhatNoVertexSends) {
  const auto refuse = [](VertexMessage message, auto&& spoil, const char* why) {
    ASSERT_EQ(parsed(message), Status::kOk);
    spoil(message);
    EXPECT_EQ(parsed(message), Status::kProtocol) << why;
  };
  using M = VertexMessage;
  refuse(
      tile(), [](M& m) { m.count = 0; }, "a tile of nothing");
  refuse(
      tile(), [](M& m) { m.first = kMaxBytes + 1; }, "past the largest operation");
  refuse(
      tile(), [](M& m) { m.flags = kVoid; }, "a void request");
  refuse(
      tile(), [](M& m) { m.flags = 2; }, "an unknown flag");
  refuse(
      tile(), [](M& m) { m.status = Status::kDeadline; }, "a status of no use");
  refuse(
      tile(), [](M& m) { m.culprit = 1; }, "a culprit of no use");
  refuse(
      tile(), [](M& m) { m.kind = VertexKind::kMissing; }, "who is missing has no tile");
  refuse(
      broken(), [](M& m) { m.status = Status::kOk; }, "broken, and well");
  refuse(
      broken(), [](M& m) { m.culprit = kMaxRanks; }, "no rank");
  refuse(
      broken(), [](M& m) { m.tag = 1; }, "a job has no tag");
  for (const std::size_t at : {0, 1, 3, 44, 59, 60, 63}) {
    RingEntry entry = encode(tile());
    entry.bytes[at] ^= std::byte{0x20};
    M got;
    got.tag = 99;
    EXPECT_EQ(parse(entry, got), Status::kProtocol) << at;
    EXPECT_EQ(got.tag, 99u) << "set only after success";
  }
}

TEST(VertexMessage, AnyBytesAreParsedOrRefused) {
  std::mt19937_64 random(7);
  int parsed = 0;
  for (int i = 0; i < 20'000; ++i) {
    RingEntry entry = encode(i % 2 == 0 ? tile() : broken());
    entry.bytes[random() % kMessageBytes] = static_cast<std::byte>(random());
    VertexMessage got;
    if (parse(entry, got) != Status::kOk) continue;
    ++parsed;
    ASSERT_EQ(std::memcmp(encode(got).bytes, entry.bytes, kMessageBytes), 0);
  }
  EXPECT_GT(parsed, 1000);
}

TEST(VertexMessage, EveryKindHasAName) {
  EXPECT_EQ(name(VertexKind::kTileReady), "tile-ready");
  EXPECT_EQ(name(VertexKind::kBroken), "broken");
  EXPECT_EQ(name(static_cast<VertexKind>(0x46)), "unknown");
  EXPECT_EQ(name(static_cast<VertexKind>(0)), "unknown");
}

}  // namespace
}  // namespace tally::wire
