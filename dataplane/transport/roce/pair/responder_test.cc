// Packets in, packets out: what a responder executes, delivers and answers.
#include "dataplane/transport/roce/pair/responder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <vector>

namespace tally::transport::roce {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr std::uint32_t kKey = 7;
constexpr std::uint64_t kAddress = 0x1000;

// One region of 2048 bytes, which may be withdrawn.
class Region : public ReachableMemory {
 public:
  std::byte* find(std::uint32_t key, std::uint64_t address, std::uint64_t bytes,
                  Right right) const override {
    const std::uint64_t at = address - kAddress;
    const bool is_inside = at <= memory.size() && bytes <= memory.size() - at;
    const bool is_open = is_there && (right == Right::kRead || is_writable);
    return key == kKey && is_inside && is_open ? memory.data() + at : nullptr;
  }

  mutable std::array<std::byte, 2048> memory{};
  bool is_there = true;
  bool is_writable = true;
};

class ResponderTest : public ::testing::Test {
 public:
  static PairOptions options() {
    PairOptions options;
    options.first_expected = Psn(100);
    options.mtu = 256;
    options.reads_in = 2;
    options.reorder_wait = 10'000;
    return options;
  }
  static Packet packet(std::uint32_t psn, Opcode opcode, std::uint32_t payload, Reth reth = {}) {
    Packet packet;
    packet.opcode = opcode;
    packet.psn = Psn(psn);
    packet.payload = payload;
    packet.reth = reth;
    packet.asks_for_ack = true;
    return packet;
  }
  bool take(std::uint32_t psn, Opcode opcode, std::uint32_t payload, Reth reth = {}) {
    return responder.receive(packet(psn, opcode, payload, reth), psn, now);
  }
  // The handles of what is delivered.
  std::vector<std::uint64_t> delivered() {
    std::vector<std::uint64_t> handles;
    for (Delivery one; responder.next_delivery(one);) {
      handles.push_back(one.handle);
      last = one;
    }
    return handles;
  }
  // The answers: PSN, and syndrome of acknowledgements.
  std::vector<std::pair<std::uint32_t, std::uint8_t>> answers() {
    std::vector<std::pair<std::uint32_t, std::uint8_t>> all;
    for (Outgoing one; responder.next(one); one = {}) {
      const bool is_read = one.opcode != Opcode::kAcknowledge;
      all.emplace_back(one.psn.number(), is_read ? 0 : one.aeth.syndrome);
      sent.push_back(one);
    }
    return all;
  }
  static std::pair<std::uint32_t, std::uint8_t> ack(std::uint32_t psn, std::uint32_t receives) {
    return {psn, credit_code(receives)};
  }
  static std::pair<std::uint32_t, std::uint8_t> refused(std::uint32_t psn, Refusal refusal) {
    return {psn, refused_with(refusal)};
  }

  Region region;
  Responder responder{options(), region};
  Delivery last;
  std::vector<Outgoing> sent;
  Nanos now = 1;
};

TEST_F(ResponderTest, DeliversMessagesAndAcknowledgesThemOnce) {
  responder.post_receives(8);
  EXPECT_TRUE(take(100, Opcode::kSendOnly, 64));
  EXPECT_TRUE(take(101, Opcode::kSendFirst, 256));
  EXPECT_TRUE(take(102, Opcode::kSendLast, 10));
  EXPECT_THAT(delivered(), ElementsAre(100, 101, 102));
  EXPECT_TRUE(last.is_message && last.ends && !last.begins);
  EXPECT_THAT(answers(), ElementsAre(ack(102, 6)));
  EXPECT_EQ(sent.back().aeth.messages, 2U);
}

TEST_F(ResponderTest, PlacesWrites) {
  take(100, Opcode::kWriteFirst, 256, {kAddress + 100, kKey, 300});
  take(101, Opcode::kWriteLast, 44);
  EXPECT_THAT(delivered(), ElementsAre(100, 101));
  EXPECT_EQ(last.target, region.memory.data() + 356);
  EXPECT_EQ(last.bytes, 44U);
  EXPECT_THAT(answers(), ElementsAre(ack(101, 0)));
}

TEST_F(ResponderTest, AnswersReadsBeforeWhatFollowsThem) {
  responder.post_receives(8);
  EXPECT_FALSE(take(100, Opcode::kReadRequest, 0, {kAddress, kKey, 600}));
  take(103, Opcode::kSendOnly, 64);
  EXPECT_THAT(answers(),
              ElementsAre(std::pair(100U, 0), std::pair(101U, 0), std::pair(102U, 0), ack(103, 7)));
  EXPECT_EQ(sent[0].opcode, Opcode::kReadFirst);
  EXPECT_EQ(sent[2].opcode, Opcode::kReadLast);
  EXPECT_EQ(sent[2].bytes, 88U);
  EXPECT_EQ(sent[2].payload, region.memory.data() + 512);
}

TEST_F(ResponderTest, ARequestThatComesAgainIsNotExecutedAgain) {
  responder.post_receives(8);
  take(100, Opcode::kSendOnly, 64);
  take(101, Opcode::kWriteOnly, 10, {kAddress, kKey, 10});
  take(102, Opcode::kReadRequest, 0, {kAddress, kKey, 600});
  EXPECT_THAT(delivered(), ElementsAre(100, 101));
  answers();
  EXPECT_FALSE(take(100, Opcode::kSendOnly, 64));
  EXPECT_FALSE(take(101, Opcode::kWriteOnly, 10, {kAddress, kKey, 10}));
  EXPECT_THAT(delivered(), IsEmpty());
  EXPECT_THAT(answers(), ElementsAre(ack(104, 7)));
  // A READ is answered again, also a part of it.
  take(103, Opcode::kReadRequest, 0, {kAddress + 256, kKey, 300});
  EXPECT_THAT(answers(), ElementsAre(std::pair(103U, 0), std::pair(104U, 0)));
  EXPECT_EQ(sent.back().aeth.messages, 3U) << "the count of messages does not go back";
  take(102, Opcode::kReadRequest, 0, {kAddress + 8, kKey, 600});
  take(102, Opcode::kReadRequest, 0, {kAddress, kKey, 601});
  EXPECT_THAT(answers(), IsEmpty()) << "these are other READs";
}

TEST_F(ResponderTest, ExecutesEarlyPacketsInTheirOrder) {
  responder.post_receives(8);
  EXPECT_TRUE(take(102, Opcode::kSendOnly, 64));
  EXPECT_TRUE(take(101, Opcode::kSendOnly, 64));
  EXPECT_FALSE(take(101, Opcode::kSendOnly, 64)) << "kept already";
  EXPECT_THAT(delivered(), IsEmpty());
  EXPECT_THAT(answers(), IsEmpty());
  int kept = 0;
  responder.for_each_kept([&](std::uint64_t) { ++kept; });
  EXPECT_EQ(kept, 2);
  take(100, Opcode::kSendOnly, 64);
  EXPECT_THAT(delivered(), ElementsAre(100, 101, 102));
  EXPECT_THAT(answers(), ElementsAre(ack(102, 5)));
  EXPECT_EQ(responder.timer(), INT64_MAX);
}

TEST_F(ResponderTest, AsksOnceForAMissingPacket) {
  responder.post_receives(100);
  take(101, Opcode::kSendOnly, 64);
  responder.tick(now + 9'999);
  EXPECT_THAT(answers(), IsEmpty());
  EXPECT_EQ(responder.timer(), now + 10'000);
  responder.tick(now + 10'000);
  EXPECT_THAT(answers(), ElementsAre(refused(100, Refusal::kSequence)));
  take(100 + Responder::kMostEarly + 1, Opcode::kSendOnly, 64);
  responder.tick(now + 20'000);
  EXPECT_THAT(answers(), IsEmpty());
  take(100, Opcode::kSendOnly, 64);
  EXPECT_THAT(answers(), ElementsAre(ack(101, 98)));
}

TEST_F(ResponderTest, ManyLaterPacketsShowALoss) {
  responder.post_receives(100);
  for (std::uint32_t psn = 101; psn < 117; ++psn) take(psn, Opcode::kSendOnly, 64);
  EXPECT_THAT(answers(), ElementsAre(refused(100, Refusal::kSequence)));
}

TEST_F(ResponderTest, IsNotReadyWithoutReceives) {
  EXPECT_FALSE(take(100, Opcode::kSendOnly, 64));
  EXPECT_FALSE(take(101, Opcode::kSendOnly, 64)) << "the requester sends both again";
  const auto all = answers();
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(answer_of(all[0].second), Answer::kNotReady);
  responder.post_receives(2);
  EXPECT_TRUE(take(100, Opcode::kSendOnly, 64));
  EXPECT_TRUE(take(101, Opcode::kSendOnly, 64));
  EXPECT_THAT(answers(), ElementsAre(ack(101, 0)));
}

TEST_F(ResponderTest, RefusesMemoryThatIsNotOpen) {
  for (const Reth& reth : {Reth{kAddress, kKey + 1, 10}, Reth{kAddress - 1, kKey, 10},
                           Reth{kAddress + 2040, kKey, 10}, Reth{UINT64_MAX, kKey, 10}}) {
    for (const Opcode opcode : {Opcode::kWriteOnly, Opcode::kReadRequest}) {
      Responder fresh(options(), region);
      const std::uint32_t payload = opcode == Opcode::kWriteOnly ? 10 : 0;
      EXPECT_FALSE(fresh.receive(packet(100, opcode, payload, reth), 1, now));
      Outgoing answer;
      ASSERT_TRUE(fresh.next(answer));
      EXPECT_EQ(answer.aeth.syndrome, refused_with(Refusal::kAccess));
      EXPECT_FALSE(
          fresh.receive(packet(100, Opcode::kReadRequest, 0, {kAddress, kKey, 10}), 1, now));
      EXPECT_FALSE(fresh.next(answer)) << "nothing is executed after that";
      EXPECT_TRUE(fresh.has_failed());
    }
  }
  region.is_writable = false;
  EXPECT_FALSE(take(100, Opcode::kWriteOnly, 10, {kAddress, kKey, 10}));
  EXPECT_THAT(answers(), ElementsAre(refused(100, Refusal::kAccess)));
}

TEST_F(ResponderTest, MemoryMayBeWithdrawnInTheMiddle) {
  take(100, Opcode::kReadRequest, 0, {kAddress, kKey, 600});
  Outgoing first;
  ASSERT_TRUE(responder.next(first));
  region.is_there = false;
  EXPECT_THAT(answers(), ElementsAre(refused(101, Refusal::kAccess)));
  Responder writing(options(), region);
  region.is_there = true;
  EXPECT_TRUE(
      writing.receive(packet(100, Opcode::kWriteFirst, 256, {kAddress, kKey, 300}), 1, now));
  region.is_there = false;
  EXPECT_FALSE(writing.receive(packet(101, Opcode::kWriteLast, 44), 2, now));
  EXPECT_TRUE(writing.has_failed());
}

TEST_F(ResponderTest, RefusesMessagesWithoutShape) {
  struct Step {
    Opcode opcode;
    std::uint32_t payload;
    std::uint32_t bytes;  // of a RETH
  };
  const std::vector<std::vector<Step>> sequences = {
      {{Opcode::kSendMiddle, 256, 0}},
      {{Opcode::kSendLast, 10, 0}},
      {{Opcode::kSendFirst, 255, 0}},
      {{Opcode::kSendOnly, 257, 0}},
      {{Opcode::kSendFirst, 256, 0}, {Opcode::kSendFirst, 256, 0}},
      {{Opcode::kSendFirst, 256, 0}, {Opcode::kWriteLast, 10, 0}},
      {{Opcode::kSendFirst, 256, 0}, {Opcode::kReadRequest, 0, 10}},
      {{Opcode::kSendFirst, 256, 0}, {Opcode::kSendLast, 0, 0}},
      {{Opcode::kWriteOnly, 10, 11}},
      {{Opcode::kWriteFirst, 256, 256}},
      {{Opcode::kWriteFirst, 256, 300}, {Opcode::kWriteLast, 45, 0}},
      {{Opcode::kWriteFirst, 256, 300}, {Opcode::kWriteMiddle, 256, 0}},
      {{Opcode::kWriteFirst, 256, 300}, {Opcode::kSendLast, 44, 0}},
  };
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    Responder fresh(options(), region);
    fresh.post_receives(10);
    std::uint32_t psn = 100;
    for (const Step& step : sequences[i]) {
      EXPECT_FALSE(fresh.has_failed()) << "sequence " << i;
      fresh.receive(packet(psn++, step.opcode, step.payload, {kAddress, kKey, step.bytes}), 1, now);
    }
    EXPECT_TRUE(fresh.has_failed()) << "sequence " << i;
    Outgoing answer;
    Outgoing one;
    while (fresh.next(one)) answer = one;
    EXPECT_EQ(answer.aeth.syndrome, refused_with(Refusal::kInvalidRequest)) << "sequence " << i;
  }
}

TEST_F(ResponderTest, NumbersOutsideOfTheWindowChangeNothing) {
  responder.post_receives(1);
  EXPECT_FALSE(take(100 + Responder::kDuplicates + 1, Opcode::kSendOnly, 64));
  EXPECT_FALSE(take(Psn(100 - Responder::kDuplicates - 1).number(), Opcode::kSendOnly, 64));
  responder.tick(now + 1'000'000);
  EXPECT_THAT(answers(), IsEmpty());
  EXPECT_EQ(responder.counters().ignored, 2U);
}

TEST_F(ResponderTest, RefusesMoreReadsThanWereAgreed) {
  for (std::uint32_t psn = 100; psn < 103; ++psn) {
    take(psn, Opcode::kReadRequest, 0, {kAddress, kKey, 10});
  }
  EXPECT_TRUE(responder.has_failed());
  EXPECT_THAT(answers(), ElementsAre(std::pair(100U, 0), std::pair(101U, 0),
                                     refused(102, Refusal::kInvalidRequest)));
}

}  // namespace
}  // namespace tally::transport::roce
