// How a rank takes its place at the next coordinator.
#include "client/session/resume_job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "tests/support/client/scripted_node.h"

namespace tally::client {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

std::string resume_path(const char* name) {
  return "/tmp/tally-resume-job-test-" + std::to_string(::getpid()) + "-" + name + ".sock";
}

json not_the_coordinator() {
  return refusal(Status::kUnavailable, "no node has joined here");
}

class ResumeJobTest : public ::testing::Test {
 protected:
  static rpc::HighestTerm term_of(std::uint64_t number) {
    rpc::HighestTerm term;
    EXPECT_TRUE(term.accept({{"term", number}}).ok());
    return term;
  }
  Result<ResumedJob> resume(std::vector<std::string> addresses, std::uint64_t term = 7) {
    return resume_job({std::move(addresses), "train", {}, 1, 2, {3, 4}, term_of(term)}, stop_);
  }

  std::atomic<bool> stop_{false};
};

TEST_F(ResumeJobTest, TakesItsPlaceAtTheCoordinator) {
  ScriptedNode node(resume_path("a"), [](const std::string&, const json&) -> json {
    return {{"result", {{"epoch", 4}, {"term", 9}, {"fault_ms", 20'000}}}};
  });
  const auto resumed = resume({node.address()});
  ASSERT_TRUE(resumed.ok()) << resumed.error().message;
  EXPECT_EQ(resumed->epoch, 4U);
  EXPECT_EQ(resumed->term.value(), 9U);
  EXPECT_EQ(resumed->timeouts.fault, 20 * kSecond);
  const auto requests = node.requests();
  ASSERT_EQ(requests.size(), 2U);
  EXPECT_EQ(requests[1].first, "job.resume");
  const json& params = requests[1].second;
  EXPECT_EQ(params.at("job"), "train");
  EXPECT_EQ(params.at("rank"), 1);
  EXPECT_EQ(params.at("ranks"), 2);
  EXPECT_EQ(params.at("epochs"), json::array({3, 4}));
}

// A rank that is left out has no place.
TEST_F(ResumeJobTest, RefusesAnAnswerThatLeavesTheRankOut) {
  ScriptedNode node(resume_path("a"), [](const std::string&, const json&) -> json {
    return {{"result", {{"epoch", 4}, {"on_rank_loss", "finish"}, {"left_out", {1}}}}};
  });
  EXPECT_FALSE(resume({node.address()}, 0).ok());
}

TEST_F(ResumeJobTest, FollowsAMemberToItsCoordinator) {
  ScriptedNode coordinator(resume_path("c"), [](const std::string& method, const json&) -> json {
    if (method == "cluster.nodes") return {{"result", json::array({{{"name", "m"}}})}};
    return {{"result", {{"epoch", 3}, {"term", 8}}}};
  });
  ScriptedNode member(resume_path("m"), [&](const std::string& method, const json&) -> json {
    if (method == "job.resume") return not_the_coordinator();
    return {{"result", {{"name", "m"}, {"coordinator", coordinator.address()}, {"elected", true}}}};
  });
  const auto resumed = resume({"unix:/nowhere", member.address()});
  ASSERT_TRUE(resumed.ok()) << resumed.error().message;
  EXPECT_EQ(resumed->channel.address(), coordinator.address());
}

TEST_F(ResumeJobTest, AsksAgainUntilALaterCoordinatorActs) {
  int asked = 0;
  ScriptedNode node(resume_path("a"), [&](const std::string& method, const json&) -> json {
    if (method == "job.resume") {
      return {{"result", {{"epoch", 3}, {"term", ++asked < 3 ? 6 : 7}}}};
    }
    return {{"result", {{"name", "a"}, {"coordinator", ""}}}};
  });
  const auto resumed = resume({node.address()});
  ASSERT_TRUE(resumed.ok()) << resumed.error().message;
  EXPECT_EQ(asked, 3);
}

TEST_F(ResumeJobTest, ACoordinatorWithoutTheJobEndsTheSearch) {
  ScriptedNode node(resume_path("a"), [](const std::string& method, const json&) -> json {
    if (method != "job.resume") return {{"result", json::object()}};
    return refusal(Status::kStaleEpoch, "it is over");
  });
  const auto resumed = resume({node.address()});
  EXPECT_EQ(resumed.status(), Status::kStaleEpoch);
  EXPECT_THAT(resumed.error().message, HasSubstr("it is over"));
  EXPECT_EQ(node.requests().size(), 2U);
}

TEST_F(ResumeJobTest, WithoutAnElectionItGivesUpSoon) {
  const Nanos begun = monotonic_now();
  EXPECT_EQ(resume({"unix:/nowhere"}, 0).status(), Status::kUnavailable);
  EXPECT_LT(monotonic_now() - begun, 8 * kSecond) << "an election would take 15 s";
}

TEST_F(ResumeJobTest, AMemberOfAnOlderReleaseNamesItsCoordinatorToo) {
  ScriptedNode member(resume_path("m"), [&](const std::string& method, const json&) -> json {
    if (method == "job.resume") return refusal(Status::kUnsupported, "no method job.resume");
    return {{"result", {{"name", "m"}, {"coordinator", ""}}}};
  });
  const auto resumed = resume({member.address()}, 0);
  EXPECT_EQ(resumed.status(), Status::kUnavailable);
  EXPECT_THAT(resumed.error().message, HasSubstr("no method job.resume; "));
  EXPECT_GE(member.requests().size(), 4U) << "it is asked again";
}

TEST_F(ResumeJobTest, CanBeStoppedWhileACoordinatorDoesNotAnswer) {
  ScriptedNode node(resume_path("a"), [this](const std::string& method, const json&) -> json {
    if (method != "job.resume") return {{"result", json::object()}};
    stop_ = true;
    return {};
  });
  const Nanos begun = monotonic_now();
  EXPECT_EQ(resume({node.address()}).status(), Status::kCancelled);
  EXPECT_LT(monotonic_now() - begun, 8 * kSecond);
}

}  // namespace
}  // namespace tally::client
