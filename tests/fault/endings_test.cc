// How a rank's process can end or multiply with its session open, and how ranks can disagree: the
// others are told who it was, and what.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include "base/clock.h"
#include "net/rpc/rpc_channel.h"
#include "tests/fault/cluster.h"

namespace tally::testing {
using ::testing::HasSubstr;
using ::testing::StartsWith;

namespace {

class Endings : public ::testing::Test, protected Cluster {
 protected:
  // The ranks of a job, the first of which waits for the others.
  std::vector<std::unique_ptr<Process>> waiting_job() {
    auto ranks = job(2, "train", {.elements = 50'000});
    EXPECT_EQ(ask(*ranks[0], "sum 17 50000 out"), "posted");
    ranks[0]->send("wait");
    return ranks;
  }
};

TEST_F(Endings, ExitAbortAndExecLoseTheRankAtOnce) {
  for (const char* how : {"exit", "abort", "exec"}) {
    SCOPED_TRACE(how);
    const auto ranks = waiting_job();
    const Nanos start = monotonic_now();
    ranks[1]->send(how);
    EXPECT_EQ(ranks[0]->line(),
              "17 peer lost 1 0 | tag 17 round 0: rank 1 died or its connection broke");
    EXPECT_LT(monotonic_now() - start, 10 * kSecond);
  }
  EXPECT_EQ(left_behind(), "");
}

TEST_F(Endings, AChildOfAForkIsRefusedAndDisturbsNothing) {
  const auto ranks = job(2, "train", {.elements = 50'000});
  EXPECT_EQ(ask(*ranks[0], "sum 17 50000 out"), "posted");  // outstanding while the child tries
  EXPECT_THAT(ask(*ranks[0], "fork"),
              StartsWith("child: tally_fd: the session belongs to the process that forked this"));
  EXPECT_EQ(ask(*ranks[1], "sum 17 50000 out"), "posted");
  for (const auto& rank : ranks) EXPECT_EQ(ask(*rank, "wait"), "17 ok wrong 0");
  for (const auto& rank : ranks) EXPECT_EQ(ask(*rank, "close"), "closed");
  EXPECT_EQ(left_behind(), "");
}

// The child holds the dead one's sockets open, so nothing hangs up.
TEST_F(Endings, ARankIsLostThoughItsChildLives) {
  const auto ranks = waiting_job();
  const std::string answer = ask(*ranks[1], "fork-live");
  ASSERT_THAT(answer, StartsWith("child "));
  const Nanos start = monotonic_now();
  ranks[1]->signal(SIGKILL);
  EXPECT_THAT(ranks[0]->line(), StartsWith("17 peer lost 1 0"));
  EXPECT_LT(monotonic_now() - start, 10 * kSecond);
  ::kill(std::stoi(answer.substr(6)), SIGKILL);
}

// The shards let go of a session one after the other; a rank that hears of the end from one must
// not be taken for dead by the next.
TEST_F(Endings, ANodeThatEndsBlamesNoRank) {
  const int trials = test_tier() == "soak" ? 200 : test_tier() == "fast" ? 5 : 20;
  for (int trial = 0; trial < trials; ++trial) {
    if (trial > 0) start_node();
    const auto ranks = job(3, "train", {.elements = 500'000});
    for (const auto& rank : ranks) rank->send("loop 5 500000 1000000");
    ::poll(nullptr, 0, 5 + trial % 7);
    node->signal(SIGTERM);
    for (const auto& rank : ranks) EXPECT_THAT(rank->line(), StartsWith("5 node lost"));
    EXPECT_EQ(node->wait(), 0);
  }
}

// A rank that comes late is named to whoever asks, and nobody is harmed.
TEST_F(Endings, ASlowRankIsNamedWhileItIsWaitedFor) {
  const auto ranks = waiting_job();
  const Nanos deadline = monotonic_now() + 20 * kSecond;
  auto channel = rpc::RpcChannel::connect(address, deadline);
  ASSERT_TRUE(channel);
  std::string jobs;
  while (monotonic_now() < deadline && jobs.find("\"missing\":[1]") == std::string::npos) {
    const auto reply = channel->call("node.jobs", nlohmann::json::object(), {}, deadline);
    ASSERT_TRUE(reply) << reply.error().message;
    jobs = reply->dump();
  }
  EXPECT_THAT(jobs, HasSubstr("\"missing\":[1],"));
  EXPECT_THAT(jobs, HasSubstr("\"tag\":17"));
  EXPECT_EQ(ask(*ranks[1], "sum 17 50000 out"), "posted");
  EXPECT_EQ(ask(*ranks[1], "wait"), "17 ok wrong 0");
  EXPECT_EQ(ranks[0]->line(), "17 ok wrong 0");
}

// Two ranks that disagree about one field, and what all are told of it.
struct Disagreement {
  const char* field;
  const char* one;  // COUNT KIND TYPE OP ROOT
  const char* other;
};
constexpr Disagreement kDisagreements[] = {
    {"kind", "1000 1 0 0 0", "1000 4 0 0 0"},     {"kind", "1000 2 0 0 0", "1000 3 0 0 0"},
    {"type", "1000 1 0 0 0", "1000 1 6 0 0"},     {"operation", "1000 1 0 0 0", "1000 1 0 3 0"},
    {"count", "1000 1 0 0 0", "1001 1 0 0 0"},    {"root", "1000 2 0 0 0", "1000 2 0 0 1"},
    {"count", "1000 1 0 0 0", "500000 1 0 0 0"},  // and about the cut
    {"type", "500000 1 0 0 0", "500000 1 2 0 0"},
};

TEST_F(Endings, RanksThatDisagreeInAnyFieldHaveItsName) {
  const auto ranks = job(3, "train", {.elements = 1 << 20});
  std::uint32_t tag = 0;
  for (const Disagreement& d : kDisagreements) {
    SCOPED_TRACE(std::string(d.field) + ": " + d.one + " against " + d.other);
    const std::string name = std::to_string(++tag);
    for (int r = 0; r < 3; ++r) {
      const char* what = r == 1 ? d.other : d.one;
      EXPECT_EQ(ask(*ranks[static_cast<std::size_t>(r)], "announce " + name + " " + what),
                "posted");
    }
    for (const auto& rank : ranks) {
      const std::string answer = ask(*rank, "wait");
      EXPECT_THAT(answer, StartsWith(name + " mismatch"));
      EXPECT_THAT(answer, HasSubstr(std::string("announced ") + d.field));
    }
    for (const auto& rank : ranks) EXPECT_EQ(ask(*rank, "sum " + name + " 1000"), "posted");
    for (const auto& rank : ranks) EXPECT_EQ(ask(*rank, "wait"), name + " ok wrong 0");
  }
}

}  // namespace
}  // namespace tally::testing
