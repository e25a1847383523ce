// Packets in, packets out: what a requester sends and how it takes answers.
#include "dataplane/transport/roce/pair/requester.h"

#include <gmock/gmock.h>

#include "tests/support/roce/requester_fixture.h"

namespace tally::transport::roce {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST_F(RequesterTest, CutsMessagesIntoPackets) {
  post(WorkKind::kSend, 1, 64);
  post(WorkKind::kWrite, 2, 600);
  post(WorkKind::kRead, 3, 300);
  post(WorkKind::kSend, 4, 0);
  EXPECT_THAT(sent(), ElementsAre(100, 101, 102, 103, 104, 106));
  EXPECT_EQ(packets[0].opcode, Opcode::kSendOnly);
  EXPECT_TRUE(packets[0].asks_for_ack);
  EXPECT_EQ(packets[1].opcode, Opcode::kWriteFirst);
  EXPECT_EQ(packets[1].reth, (Reth{0x1000, 7, 600}));
  EXPECT_FALSE(packets[1].asks_for_ack);
  EXPECT_EQ(packets[2].opcode, Opcode::kWriteMiddle);
  EXPECT_EQ(packets[2].payload, memory.data() + 256);
  EXPECT_EQ(packets[3].opcode, Opcode::kWriteLast);
  EXPECT_EQ(packets[3].bytes, 88U);
  EXPECT_EQ(packets[4].opcode, Opcode::kReadRequest);
  EXPECT_EQ(packets[4].reth, (Reth{0x1000, 7, 300}));
  EXPECT_EQ(packets[5].bytes, 0U);
}

TEST_F(RequesterTest, AnAcknowledgementIsForAllBeforeIt) {
  post(WorkKind::kSend, 1, 64);
  post(WorkKind::kWrite, 2, 600);
  sent();
  acknowledge(102);
  EXPECT_THAT(done(), ElementsAre(1));
  acknowledge(103);
  EXPECT_THAT(done(), ElementsAre(2));
}

TEST_F(RequesterTest, CountsWhatGetsThrough) {
  post(WorkKind::kWrite, 1, 600);
  post(WorkKind::kRead, 2, 700);
  sent();
  EXPECT_EQ(requester.counters().got_through, 0U);
  acknowledge(101);
  EXPECT_EQ(requester.counters().got_through, 2U);
  answer(103, Opcode::kReadFirst);
  EXPECT_EQ(requester.counters().got_through, 4U) << "and the rest of the WRITE";
  answer(103, Opcode::kReadFirst);
  acknowledge(101);
  EXPECT_EQ(requester.counters().got_through, 4U) << "the same again";
}

TEST_F(RequesterTest, TakesTheAnswersOfAReadInAnyOrder) {
  post(WorkKind::kRead, 1, 700);
  sent();
  EXPECT_EQ(answer(102, Opcode::kReadLast, 188)->offset, 512U);
  EXPECT_EQ(answer(100, Opcode::kReadFirst)->offset, 0U);
  EXPECT_FALSE(answer(100, Opcode::kReadFirst)) << "twice";
  EXPECT_THAT(done(), IsEmpty());
  EXPECT_EQ(answer(101, Opcode::kReadMiddle)->offset, 256U);
  EXPECT_THAT(done(), ElementsAre(1));
}

TEST_F(RequesterTest, IgnoresAnswersThatFitNothing) {
  post(WorkKind::kRead, 1, 700);
  sent();
  EXPECT_FALSE(answer(103, Opcode::kReadLast, 188)) << "not sent";
  EXPECT_FALSE(answer(99, Opcode::kReadFirst)) << "before all";
  EXPECT_FALSE(answer(100, Opcode::kReadOnly)) << "another opcode";
  EXPECT_FALSE(answer(100, Opcode::kReadFirst, 255)) << "another length";
  EXPECT_FALSE(answer(102, Opcode::kReadLast, 256)) << "too long";
  acknowledge(5'000);
  acknowledge(100 - (1 << 23));
  EXPECT_THAT(done(), IsEmpty());
  EXPECT_EQ(requester.counters().ignored, 7U);
  EXPECT_EQ(requester.failure(), Failure::kNone);
}

TEST_F(RequesterTest, AsksForTheMissingPartOfAReadByANewOne) {
  post(WorkKind::kRead, 1, 1024);
  post(WorkKind::kWrite, 2, 10);
  sent();
  answer(100, Opcode::kReadFirst);
  answer(103, Opcode::kReadLast);
  pass(9'999);
  EXPECT_THAT(sent(), IsEmpty()) << "they may still come";
  pass(10'000);
  EXPECT_THAT(sent(), ElementsAre(105));
  EXPECT_EQ(packets[0].opcode, Opcode::kReadRequest);
  EXPECT_EQ(packets[0].reth, (Reth{0x1000 + 256, 7, 512}));
  EXPECT_EQ(answer(106, Opcode::kReadLast)->offset, 512U);
  EXPECT_FALSE(answer(101, Opcode::kReadMiddle)) << "the old READ's packet is late";
  EXPECT_EQ(answer(105, Opcode::kReadFirst)->offset, 256U);
  EXPECT_THAT(done(), ElementsAre(2, 1));
}

// The answer was late and not lost. Now it belongs to the new READ. An earlier READ that is not
// done keeps the old one.
TEST_F(RequesterTest, IgnoresAnAnswerToAReadThatItHasReplaced) {
  post(WorkKind::kRead, 1, 256);
  post(WorkKind::kRead, 2, 700);
  sent();
  answer(101, Opcode::kReadFirst);
  answer(103, Opcode::kReadLast, 188);
  pass(0);
  pass(10'000);
  EXPECT_THAT(sent(), ElementsAre(100));
  EXPECT_FALSE(answer(102, Opcode::kReadMiddle));
  EXPECT_THAT(done(), IsEmpty());
  answer(100, Opcode::kReadOnly);
  EXPECT_THAT(sent(), ElementsAre(104));
  EXPECT_EQ(answer(104, Opcode::kReadOnly)->offset, 256U);
  EXPECT_THAT(done(), ElementsAre(1, 2));
}

TEST_F(RequesterTest, SendsAReadAgainOfWhichNothingHasCome) {
  post(WorkKind::kRead, 1, 512);
  post(WorkKind::kRead, 2, 256);
  sent();
  answer(102, Opcode::kReadOnly);
  pass(1);
  pass(10'000);
  EXPECT_THAT(sent(), ElementsAre(100));
  EXPECT_EQ(packets[0].reth.bytes, 512U);
}

TEST_F(RequesterTest, GoesBackToThePacketThatIsMissing) {
  post(WorkKind::kWrite, 1, 600);
  post(WorkKind::kSend, 2, 64);
  EXPECT_THAT(sent(), ElementsAre(100, 101, 102, 103));
  acknowledge(101, refused_with(Refusal::kSequence));
  EXPECT_THAT(sent(), ElementsAre(101, 102, 103));
  acknowledge(101, refused_with(Refusal::kSequence));
  EXPECT_THAT(sent(), IsEmpty()) << "the network has doubled the answer";
  acknowledge(103);
  EXPECT_THAT(done(), ElementsAre(1, 2));
  EXPECT_EQ(requester.counters().again, 3U);
}

TEST_F(RequesterTest, GivesUpAfterSomeTries) {
  post(WorkKind::kSend, 1, 64);
  sent();
  for (const Nanos wait : {kAckTimeout, 2 * kAckTimeout}) {
    pass(wait - 1);
    EXPECT_THAT(sent(), IsEmpty());
    pass(1);
    EXPECT_THAT(sent(), ElementsAre(100));
  }
  pass(4 * kAckTimeout - 1);
  EXPECT_EQ(requester.failure(), Failure::kNone);
  pass(1);
  EXPECT_THAT(sent(), IsEmpty());
  EXPECT_EQ(requester.failure(), Failure::kNoAnswer);
  EXPECT_THAT(done(), ElementsAre(1001));
  EXPECT_EQ(requester.timer(), Requester::kNever);
}

// The last packets of what is sent are lost, or the answers to them.
class ProbeTest : public RequesterTest {
 public:
  static constexpr Nanos kFirst = 10 * kMillisecond;  // probe
  ProbeTest() {
    PairOptions patient = options();
    patient.ack_timeout = 8 * kFirst;
    requester = Requester(patient);
  }
};

TEST_F(ProbeTest, SendsTheLastPacketOnceMore) {
  post(WorkKind::kWrite, 1, 2048);
  requester.set_window(4);
  EXPECT_THAT(sent(), ElementsAre(100, 101, 102, 103));
  EXPECT_EQ(requester.timer(), now + kFirst);
  pass(kFirst - 1);
  EXPECT_THAT(sent(), IsEmpty());
  pass(1);
  EXPECT_THAT(sent(), ElementsAre(103));
  EXPECT_TRUE(packets[0].asks_for_ack);
  EXPECT_EQ(packets[0].opcode, Opcode::kWriteMiddle);
  EXPECT_THAT(sent(), IsEmpty());
  pass(kFirst);
  EXPECT_THAT(sent(), ElementsAre(103)) << "twice the time after the last answer";
  acknowledge(101, refused_with(Refusal::kSequence));
  EXPECT_THAT(sent(), ElementsAre(101, 102, 103, 104));
  acknowledge(104);
  sent();
  acknowledge(107);
  EXPECT_THAT(done(), ElementsAre(1));
  EXPECT_EQ(requester.counters().timeouts, 0U);
  EXPECT_EQ(requester.timer(), Requester::kNever);
}

TEST_F(ProbeTest, SendsAReadAgainOfWhichNothingHasCome) {
  post(WorkKind::kWrite, 1, 10);
  post(WorkKind::kRead, 2, 512);
  EXPECT_THAT(sent(), ElementsAre(100, 101));
  pass(kFirst);
  EXPECT_THAT(sent(), ElementsAre(101));
  EXPECT_EQ(packets[0].reth.bytes, 512U);
  answer_all(101, 2);
  EXPECT_THAT(done(), ElementsAre(1, 2));
}

TEST_F(ProbeTest, AsksForTheEndOfARead) {
  post(WorkKind::kRead, 1, 1024);
  sent();
  answer(100, Opcode::kReadFirst);
  pass(kFirst);
  EXPECT_THAT(sent(), ElementsAre(104));
  EXPECT_EQ(packets[0].reth, (Reth{0x1000 + 256, 7, 768}));
  answer_all(104, 3);
  EXPECT_THAT(done(), ElementsAre(1));
}

TEST_F(ProbeTest, ProbesDoNotPutOffTheTimeout) {
  post(WorkKind::kWrite, 1, 600);
  sent();
  std::vector<Nanos> at;
  for (Nanos waited = 0; requester.counters().timeouts == 0; waited += kFirst) {
    if (!sent().empty()) at.push_back(waited);
    pass(kFirst);
  }
  EXPECT_THAT(at, ElementsAre(kFirst, 2 * kFirst, 4 * kFirst));
  EXPECT_THAT(sent(), ElementsAre(100, 101, 102)) << "all of it, after the timeout";
}

TEST_F(RequesterTest, WaitsWhereTheOtherEndIsNotReady) {
  post(WorkKind::kSend, 1, 64);
  sent();
  acknowledge(100, not_ready_for(12));
  EXPECT_THAT(sent(), IsEmpty());
  EXPECT_EQ(requester.timer(), now + 640'000);
  pass(640'000);
  EXPECT_THAT(sent(), ElementsAre(100));
  acknowledge(100, not_ready_for(12));
  EXPECT_EQ(requester.failure(), Failure::kNotReady);
}

TEST_F(RequesterTest, ARefusedRequestEndsTheConnection) {
  post(WorkKind::kWrite, 1, 64);
  post(WorkKind::kRead, 2, 64);
  post(WorkKind::kSend, 3, 64);
  sent();
  acknowledge(101, refused_with(Refusal::kAccess));
  EXPECT_EQ(requester.failure(), Failure::kAccess);
  EXPECT_THAT(done(), ElementsAre(1, 1002, 1003));
}

TEST(RoceSyndromes, CodesNeverPromiseMore) {
  for (std::uint32_t messages = 0; messages < 40'000; ++messages) {
    const std::uint8_t code = credit_code(messages);
    ASSERT_LE(kCredits[code], messages);
    if (code < 30) {
      ASSERT_GT(kCredits[code + 1U], messages);
    }
  }
}

}  // namespace
}  // namespace tally::transport::roce
