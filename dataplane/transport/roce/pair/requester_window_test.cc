// What a requester has on its way at a time.
#include <gmock/gmock.h>

#include "tests/support/roce/requester_fixture.h"

namespace tally::transport::roce {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST_F(RequesterTest, KeepsToTheWindowAndToTheReads) {
  requester.set_window(4);
  post(WorkKind::kWrite, 1, 2048);
  EXPECT_THAT(sent(), ElementsAre(100, 101, 102, 103));
  acknowledge(101);
  EXPECT_THAT(sent(), ElementsAre(104, 105));
  acknowledge(107);
  EXPECT_THAT(done(), IsEmpty()) << "the answer is for what was not sent";
  acknowledge(105);
  sent();
  acknowledge(107);
  EXPECT_THAT(done(), ElementsAre(1));
  for (std::uint64_t id = 2; id < 8; ++id) post(WorkKind::kRead, id, 256);
  EXPECT_THAT(sent(), ElementsAre(108, 109));
  answer(109, Opcode::kReadOnly);
  EXPECT_THAT(sent(), IsEmpty()) << "the first may have to be sent again";
  answer(108, Opcode::kReadOnly);
  EXPECT_THAT(sent(), ElementsAre(110, 111));
  answer(110, Opcode::kReadOnly);
  EXPECT_THAT(sent(), ElementsAre(112)) << "one is still on its way";
}

TEST_F(RequesterTest, AReadAsksForHalfOfTheWindow) {
  requester.set_window(8);
  post(WorkKind::kRead, 1, 10 * 256 + 5);
  EXPECT_THAT(sent(), ElementsAre(100, 104));
  EXPECT_EQ(packets[0].reth.bytes, 4 * 256U);
  EXPECT_EQ(packets[1].reth.address, packets[0].reth.address + 4 * 256);
  requester.set_window(64);
  answer_all(100, 4);
  EXPECT_THAT(sent(), ElementsAre(108)) << "the rest fits";
  EXPECT_EQ(packets[0].reth.bytes, 2 * 256 + 5U);
  answer_all(104, 4);
  EXPECT_THAT(done(), IsEmpty());
  answer_all(108, 3, 5);
  EXPECT_THAT(done(), ElementsAre(1));
}

TEST_F(RequesterTest, AReadAsksForAllOfASmallWindow) {
  requester.set_window(4);
  post(WorkKind::kRead, 1, 6 * 256);
  EXPECT_THAT(sent(), ElementsAre(100));
  EXPECT_EQ(packets[0].reth.bytes, 4 * 256U);
  answer_all(100, 4);
  EXPECT_THAT(sent(), ElementsAre(104));
  EXPECT_EQ(packets[0].reth.bytes, 2 * 256U);
}

TEST_F(RequesterTest, LongReadsWaitAndTheOthersPass) {
  requester.set_windows({.all = 64, .reads = 64, .long_reads = false});
  post(WorkKind::kRead, 1, 5 * 256);
  post(WorkKind::kSend, 2, 10);
  post(WorkKind::kRead, 3, 4 * 256);
  post(WorkKind::kWrite, 4, 10);
  EXPECT_THAT(sent(), ElementsAre(100, 101, 105));
  EXPECT_EQ(packets[1].reth.bytes, 4 * 256U);
  EXPECT_EQ(requester.long_reads_waiting(), 1U);
  EXPECT_EQ(requester.long_reads_outstanding(), 0U);
  requester.set_window(64);
  EXPECT_THAT(sent(), ElementsAre(106));
  EXPECT_EQ(packets[0].reth.bytes, 5 * 256U);
  EXPECT_EQ(requester.long_reads_waiting(), 0U);
  EXPECT_EQ(requester.long_reads_outstanding(), 1U);
  acknowledge(100);
  answer_all(101, 4);
  acknowledge(105);
  answer_all(106, 5);
  EXPECT_EQ(requester.long_reads_outstanding(), 0U);
  EXPECT_THAT(done(), ElementsAre(2, 3, 4, 1));
}

TEST_F(RequesterTest, WhatHasBegunOfALongReadIsCompleted) {
  requester.set_window(8);
  post(WorkKind::kRead, 1, 2 * kReadPackets * 256);
  EXPECT_THAT(sent(), ElementsAre(100, 104));
  EXPECT_EQ(requester.long_reads_waiting(), 1U);
  requester.set_windows({.all = 8, .reads = 8, .long_reads = false});
  for (std::uint32_t first = 100; first < 100 + kReadPackets; first += 4)
    answer_all(first, 4), sent();
  EXPECT_EQ(requester.long_reads_outstanding(), 0U) << "what had begun is complete";
  EXPECT_EQ(requester.long_reads_waiting(), 1U);
}

TEST_F(RequesterTest, AFailureEndsTheLongReadsThatWait) {
  requester.set_windows({.all = 64, .reads = 64, .long_reads = false});
  post(WorkKind::kRead, 1, 5 * 256);
  post(WorkKind::kWrite, 2, 10);
  EXPECT_THAT(sent(), ElementsAre(100));
  acknowledge(100, refused_with(Refusal::kAccess));
  EXPECT_THAT(done(), ElementsAre(1001, 1002));
  EXPECT_EQ(requester.long_reads_waiting(), 0U);
}

TEST_F(RequesterTest, AFullWindowHasAskedForAnAcknowledgement) {
  requester.set_window(3);
  post(WorkKind::kWrite, 1, 2048);
  EXPECT_THAT(sent(), ElementsAre(100, 101, 102));
  EXPECT_TRUE(packets.back().asks_for_ack);
  acknowledge(102);
  EXPECT_THAT(sent(), ElementsAre(103, 104, 105));
  EXPECT_TRUE(packets.back().asks_for_ack);
}

TEST_F(RequesterTest, AsksOneMorePacketWhenTheWindowShrinksBelowWhatIsOnItsWay) {
  post(WorkKind::kWrite, 1, 2048);
  Outgoing packet;
  for (int i = 0; i < 5; ++i) {
    ASSERT_TRUE(requester.next(packet, now));
    EXPECT_FALSE(packet.asks_for_ack);
  }
  requester.set_window(2);
  EXPECT_THAT(sent(), ElementsAre(105)) << "nothing before it has asked";
  EXPECT_TRUE(packets[0].asks_for_ack);
  acknowledge(105);
  EXPECT_THAT(sent(), ElementsAre(106, 107));
}

TEST_F(RequesterTest, KeepsToTheCreditsOfTheOtherEnd) {
  for (std::uint64_t id = 1; id <= 6; ++id) post(WorkKind::kSend, id, 64);
  requester.set_window(1);
  EXPECT_THAT(sent(), ElementsAre(100));
  requester.set_window(100);
  acknowledge(100, credit_code(2), 1);
  EXPECT_THAT(sent(), ElementsAre(101, 102));
  acknowledge(102, credit_code(0), 3);
  EXPECT_THAT(sent(), ElementsAre(103)) << "one finds out whether there are new ones";
  acknowledge(103, kAck, 4);
  EXPECT_THAT(sent(), ElementsAre(104, 105));
}

}  // namespace
}  // namespace tally::transport::roce
