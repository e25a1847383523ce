// How a rank finds the nodes of its job.
#include "client/session/job_entry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <map>

#include "client/session/join_timeout.h"
#include "tests/support/client/scripted_node.h"

namespace tally::client {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

std::string entry_path(const char* name) {
  return "/tmp/tally-job-entry-test-" + std::to_string(::getpid()) + "-" + name + ".sock";
}

class JobEntryTest : public ::testing::Test {
 protected:
  static SessionOptions options_of(const std::string& addresses) {
    SessionOptions options;
    options.address = addresses;
    options.job = "j";
    options.checksums = false;
    options.connect_timeout = 2 * kSecond;
    return options;
  }
  static Result<JobEntry> enter(const std::string& addresses, Nanos timeout = 2 * kSecond) {
    SessionOptions options = options_of(addresses);
    options.connect_timeout = timeout;
    return enter_job(options, {});
  }
  // Rank 0 of 4 of a job that goes on without ranks that are lost.
  static SessionOptions finishing(const std::string& addresses) {
    SessionOptions options = options_of(addresses);
    options.ranks = 4;
    options.on_rank_loss = RankLoss::kFinish;
    return options;
  }
  static json opened(std::vector<std::uint32_t> weights, std::uint32_t epoch = 3) {
    return {{"result",
             {{"epoch", epoch},
              {"weights", weights},
              {"split_bytes", 4096},
              {"credit", 16},
              {"deadline_ms", 1000}}}};
  }
  // Such a node knows no plans.
  static json of_an_older_version(const std::string& method, const json&) {
    if (method == "job.open") return {{"error", {{"code", -32601}, {"message", "no such method"}}}};
    if (method == "session.open") return opened({65536}, 1);
    return {{"result", json::object()}};
  }
  static json at(const ScriptedNode& node, std::vector<std::uint32_t> trees) {
    return {{"name", "n"},
            {"host", "elsewhere"},
            {"tcp", ""},
            {"unix", node.address()},
            {"trees", trees}};
  }
};

TEST_F(JobEntryTest, ANodeOfAnOlderVersionNeedsNoPlan) {
  ScriptedNode node(entry_path("old"), of_an_older_version);
  const auto entry = enter(node.address());
  ASSERT_TRUE(entry.ok()) << entry.error().message;
  EXPECT_EQ(entry->nodes.shards(), 1u);
  EXPECT_FALSE(node.requests().at(1).second.contains("epoch"));
}

// It has no coordinator that could go on without a rank.
TEST_F(JobEntryTest, AJobThatGoesOnWithoutARankNeedsACoordinatorThatKnowsIt) {
  ScriptedNode old(entry_path("old"), of_an_older_version);
  ScriptedNode alone(entry_path("alone"), [](const std::string& method, const json&) -> json {
    if (method == "job.open") return {{"result", {{"nodes", json::array()}}}};
    return method == "session.open" ? opened({65536}) : json{{"result", json::object()}};
  });
  ScriptedNode strict(entry_path("strict"), [](const auto&, const auto&) {
    return refusal(Status::kInvalidArgument, "parameter \"on_rank_loss\" is unknown");
  });
  for (const ScriptedNode* node : {&old, &alone, &strict}) {
    const auto refused = enter_job(finishing(node->address()), {});
    EXPECT_EQ(refused.status(), Status::kUnsupported) << node->address();
    EXPECT_EQ(node->requests().size(), 1U) << "no node gets the rank";
  }
}

TEST_F(JobEntryTest, TheVersionKnowsTheRanksThatAreLeftOut) {
  ScriptedNode a(entry_path("a"), [](const std::string& method, const json&) -> json {
    return method == "session.open" ? opened({65536}) : json{{"result", json::object()}};
  });
  json answer = {{"epoch", 3},
                 {"nodes", {at(a, {0})}},
                 {"on_rank_loss", "finish"},
                 {"left_out", {1, 3}},
                 {"first", json::array({{7, 4}})}};
  ScriptedNode coordinator(entry_path("c"), [&](const auto&, const auto&) -> json {
    return {{"result", answer}};
  });
  SessionOptions options = finishing(coordinator.address());
  options.quorum = 2;
  auto entry = enter_job(options, {});
  ASSERT_TRUE(entry.ok()) << entry.error().message;
  EXPECT_EQ(coordinator.requests().at(0).second.at("on_rank_loss"), "finish");
  EXPECT_EQ(coordinator.requests().at(0).second.at("quorum"), 2);
  EXPECT_FALSE(a.requests().at(0).second.contains("on_rank_loss")) << "older nodes refuse it";
  const auto version = version_of(*entry);
  EXPECT_EQ(version->config.left_out, (std::vector<std::uint16_t>{1, 3}));
  EXPECT_EQ(version->book.next_round(7), 4U) << "where this rank joins";
  EXPECT_EQ(version->book.next_round(8), 0U);
  answer["left_out"] = {1, 4};
  EXPECT_EQ(enter_job(options, {}).status(), Status::kProtocol);
}

TEST_F(JobEntryTest, ANewVersionHasTheRanksThatAreLeftOut) {
  ScriptedNode a(entry_path("a"), [](const std::string& method, const json&) -> json {
    return method == "session.open" ? opened({65536}) : json{{"result", json::object()}};
  });
  const SessionOptions options = finishing("");
  const Nanos deadline = monotonic_now() + 2 * kSecond;
  json version = {{"epoch", 3}, {"nodes", {at(a, {0})}}, {"left_out", {2U}}};
  EXPECT_EQ(enter_version(options, {}, version, deadline).status(), Status::kUnsupported);
  version["on_rank_loss"] = "finish";
  const auto entry = enter_version(options, {}, version, deadline);
  ASSERT_TRUE(entry.ok()) << entry.error().message;
  EXPECT_EQ(entry->book.left_out, (std::vector<std::uint16_t>{2}));
  version["left_out"] = {2U, 1U};
  EXPECT_EQ(enter_version(options, {}, version, deadline).status(), Status::kProtocol);
}

// Any user can make a socket in /tmp before a node does.
TEST_F(JobEntryTest, ASocketOfAnotherUserGetsNothing) {
  if (::geteuid() != 0) GTEST_SKIP() << "becoming another user needs root";
  constexpr uid_t kNobody = 65534;
  ASSERT_EQ(::seteuid(kNobody), 0);
  ScriptedNode node(entry_path("foreign"), of_an_older_version);
  ASSERT_EQ(::seteuid(0), 0);
  const auto refused = enter(node.address());
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.status(), Status::kRefused);
  EXPECT_THAT(refused.error().message, HasSubstr("belongs to uid 65534"));
  EXPECT_TRUE(node.requests().empty());
  ASSERT_EQ(::setenv("TALLY_NODE_USER", "nobody", 1), 0);
  EXPECT_TRUE(enter(node.address()).ok());
  ASSERT_EQ(::setenv("TALLY_NODE_USER", "no such user", 1), 0);
  EXPECT_THAT(enter(node.address()).error().message, HasSubstr("there is no such user"));
  ::unsetenv("TALLY_NODE_USER");
}

TEST_F(JobEntryTest, AllNodesOfThePlanAreOpenedWithItsEpoch) {
  const auto serve = [](const std::string& method, const json&) -> json {
    return method == "session.open" ? opened({32768, 32768}) : json{{"result", json::object()}};
  };
  ScriptedNode a(entry_path("a"), serve), b(entry_path("b"), serve);
  ScriptedNode coordinator(entry_path("c"), [&](const auto&, const auto&) -> json {
    return {{"result", {{"epoch", 3}, {"fault_ms", 20'000}, {"nodes", {at(a, {1}), at(b, {0})}}}}};
  });
  const auto entry = enter(entry_path("nobody") + "," + coordinator.address());
  ASSERT_TRUE(entry.ok()) << entry.error().message;
  EXPECT_EQ(entry->nodes.size(), 2u);
  EXPECT_EQ(entry->book.epoch, 3u);
  EXPECT_EQ(a.requests().at(0).second.at("epoch"), 3);
  EXPECT_EQ(entry->coordinator.timeouts.fault, 20 * kSecond);
}

TEST_F(JobEntryTest, ANodeMayHaveMoreTreesThanShards) {
  for (const std::uint32_t shards : {0U, 1U, 2U, 3U, 1U << 31}) {
    ScriptedNode node(entry_path("n"), [&](const std::string& method, const json&) -> json {
      if (method == "job.open") return {{"result", {{"nodes", json::array()}}}};
      json answer = opened({20000, 20000, 25536});
      answer["result"]["lanes"] = shards;
      return method == "session.open" ? answer : json{{"result", json::object()}};
    });
    const auto entry = enter(node.address());
    if (shards < 1 || shards > 256) {
      EXPECT_EQ(entry.status(), Status::kProtocol) << shards;
      continue;
    }
    ASSERT_TRUE(entry.ok()) << entry.error().message;
    EXPECT_EQ(entry->nodes.shards(), shards);
    EXPECT_EQ(entry->book.shards, (std::vector<std::uint32_t>{0, 1 % shards, 2 % shards}));
  }
}

// What the coordinator says of a rank's trees may leave some of the node's out.
TEST_F(JobEntryTest, UsesTheShardsThatTheCoordinatorAssigns) {
  ScriptedNode a(entry_path("a"), [](const std::string& method, const json&) -> json {
    json answer = opened({32768, 32768});
    answer["result"]["lanes"] = 3;
    return method == "session.open" ? answer : json{{"result", json::object()}};
  });
  json shards = json::array({2, 0});
  ScriptedNode coordinator(entry_path("c"), [&](const auto&, const auto&) -> json {
    json node = at(a, {0, 1});
    node["lanes"] = shards;
    return {{"result", {{"epoch", 3}, {"nodes", {node}}}}};
  });
  const auto entry = enter(coordinator.address());
  ASSERT_TRUE(entry.ok()) << entry.error().message;
  EXPECT_EQ(entry->nodes.shards(), 3u);
  EXPECT_EQ(entry->book.shards, (std::vector<std::uint32_t>{2, 0}));
  for (const json& wrong : {json::array({0}), json::array({0, 3}), json::array({-1, 0}), json(1)}) {
    shards = wrong;
    EXPECT_EQ(enter(coordinator.address()).status(), Status::kProtocol) << wrong;
  }
}

TEST_F(JobEntryTest, RefusesAPlanThatDoesNotHaveEachTreeOnce) {
  ScriptedNode a(entry_path("a"), [](const auto&, const auto&) { return opened({32768, 32768}); });
  std::vector<std::vector<std::uint32_t>> wrong{{0}, {0, 0}, {0, 2}, {}, {0, 1, 2}};
  std::size_t next = 0;
  ScriptedNode coordinator(entry_path("c"), [&](const auto&, const auto&) -> json {
    return {{"result", {{"epoch", 3}, {"nodes", {at(a, wrong[next++])}}}}};
  });
  for (std::size_t i = 0; i < wrong.size(); ++i) {
    EXPECT_EQ(enter(coordinator.address()).status(), Status::kProtocol) << i;
  }
}

TEST_F(JobEntryTest, NodesThatDisagreeAreNamed) {
  ScriptedNode a(entry_path("a"), [](const std::string& method, const json&) -> json {
    return method == "session.open" ? opened({32768, 32768}) : json{{"result", json::object()}};
  });
  ScriptedNode b(entry_path("b"), [](const auto&, const auto&) { return opened({16384, 49152}); });
  ScriptedNode coordinator(entry_path("c"), [&](const auto&, const auto&) -> json {
    return {{"result", {{"epoch", 3}, {"nodes", {at(a, {0}), at(b, {1})}}}}};
  });
  const auto entry = enter(coordinator.address());
  EXPECT_EQ(entry.status(), Status::kProtocol);
  EXPECT_THAT(entry.error().message, HasSubstr(b.address()));
}

// The job has ended while its plan was on its way.
TEST_F(JobEntryTest, AsksAgainWhereTheEpochIsOver) {
  ScriptedNode a(entry_path("a"), [](const std::string& method, const json& params) -> json {
    if (method != "session.open") return {{"result", json::object()}};
    return params.at("epoch") == 4 ? opened({65536}, 4) : refusal(Status::kStaleEpoch, "over");
  });
  std::uint32_t epoch = 2;
  ScriptedNode coordinator(entry_path("c"), [&](const auto&, const auto&) -> json {
    return {{"result", {{"epoch", ++epoch}, {"nodes", {at(a, {0})}}}}};
  });
  const auto entry = enter(coordinator.address());
  ASSERT_TRUE(entry.ok()) << entry.error().message;
  EXPECT_EQ(entry->book.epoch, 4u);
  EXPECT_EQ(coordinator.requests().size(), 2u);
}

// It has other ranks, one of which has gone.
TEST_F(JobEntryTest, AsksAgainWhileTheJobBeforeEnds) {
  ScriptedNode a(entry_path("a"), [](const std::string& method, const json&) -> json {
    return method == "session.open" ? opened({65536}) : json{{"result", json::object()}};
  });
  int asked = 0;
  ScriptedNode coordinator(entry_path("c"), [&](const auto&, const auto&) -> json {
    if (++asked < 3) return refusal(Status::kStaleEpoch, "it has 3 ranks");
    return {{"result", {{"epoch", 3}, {"nodes", {at(a, {0})}}}}};
  });
  const auto entry = enter(coordinator.address());
  ASSERT_TRUE(entry.ok()) << entry.error().message;
  EXPECT_EQ(asked, 3);
}

// A node does so as long as an attack lasts.
TEST_F(JobEntryTest, ConnectsAgainToANodeThatMakesRoomForOthers) {
  std::map<std::string, int> calls;
  ScriptedNode node(entry_path("full"), [&](const std::string& method, const json&) -> json {
    if (++calls[method] <= 60 && method.ends_with(".open"))
      return refusal(Status::kAgain, "there are too many connections");
    if (method == "job.open") return {{"result", {{"nodes", json::array()}}}};
    return method == "session.open" ? opened({65536}) : json{{"result", json::object()}};
  });
  const auto entry = enter(node.address(), 20 * kSecond);
  ASSERT_TRUE(entry.ok()) << entry.error().message;
  EXPECT_EQ(calls["job.open"], 61);
  EXPECT_EQ(calls["session.open"], 61);
}

TEST_F(JobEntryTest, ConnectsAgainOnlyUntilTheDeadline) {
  ScriptedNode node(entry_path("full"), [](const auto&, const auto&) {
    return refusal(Status::kAgain, "there are too many connections");
  });
  const Nanos began = monotonic_now();
  const Status ended = enter(node.address(), 300 * kMillisecond).status();
  EXPECT_LT(monotonic_now() - began, 1 * kSecond) << "it tries for 300 ms";
  EXPECT_TRUE(ended == Status::kAgain || ended == Status::kDeadline);
}

TEST_F(JobEntryTest, SkipsAddressThatKnowsNoJob) {
  ScriptedNode member(entry_path("m"), [](const auto&, const auto&) {
    return refusal(Status::kUnavailable, "ask the coordinator");
  });
  const Nanos began = monotonic_now();
  const auto refused = enter(member.address());
  EXPECT_EQ(refused.status(), Status::kUnavailable);
  EXPECT_TRUE(refused.error().message.starts_with("ask the coordinator"))
      << refused.error().message;
  EXPECT_LT(monotonic_now() - began, 2 * kSecond) << "it is there: no need to wait so long";
  ScriptedNode alone(entry_path("a"), [](const std::string& method, const json&) -> json {
    if (method == "job.open") return {{"result", {{"nodes", json::array()}}}};
    return method == "session.open" ? opened({65536}) : json{{"result", json::object()}};
  });
  EXPECT_TRUE(enter(member.address() + "," + alone.address()).ok());
}

TEST_F(JobEntryTest, AsksAgainWhileNodesJoinTheCoordinator) {
  int asked = 0;
  ScriptedNode late(entry_path("l"), [&](const std::string& method, const json&) -> json {
    if (method == "job.open" && ++asked < 3) {
      return refusal(Status::kUnavailable, "no node has joined here");
    }
    if (method == "job.open") return {{"result", {{"nodes", json::array()}}}};
    return method == "session.open" ? opened({65536}) : json{{"result", json::object()}};
  });
  const auto entered = enter(late.address(), 30 * kSecond);
  EXPECT_TRUE(entered.ok()) << entered.error().message;
}

TEST_F(JobEntryTest, NamesALostCoordinatorThatIsNotElected) {
  ScriptedNode node(entry_path("n"), [](const std::string& method, const json&) -> json {
    if (method == "job.open") return refusal(Status::kNodeLost, "it ended");
    return {{"result", {{"name", "n"}, {"coordinator", ""}}}};
  });
  EXPECT_EQ(enter(node.address(), 30 * kSecond).status(), Status::kNodeLost);
  const auto requests = node.requests();
  EXPECT_EQ(std::count_if(requests.begin(), requests.end(),
                          [](const auto& one) { return one.first == "job.open"; }),
            1);
}

TEST_F(JobEntryTest, AsksTheNextCoordinatorThatIsElected) {
  int asked = 0;
  ScriptedNode node(entry_path("n"), [&](const std::string& method, const json&) -> json {
    if (method == "cluster.coordinator") return {{"result", {{"elected", true}}}};
    if (method == "job.open" && ++asked == 1) return refusal(Status::kNodeLost, "it ended");
    if (method == "job.open") return {{"result", {{"nodes", json::array()}, {"term", 7}}}};
    return method == "session.open" ? opened({65536}) : json{{"result", json::object()}};
  });
  const auto entered = enter(node.address(), 30 * kSecond);
  ASSERT_TRUE(entered.ok()) << entered.error().message;
  EXPECT_EQ(entered->coordinator.term.value(), 7U);
}

TEST(JoinTimeout, CountsFromTheFirstAnswer) {
  JoinTimeout timeout(30 * kSecond);
  EXPECT_FALSE(timeout.is_over(20 * kSecond)) << "a coordinator may start late";
  timeout.answered(20 * kSecond);
  timeout.answered(20 * kSecond + kSecond / 2);
  EXPECT_FALSE(timeout.is_over(21 * kSecond - 1));
  EXPECT_TRUE(timeout.is_over(21 * kSecond));
  timeout.set_elected();
  EXPECT_FALSE(timeout.is_over(25 * kSecond)) << "the next coordinator is elected";
  timeout = JoinTimeout(30 * kSecond);
  timeout.answered(29 * kSecond + kSecond / 2);
  EXPECT_TRUE(timeout.is_over(30 * kSecond)) << "the deadline";
}

TEST_F(JobEntryTest, FollowsAMemberToItsCoordinator) {
  ScriptedNode coordinator(entry_path("c"), [](const std::string& method, const json&) -> json {
    if (method == "cluster.nodes") return {{"result", json::array({{{"name", "m"}}})}};
    if (method == "job.open") return {{"result", {{"nodes", json::array()}}}};
    return method == "session.open" ? opened({65536}) : json{{"result", json::object()}};
  });
  ScriptedNode member(entry_path("m"), [&](const std::string& method, const json&) -> json {
    if (method != "cluster.coordinator") return refusal(Status::kUnavailable, "no coordinator");
    return {{"result", {{"name", "m"}, {"coordinator", coordinator.address()}}}};
  });
  const auto entered = enter(member.address());
  EXPECT_TRUE(entered.ok()) << entered.error().message;
  EXPECT_EQ(member.requests().size(), 2U) << "job.open and cluster.coordinator";
}

}  // namespace
}  // namespace tally::client
