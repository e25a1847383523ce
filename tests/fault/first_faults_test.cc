// Real processes: a tallyd and its ranks, killed and stopped in the middle of what they do. The
// others get the error that docs/errors.md promises, in time, and other jobs do not notice.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "base/clock.h"
#include "tests/fault/cluster.h"

namespace tally::testing {
using ::testing::StartsWith;

namespace {

// A deadline's message ends in how long it took, which a busy machine makes longer.
std::string without_seconds(const std::string& line) {
  return line.substr(0, line.rfind(", "));
}

class Faults : public ::testing::Test, protected Cluster {};

TEST_F(Faults, AHealthyJobSumsRight) {
  auto ranks = job(3);
  for (const auto& r : ranks) EXPECT_EQ(ask(*r, "sum 17 1000000 out"), "posted");
  for (const auto& r : ranks) EXPECT_EQ(ask(*r, "wait"), "17 ok wrong 0");
}

TEST_F(Faults, AWorkerKilledBeforeItAnnounces) {
  auto ranks = job(3);
  for (int r : {0, 2}) EXPECT_EQ(ask(*ranks[r], "sum 17 100000 out"), "posted");
  ranks[1]->signal(SIGKILL);
  for (int r : {0, 2}) {
    EXPECT_EQ(ask(*ranks[r], "wait"),
              "17 peer lost 1 0 | tag 17 round 0: rank 1 died or its connection broke");
    EXPECT_EQ(ask(*ranks[r], "sum 18 10"), "posted");
    EXPECT_EQ(ask(*ranks[r], "wait"),
              "18 peer lost 1 0 | tag 18 round 0: rank 1 died or its connection broke");
  }
}

// Killed at any moment of a stream of operations; a second job on the same shards runs on.
TEST_F(Faults, AWorkerKilledInTheMiddleHarmsItsJobAlone) {
  const int trials = test_tier() == "soak" ? 100 : 5;
  for (int trial = 0; trial < trials; ++trial) {
    auto doomed = job(3, "doomed");
    auto healthy = job(2, "healthy");
    for (const auto& r : doomed) r->send("loop 5 2000000 1000000");
    for (const auto& r : healthy) r->send("loop 7 500000 30");
    ::usleep(static_cast<useconds_t>(20'000 + trial * 17'001 % 90'000));
    doomed[1]->signal(SIGKILL);
    const Nanos killed = monotonic_now();
    for (int r : {0, 2}) {
      const std::string line = doomed[r]->line();
      EXPECT_NE(line.find("peer lost 1"), std::string::npos) << line;
    }
    EXPECT_LT(monotonic_now() - killed, 10 * kSecond);
    for (const auto& r : healthy) EXPECT_EQ(r->line(), "looped 30 wrong 0");
  }
}

TEST_F(Faults, AJobFormsAgainAfterALoss) {
  auto ranks = job(2);
  ranks[1]->signal(SIGKILL);
  EXPECT_EQ(ranks[1]->wait(), 128 + SIGKILL);
  EXPECT_EQ(ask(*ranks[0], "sum 1 10"), "posted");
  EXPECT_NE(ask(*ranks[0], "wait").find("peer lost 1"), std::string::npos);
  EXPECT_EQ(ask(*ranks[0], "open"), "ready");
  ranks[1] = rank(1, 2);
  EXPECT_EQ(ranks[1]->line(), "ready");
  for (const auto& r : ranks) EXPECT_EQ(ask(*r, "sum 1 100000"), "posted");
  for (const auto& r : ranks) EXPECT_EQ(ask(*r, "wait"), "1 ok wrong 0");
}

TEST_F(Faults, TheNodeKilledAndStartedAgain) {
  auto ranks = job(2);
  EXPECT_EQ(ask(*ranks[0], "sum 3 1000 out"), "posted");
  node->signal(SIGKILL);
  EXPECT_EQ(ask(*ranks[0], "wait"), "3 node lost -1 0 | tag 3 round 0: the node at " + address +
                                        ": it died or closed the connection");
  EXPECT_THAT(ask(*ranks[0], "sum 4 10"), StartsWith("refused session with"));
  start_node();  // the socket that the dead one left is no obstacle
  for (const auto& r : ranks) EXPECT_EQ(ask(*r, "open"), "ready");
  for (const auto& r : ranks) EXPECT_EQ(ask(*r, "sum 3 100000"), "posted");
  for (const auto& r : ranks) EXPECT_EQ(ask(*r, "wait"), "3 ok wrong 0");
}

TEST_F(Faults, TheNodeStoppedInTheMiddleGivesTheBuffersBackAtTheDeadline) {
  auto ranks = job(2);
  EXPECT_EQ(ask(*ranks[0], "deadline 200"), "deadline");
  EXPECT_EQ(ask(*ranks[0], "sum 3 1000 out"), "posted");
  node->signal(SIGSTOP);
  EXPECT_THAT(ask(*ranks[0], "wait"), StartsWith("3 node lost"));
  node->signal(SIGCONT);
}

TEST_F(Faults, TheNodeEndsCleanlyOnSigterm) {
  auto ranks = job(4);
  for (int r = 0; r < 3; ++r) EXPECT_EQ(ask(*ranks[r], "sum 3 1000 out"), "posted");
  node.stop();
  // Nobody is told that another rank was lost, though their sessions end one after the other.
  for (int r = 0; r < 3; ++r) EXPECT_THAT(ask(*ranks[r], "wait"), StartsWith("3 node lost"));
  EXPECT_FALSE(std::filesystem::exists(node / "tallyd.sock"));
}

TEST_F(Faults, RanksThatDisagreeHaveTheRanksAndTheirValues) {
  auto ranks = job(3);
  EXPECT_EQ(ask(*ranks[0], "sum 9 1000"), "posted");
  EXPECT_EQ(ask(*ranks[1], "sum 9 1001"), "posted");
  // Which of the two came first is chance; that all ranks are told the same is not.
  std::vector<std::string> answers{ask(*ranks[0], "wait"), ask(*ranks[1], "wait")};
  EXPECT_EQ(ask(*ranks[2], "sum 9 1000"), "posted");
  answers.push_back(ask(*ranks[2], "wait"));
  const std::string one_way = "rank 1 announced count 1001, rank 0 announced 1000";
  const std::string other_way = "rank 0 announced count 1000, rank 1 announced 1001";
  for (std::string& line : answers) {
    if (const auto own = line.find(" (this rank)"); own != std::string::npos) line.erase(own);
    EXPECT_EQ(line.find("9 mismatch"), 0u) << line;
    EXPECT_TRUE(line.find(one_way) != std::string::npos ||
                line.find(other_way) != std::string::npos)
        << line;
    EXPECT_EQ(line, answers[0]);
  }
  for (const auto& r : ranks) EXPECT_EQ(ask(*r, "sum 9 1000"), "posted");
  for (const auto& r : ranks) EXPECT_EQ(ask(*r, "wait"), "9 ok wrong 0");
}

// One rank thinks the operation is small, the other that it is divided over the shards.
TEST_F(Faults, RanksThatDisagreeAboutTheCutToo) {
  auto ranks = job(2);
  EXPECT_EQ(ask(*ranks[0], "sum 9 1000"), "posted");
  EXPECT_EQ(ask(*ranks[1], "sum 9 4000000"), "posted");
  EXPECT_THAT(ask(*ranks[1], "wait"), StartsWith("9 mismatch"));
  EXPECT_THAT(ask(*ranks[0], "wait"), StartsWith("9 mismatch"));
  for (const auto& r : ranks) EXPECT_EQ(ask(*r, "sum 9 4000000"), "posted");
  for (const auto& r : ranks) EXPECT_EQ(ask(*r, "wait"), "9 ok wrong 0");
}

TEST_F(Faults, ARankThatNeverAnnouncesIsNamedAtTheDeadline) {
  auto ranks = job(3);
  for (const auto& r : ranks) EXPECT_EQ(ask(*r, "sum 17 10"), "posted");
  for (const auto& r : ranks) EXPECT_EQ(ask(*r, "wait"), "17 ok wrong 0");
  for (const auto& r : ranks) EXPECT_EQ(ask(*r, "deadline 300"), "deadline");
  const Nanos start = monotonic_now();
  for (int r : {0, 1}) EXPECT_EQ(ask(*ranks[r], "sum 17 10"), "posted");
  for (int r : {0, 1}) {
    EXPECT_EQ(
        without_seconds(ask(*ranks[r], "wait")),
        "17 deadline 2 0 | tag 17 round 1: waiting for rank 2 (last announced: tag 17 round 0)");
  }
  EXPECT_GE(monotonic_now() - start, 300 * kMillisecond);
  EXPECT_EQ(ask(*ranks[2], "sum 17 10"), "posted");
  EXPECT_EQ(ask(*ranks[2], "wait").find("17 deadline 2 0"), 0u) << "the verdict is final for all";
  for (const auto& r : ranks) EXPECT_EQ(ask(*r, "sum 17 10"), "posted");
  for (const auto& r : ranks) EXPECT_EQ(ask(*r, "wait"), "17 ok wrong 0");
}

TEST_F(Faults, ARankThatNeverConnectsIsNamedToo) {
  auto first = rank(0, 2);
  EXPECT_EQ(first->line(), "ready");
  EXPECT_EQ(ask(*first, "deadline 100"), "deadline");
  EXPECT_EQ(ask(*first, "sum 1 10"), "posted");
  EXPECT_EQ(without_seconds(ask(*first, "wait")),
            "1 deadline 1 0 | tag 1 round 0: waiting for rank 1 (has announced nothing yet)");
}

TEST_F(Faults, ARankThatLeavesIsNamed) {
  auto ranks = job(2);
  ranks[1].reset();
  EXPECT_EQ(ask(*ranks[0], "sum 1 10"), "posted");
  EXPECT_NE(ask(*ranks[0], "wait").find("rank 1"), std::string::npos);
}

TEST_F(Faults, ARefusalHasItsReason) {
  auto first = rank(0, 2);
  EXPECT_EQ(first->line(), "ready");
  auto same = rank(0, 2);
  EXPECT_NE(same->line().find("rank 0 is taken"), std::string::npos);
  auto other = rank(1, 3);
  EXPECT_NE(other->line().find("has 2 ranks, rank 1 says 3"), std::string::npos);
}

}  // namespace
}  // namespace tally::testing
