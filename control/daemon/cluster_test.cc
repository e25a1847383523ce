// Several tallyd as one service, asked as a client asks them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <time.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <vector>

#include "net/rpc/rpc_channel.h"
#include "tests/support/process.h"
#include "tests/support/tallyd.h"

namespace tally::control {
namespace {

using nlohmann::json;
using rpc::RpcChannel;
using tally::testing::Process;
using tally::testing::Tallyd;
using ::testing::HasSubstr;

constexpr Nanos kTimeout = 20 * kSecond;

class ClusterTest : public ::testing::Test {
 protected:
  const std::string& address(const std::string& name) { return nodes_[name].address(); }
  // Node "a" is the coordinator, where list_ says nothing else.
  void start(const std::string& name, const std::vector<std::string>& more = {}) {
    std::vector<std::string> flags = {"--cluster", list_, "--shards", "2"};
    if (more.empty()) flags.insert(flags.end(), {"--cluster-name", name});
    flags.insert(flags.end(), more.begin(), more.end());
    nodes_[name].launch(nodes_[name].command(flags));
    if (!together_) nodes_[name].wait_until_ready();
  }
  RpcChannel connect(const std::string& name) {
    auto channel = RpcChannel::connect(address(name), monotonic_now() + kTimeout);
    EXPECT_TRUE(channel.ok());
    return std::move(channel).value();
  }
  static Result<json> call(RpcChannel& channel, const char* method, json params = json::object()) {
    return channel.call(method, std::move(params), {}, monotonic_now() + kTimeout);
  }
  // The coordinator knows so many members.
  bool members(std::size_t count, const char* coordinator = "a") {
    RpcChannel channel = connect(coordinator);
    for (const Nanos end = monotonic_now() + kTimeout; monotonic_now() < end;) {
      const auto nodes = call(channel, "cluster.nodes");
      if (nodes && nodes->size() == count) return true;
      const timespec pause{0, 20'000'000};
      ::nanosleep(&pause, nullptr);
    }
    return false;
  }
  static json opening(std::uint32_t rank, std::uint32_t ranks, const char* job = "train") {
    return {{"version", 1}, {"job", job}, {"token", "t"}, {"rank", rank}, {"ranks", ranks}};
  }
  static json job_opening(std::uint32_t rank, std::uint32_t ranks, const char* job = "train") {
    json params = opening(rank, ranks, job);
    params["host"] = "here";
    return params;
  }
  static json with_epoch(json params, const json& epoch) {
    params["epoch"] = epoch;
    return params;
  }
  static std::string error_of(const Result<json>& result) {
    return result ? "" : result.error().message;
  }

  std::map<std::string, Tallyd> nodes_;
  std::string list_ = address("a");
  bool together_ = false;  // nodes are not waited for when they start
};

TEST_F(ClusterTest, ANodeThatStandsAloneAnswersWithoutNodes) {
  nodes_["a"].start({"--shards", "2"});
  RpcChannel channel = connect("a");
  const auto opened = call(channel, "job.open", job_opening(0, 1));
  ASSERT_TRUE(opened.ok()) << opened.error().message;
  EXPECT_EQ(*opened, json({{"nodes", json::array()}}));
  const auto session = call(channel, "session.open", opening(0, 1));
  ASSERT_TRUE(session.ok()) << session.error().message;
  EXPECT_EQ((*session)["trees"], json::array({0, 1}));
}

TEST_F(ClusterTest, AJobHasTreesAtEveryNode) {
  for (const char* name : {"a", "b"}) start(name);
  start("c", {"--cluster-name", "c", "--listen-tcp", "tcp:127.0.0.1:0"});
  ASSERT_TRUE(members(3));
  RpcChannel first = connect("a"), second = connect("a");
  const auto opened = call(first, "job.open", job_opening(0, 2));
  ASSERT_TRUE(opened.ok()) << opened.error().message;
  const auto other = call(second, "job.open", job_opening(1, 2));
  ASSERT_TRUE(other.ok()) << other.error().message;
  EXPECT_EQ(*opened, *other);
  EXPECT_EQ((*opened)["weights"].size(), 6U);
  EXPECT_THAT(error_of(call(second, "job.open", job_opening(0, 2))), HasSubstr("rank 0 is taken"));
  json all = json::array();
  std::vector<RpcChannel> sessions;
  for (const json& node : (*opened)["nodes"]) {
    EXPECT_EQ(node["unix"], address(node["name"]));
    const std::string tcp = node["tcp"];
    EXPECT_EQ(tcp.starts_with("tcp:127.0.0.1:"), node["name"] == "c") << tcp;
    auto channel = RpcChannel::connect(tcp.empty() ? address(node["name"]) : tcp, 0);
    ASSERT_TRUE(channel.ok());
    EXPECT_THAT(error_of(call(*channel, "session.open", opening(0, 2))),
                HasSubstr("spread over 3 nodes"));
    EXPECT_THAT(error_of(call(*channel, "session.open", with_epoch(opening(0, 2), 77))),
                HasSubstr("no place here in epoch 77"));
    const auto session =
        call(*channel, "session.open", with_epoch(opening(0, 2), (*opened)["epoch"]));
    ASSERT_TRUE(session.ok()) << session.error().message;
    EXPECT_EQ((*session)["weights"], (*opened)["weights"]);
    EXPECT_EQ((*session)["trees"], node["trees"]);
    all.insert(all.end(), node["trees"].begin(), node["trees"].end());
    const auto jobs = call(*channel, "node.jobs");
    ASSERT_TRUE(jobs.ok());
    EXPECT_EQ((*jobs)[0]["nodes"], 3) << *jobs;
    EXPECT_EQ((*jobs)[0]["trees"], node["trees"]) << *jobs;
    sessions.push_back(std::move(channel).value());
  }
  EXPECT_EQ(all, json::array({0, 1, 2, 3, 4, 5}));
  Process listed({TALLYCTL, "--address", address("a"), "nodes"});
  EXPECT_EQ(listed.wait(), 0);
  EXPECT_TRUE(listed.printed("tcp:127.0.0.1:"));
}

TEST_F(ClusterTest, WhenARankGoesTheJobFormsAgain) {
  for (const char* name : {"a", "b"}) start(name);
  ASSERT_TRUE(members(2));
  json epochs = json::array();
  for (int run = 0; run < 3; ++run) {
    RpcChannel coordinator = connect("a"), other = connect("b");
    std::string error = "not asked";
    // The last run's sessions may not be over yet: a client asks again.
    for (const Nanos end = monotonic_now() + kTimeout; !error.empty() && monotonic_now() < end;) {
      const auto opened = call(coordinator, "job.open", job_opening(0, 1));
      ASSERT_TRUE(opened.ok()) << opened.error().message;
      const auto session =
          call(other, "session.open", with_epoch(opening(0, 1), (*opened)["epoch"]));
      error = error_of(session);
      if (session) epochs.push_back((*opened)["epoch"]);
      if (session) break;
      EXPECT_EQ(session.status(), Status::kStaleEpoch) << error;
    }
    EXPECT_EQ(error, "");
  }
  ASSERT_EQ(epochs.size(), 3U);
  EXPECT_LT(epochs[0], epochs[1]);
  EXPECT_LT(epochs[1], epochs[2]);
}

TEST_F(ClusterTest, ANodeThatDiesIsNotPlannedWithAnyMore) {
  for (const char* name : {"a", "b", "c"}) start(name);
  ASSERT_TRUE(members(3));
  RpcChannel coordinator = connect("a"), at_a = connect("a"), at_b = connect("b");
  const auto opened = call(coordinator, "job.open", job_opening(0, 2));
  ASSERT_TRUE(opened.ok()) << opened.error().message;
  ASSERT_TRUE(call(at_b, "session.open", with_epoch(opening(0, 2), (*opened)["epoch"])).ok());
  nodes_["c"].kill();
  ASSERT_TRUE(members(2));
  // Who has a session keeps it; but nobody comes to it any more.
  EXPECT_TRUE(call(at_b, "session.close").ok());
  RpcChannel again = connect("a");
  const auto formed = call(again, "job.open", job_opening(0, 2));
  ASSERT_TRUE(formed.ok()) << formed.error().message;
  EXPECT_EQ((*formed)["nodes"].size(), 2U);
  EXPECT_GT((*formed)["epoch"], (*opened)["epoch"]);
  start("c");
  EXPECT_TRUE(members(3));
}

TEST_F(ClusterTest, ANodeThatStandsStillIsNamed) {
  for (const char* name : {"a", "b"}) start(name);
  ASSERT_TRUE(members(2));
  nodes_["b"]->signal(SIGSTOP);
  RpcChannel coordinator = connect("a");
  const auto opened = call(coordinator, "job.open", job_opening(0, 1));
  nodes_["b"]->signal(SIGCONT);
  EXPECT_THAT(error_of(opened), HasSubstr("have not taken it within 10 s: \"b\""));
}

TEST_F(ClusterTest, WhatRunsRunsOnWithoutTheCoordinator) {
  for (const char* name : {"a", "b"}) start(name);
  ASSERT_TRUE(members(2));
  RpcChannel at_b = connect("b");
  json epoch;
  {
    RpcChannel coordinator = connect("a");
    const auto opened = call(coordinator, "job.open", job_opening(0, 2));
    ASSERT_TRUE(opened.ok()) << opened.error().message;
    epoch = (*opened)["epoch"];
    ASSERT_TRUE(call(at_b, "session.open", with_epoch(opening(0, 2), epoch)).ok());
  }
  nodes_["a"].kill();
  RpcChannel late = connect("b");
  EXPECT_TRUE(call(late, "session.open", with_epoch(opening(1, 2), epoch)).ok());
  EXPECT_TRUE(call(at_b, "node.status").ok());
  // Another coordinator in its place; the epochs that nodes know are behind it.
  start("a");
  ASSERT_TRUE(members(2));
  RpcChannel coordinator = connect("a");
  const auto other = call(coordinator, "job.open", job_opening(0, 1, "other"));
  ASSERT_TRUE(other.ok()) << other.error().message;
  EXPECT_GT((*other)["epoch"], epoch);
  EXPECT_THAT(error_of(call(coordinator, "job.open", job_opening(0, 2))),
              HasSubstr("node \"b\": job \"train\" runs here already"));
  nodes_["b"].stop();
  EXPECT_TRUE(nodes_["b"]->printed("event=cluster-joined"));
  EXPECT_TRUE(nodes_["b"]->printed("event=cluster-lost"));
  EXPECT_FALSE(nodes_["b"]->printed("term=")) << "there is no election";
}

TEST_F(ClusterTest, TheFirstOfTheListJoinsWhoStandsInForIt) {
  list_ = address("a") + "," + address("b");
  for (const char* name : {"a", "b", "c"}) start(name);
  ASSERT_TRUE(members(3, "a"));
  nodes_["a"].kill();
  ASSERT_TRUE(members(2, "b"));
  start("a");
  EXPECT_TRUE(members(3, "b"));
  EXPECT_TRUE(members(0, "a"));
  RpcChannel coordinator = connect("b");
  const auto opened = call(coordinator, "job.open", job_opening(0, 2));
  ASSERT_TRUE(opened.ok()) << opened.error().message;
  EXPECT_EQ((*opened)["nodes"].size(), 3U);
  RpcChannel first = connect("a");
  const auto status = call(first, "cluster.coordinator");
  ASSERT_TRUE(status.ok()) << status.error().message;
  EXPECT_EQ((*status)["coordinator"], address("b"));
  nodes_["b"].kill();
  EXPECT_TRUE(members(2, "a")) << "and back, when that one has gone";
}

TEST_F(ClusterTest, ThoseWhoStartTogetherMeetAtOne) {
  together_ = true;
  list_ = address("a") + "," + address("b") + "," + address("c");
  for (int round = 0; round < 3; ++round) {
    const std::vector<std::string> names = {"a", "b", "c", "d"};
    for (std::size_t i = 0; i < 4; ++i) start(names[(i + 1 + static_cast<std::size_t>(round)) % 4]);
    for (const auto& name : names) nodes_[name].wait_until_ready();
    // While they meet, a node that has joined another one may still have members.
    std::vector<std::size_t> counts;
    std::size_t most = 0, all = 0;
    for (const Nanos end = monotonic_now() + kTimeout; monotonic_now() < end;) {
      counts.clear();
      for (const char* name : {"a", "b", "c"}) {
        RpcChannel channel = connect(name);
        const auto nodes = call(channel, "cluster.nodes");
        ASSERT_TRUE(nodes.ok()) << nodes.error().message;
        counts.push_back(nodes->size());
      }
      most = *std::max_element(counts.begin(), counts.end());
      all = std::accumulate(counts.begin(), counts.end(), std::size_t{0});
      if (most == 4 && all == 4) break;
      const timespec pause{0, 20'000'000};
      ::nanosleep(&pause, nullptr);
    }
    EXPECT_TRUE(most == 4 && all == 4)
        << "at a " << counts[0] << ", at b " << counts[1] << ", at c " << counts[2];
    for (const auto& name : names) nodes_[name].kill();
  }
}

TEST_F(ClusterTest, TheCoordinatorLooksWhoJoins) {
  start("a");
  ASSERT_TRUE(members(1));
  RpcChannel channel = connect("a");
  json node = {{"version", 1},     {"name", "a"}, {"host", "h"}, {"role", "helper"},
               {"tcp", "tcp:h:1"}, {"unix", ""},  {"shards", 1}, {"speed", 0}};
  EXPECT_THAT(error_of(call(channel, "cluster.join", node)), HasSubstr("is a member already"));
  EXPECT_THAT(error_of(call(channel, "cluster.next")), HasSubstr("cluster.join first"));
  node["name"] = "b";
  ASSERT_TRUE(call(channel, "cluster.join", node).ok());
  EXPECT_TRUE(members(2));
  EXPECT_THAT(error_of(call(channel, "cluster.join", node)), HasSubstr("has joined on this"));
  const auto news = call(channel, "cluster.next", {{"wait_ms", 1}});
  ASSERT_TRUE(news.ok()) << news.error().message;
  EXPECT_TRUE((*news)["placements"].empty());
  channel = connect("a");
  EXPECT_TRUE(members(1)) << "with its connection it has left";
}

}  // namespace
}  // namespace tally::control
