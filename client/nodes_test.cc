// A session's nodes: which tree is whose, one number for a region at all of them, and what a
// coordinator's answer leads to.
#include "client/nodes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <optional>
#include <thread>

#include "client/job_entry.h"
#include "client/recording_link.h"
#include "client/scripted_node.h"

namespace tally::client {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

std::string path(const char* name) {
  return "/tmp/tally-nodes-test-" + std::to_string(::getpid()) + "-" + name + ".sock";
}
Nanos soon() {
  return monotonic_now() + 5 * kSecond;
}

class NodesTest : public ::testing::Test {
 protected:
  // Gives regions the numbers that are wished, else 5.
  static json good(const std::string&, const json& params) {
    return {{"result", {{"region", params.value("region", 5)}}}};
  }
  // Two shards at each. Trees 0, 3 and 4 at the first, which maps memory; 1 and 2 at the second,
  // over a network.
  Nodes make(ScriptedNode& first, ScriptedNode& second) {
    std::vector<SessionNode> nodes;
    nodes.push_back({RpcChannel::connect(first.address(), soon()).value(),
                     std::make_unique<RecordingLink>(true),
                     {0, 3, 4},
                     {0, 1, 0}});
    nodes.push_back({RpcChannel::connect(second.address(), soon()).value(),
                     std::make_unique<RecordingLink>(false),
                     {1, 2},
                     {0, 1}});
    shared_ = static_cast<RecordingLink*>(nodes[0].link.get());
    remote_ = static_cast<RecordingLink*>(nodes[1].link.get());
    return Nodes(std::move(nodes));
  }

  RecordingLink* shared_ = nullptr;
  RecordingLink* remote_ = nullptr;
};

TEST_F(NodesTest, ATreesNoticesGoToItsNode) {
  ScriptedNode first(path("a"), good), second(path("b"), good);
  Nodes nodes = make(first, second);
  EXPECT_EQ(nodes.lanes(), 4u);
  EXPECT_EQ(nodes.transport(), "shm, fabric");
  EXPECT_TRUE(nodes.memory_needs().shared);
  const auto& lanes = nodes.lanes_of_trees();
  ASSERT_EQ(lanes.size(), 5u);
  EXPECT_EQ(lanes[4], lanes[0]) << "they share a shard";
  for (const std::uint32_t lane : lanes) EXPECT_TRUE(nodes.send(lane, {}, {}));
  ASSERT_EQ(shared_->sent.size(), 3u);
  ASSERT_EQ(remote_->sent.size(), 2u);
  EXPECT_EQ(shared_->sent[1].first, 1u) << "tree 3 is its second";
  EXPECT_EQ(shared_->sent[2].first, 0u);
  EXPECT_EQ(remote_->sent[0].first, 0u);
  EXPECT_EQ(nodes.eager_bytes(lanes[0]), 0u);
  EXPECT_EQ(nodes.eager_bytes(lanes[2]), 8192u);
}

TEST_F(NodesTest, ARegionHasOneNumberEverywhere) {
  ScriptedNode first(path("a"), good), second(path("b"), good);
  Nodes nodes = make(first, second);
  const auto region = Region::allocate(8192).value();
  ASSERT_EQ(nodes.add_region(*region, soon()).value(), 5u);
  EXPECT_FALSE(first.requests().at(0).second.contains("region")) << "its choice";
  EXPECT_EQ(second.requests().at(0).second.at("region"), 5);
  region->id = 5;
  EXPECT_TRUE(nodes.remove_region(*region, soon()).ok());
  EXPECT_EQ(shared_->offered + remote_->offered, 0);
}

TEST_F(NodesTest, OffsetsCountFromWhereEachNodeKnowsTheRegion) {
  ScriptedNode first(path("a"), good), second(path("b"), good);
  Nodes nodes = make(first, second);
  std::vector<std::byte> memory(10'000);
  const auto region = Region::stage(memory.data() + 8, 9000).value();
  ASSERT_TRUE(nodes.add_region(*region, soon()).ok());
  wire::Notice notice;
  notice.in_region = notice.out_region = 5;
  notice.in_offset = 16;
  for (const std::uint32_t tree : {0u, 1u}) {
    ASSERT_TRUE(nodes.send(nodes.lanes_of_trees()[tree], notice, {}));
  }
  EXPECT_EQ(shared_->sent.at(0).second.in_offset, 16 + region->base_offset());
  EXPECT_EQ(shared_->sent.at(0).second.out_offset, region->base_offset());
  EXPECT_EQ(remote_->sent.at(0).second.in_offset, 16u);
}

TEST_F(NodesTest, WhatOneNodeRefusesIsTakenBackAtTheOthers) {
  ScriptedNode first(path("a"), good);
  ScriptedNode second(path("b"), [](const auto&, const auto&) {
    return refusal(Status::kRefused, "no room for it");
  });
  Nodes nodes = make(first, second);
  const auto region = Region::allocate(4096).value();
  const auto added = nodes.add_region(*region, soon());
  EXPECT_EQ(added.status(), Status::kRefused);
  EXPECT_EQ(added.error().message, "no room for it");
  ASSERT_EQ(first.requests().size(), 2u);
  EXPECT_EQ(first.requests().at(1).first, "region.deregister");
  EXPECT_EQ(shared_->offered, 0);
  EXPECT_EQ(remote_->offered, 0);
}

// A node may answer anything: no number is taken that nobody gives, and no access left behind.
TEST_F(NodesTest, ARegionsNumberMustBeOne) {
  for (const json& told : {json(0), json(4294967295), json(1 << 21), json("5"), json()}) {
    const auto answer = [&](const auto&, const auto&) {
      return json{{"result", {{"region", told}}}};
    };
    ScriptedNode first(path("a"), answer), second(path("b"), good);
    Nodes nodes = make(first, second);
    const auto region = Region::allocate(4096).value();
    EXPECT_EQ(nodes.add_region(*region, soon()).status(), Status::kProtocol) << told;
    EXPECT_EQ(shared_->offered, 0) << told;
  }
}

TEST_F(NodesTest, TheOneThatIsGoneIsNamed) {
  ScriptedNode first(path("a"), good), second(path("b"), good);
  Nodes nodes = make(first, second);
  EXPECT_FALSE(nodes.hear());
  remote_->gone = true;
  EXPECT_TRUE(nodes.hear());
  EXPECT_THAT(nodes.why_gone(), HasSubstr(second.address()));
  EXPECT_EQ(nodes.why_gone().find(first.address()), std::string::npos);
}

TEST_F(NodesTest, OneDescriptorTellsOfAll) {
  ScriptedNode first(path("a"), good), second(path("b"), good);
  Nodes nodes = make(first, second);
  const UniqueFd epoll(::epoll_create1(EPOLL_CLOEXEC));
  ASSERT_TRUE(nodes.watch_in(epoll.get()));
  const auto readable = [&] {
    pollfd news{epoll.get(), POLLIN, 0};
    return ::poll(&news, 1, 0) == 1;
  };
  EXPECT_TRUE(nodes.arm(kForever));
  EXPECT_FALSE(readable());
  ::eventfd_write(remote_->event.get(), 1);
  EXPECT_TRUE(readable());
  shared_->armed = false;
  EXPECT_FALSE(nodes.arm(kForever)) << "the first has something already";
}

// -- how a rank gets there -----------------------------------------------------------------------

class JobEntryTest : public ::testing::Test {
 protected:
  static Result<JobEntry> enter(const std::string& addresses, Nanos patience = 2 * kSecond) {
    SessionOptions options;
    options.address = addresses;
    options.job = "j";
    options.checksums = false;
    options.connect_timeout = patience;
    return enter_job(options);
  }
  static json opened(std::vector<std::uint32_t> weights, std::uint32_t epoch = 3) {
    return {{"result",
             {{"epoch", epoch},
              {"weights", weights},
              {"split_bytes", 4096},
              {"credit", 16},
              {"deadline_ms", 1000}}}};
  }
  static json at(const ScriptedNode& node, std::vector<std::uint32_t> trees) {
    return {{"name", "n"},
            {"host", "elsewhere"},
            {"tcp", ""},
            {"unix", node.address()},
            {"trees", trees}};
  }
};

TEST_F(JobEntryTest, AnOlderNodeIsAskedAsBefore) {
  ScriptedNode node(path("old"), [](const std::string& method, const json&) -> json {
    if (method == "job.open") return {{"error", {{"code", -32601}, {"message", "no such method"}}}};
    if (method == "session.open") return opened({65536}, 1);
    return {{"result", json::object()}};
  });
  const auto entry = enter(node.address());
  ASSERT_TRUE(entry.ok()) << entry.error().message;
  EXPECT_EQ(entry->nodes.lanes(), 1u);
  EXPECT_FALSE(node.requests().at(1).second.contains("epoch"));
}

TEST_F(JobEntryTest, AllNodesOfThePlanAreOpenedWithItsEpoch) {
  const auto serve = [](const std::string& method, const json&) -> json {
    return method == "session.open" ? opened({32768, 32768}) : json{{"result", json::object()}};
  };
  ScriptedNode a(path("a"), serve), b(path("b"), serve);
  ScriptedNode coordinator(path("c"), [&](const auto&, const auto&) -> json {
    return {{"result", {{"epoch", 3}, {"nodes", {at(a, {1}), at(b, {0})}}}}};
  });
  const auto entry = enter(path("nobody") + "," + coordinator.address());
  ASSERT_TRUE(entry.ok()) << entry.error().message;
  EXPECT_EQ(entry->nodes.size(), 2u);
  EXPECT_EQ(entry->book.epoch, 3u);
  EXPECT_EQ(a.requests().at(0).second.at("epoch"), 3);
}

TEST_F(JobEntryTest, ANodeMayHaveMoreTreesThanShards) {
  for (const std::uint32_t lanes : {0U, 1U, 2U, 3U, 1U << 31}) {
    ScriptedNode node(path("n"), [&](const std::string& method, const json&) -> json {
      if (method == "job.open") return {{"result", {{"nodes", json::array()}}}};
      json answer = opened({20000, 20000, 25536});
      answer["result"]["lanes"] = lanes;
      return method == "session.open" ? answer : json{{"result", json::object()}};
    });
    const auto entry = enter(node.address());
    if (lanes < 1 || lanes > 256) {
      EXPECT_EQ(entry.status(), Status::kProtocol) << lanes;
      continue;
    }
    ASSERT_TRUE(entry.ok()) << entry.error().message;
    EXPECT_EQ(entry->nodes.lanes(), lanes);
    EXPECT_EQ(entry->book.lanes, (std::vector<std::uint32_t>{0, 1 % lanes, 2 % lanes}));
  }
}

// What the coordinator says of a rank's trees may leave some of the node's out.
TEST_F(JobEntryTest, LanesAreAsTheCoordinatorSays) {
  ScriptedNode a(path("a"), [](const std::string& method, const json&) -> json {
    json answer = opened({32768, 32768});
    answer["result"]["lanes"] = 3;
    return method == "session.open" ? answer : json{{"result", json::object()}};
  });
  json lanes = json::array({2, 0});
  ScriptedNode coordinator(path("c"), [&](const auto&, const auto&) -> json {
    json node = at(a, {0, 1});
    node["lanes"] = lanes;
    return {{"result", {{"epoch", 3}, {"nodes", {node}}}}};
  });
  const auto entry = enter(coordinator.address());
  ASSERT_TRUE(entry.ok()) << entry.error().message;
  EXPECT_EQ(entry->nodes.lanes(), 3u);
  EXPECT_EQ(entry->book.lanes, (std::vector<std::uint32_t>{2, 0}));
  for (const json& wrong : {json::array({0}), json::array({0, 3}), json::array({-1, 0}), json(1)}) {
    lanes = wrong;
    EXPECT_EQ(enter(coordinator.address()).status(), Status::kProtocol) << wrong;
  }
}

TEST_F(JobEntryTest, APlanThatIsNotOneIsRefused) {
  ScriptedNode a(path("a"), [](const auto&, const auto&) { return opened({32768, 32768}); });
  std::vector<std::vector<std::uint32_t>> wrong{{0}, {0, 0}, {0, 2}, {}, {0, 1, 2}};
  std::size_t next = 0;
  ScriptedNode coordinator(path("c"), [&](const auto&, const auto&) -> json {
    return {{"result", {{"epoch", 3}, {"nodes", {at(a, wrong[next++])}}}}};
  });
  for (std::size_t i = 0; i < wrong.size(); ++i) {
    EXPECT_EQ(enter(coordinator.address()).status(), Status::kProtocol) << i;
  }
}

TEST_F(JobEntryTest, NodesThatDisagreeAreNamed) {
  ScriptedNode a(path("a"), [](const std::string& method, const json&) -> json {
    return method == "session.open" ? opened({32768, 32768}) : json{{"result", json::object()}};
  });
  ScriptedNode b(path("b"), [](const auto&, const auto&) { return opened({16384, 49152}); });
  ScriptedNode coordinator(path("c"), [&](const auto&, const auto&) -> json {
    return {{"result", {{"epoch", 3}, {"nodes", {at(a, {0}), at(b, {1})}}}}};
  });
  const auto entry = enter(coordinator.address());
  EXPECT_EQ(entry.status(), Status::kProtocol);
  EXPECT_THAT(entry.error().message, HasSubstr(b.address()));
}

// The job has ended while its plan was on its way.
TEST_F(JobEntryTest, AsksAgainWhereTheEpochIsOver) {
  ScriptedNode a(path("a"), [](const std::string& method, const json& params) -> json {
    if (method != "session.open") return {{"result", json::object()}};
    return params.at("epoch") == 4 ? opened({65536}, 4) : refusal(Status::kStaleEpoch, "over");
  });
  std::uint32_t epoch = 2;
  ScriptedNode coordinator(path("c"), [&](const auto&, const auto&) -> json {
    return {{"result", {{"epoch", ++epoch}, {"nodes", {at(a, {0})}}}}};
  });
  const auto entry = enter(coordinator.address());
  ASSERT_TRUE(entry.ok()) << entry.error().message;
  EXPECT_EQ(entry->book.epoch, 4u);
  EXPECT_EQ(coordinator.requests().size(), 2u);
}

// It has other ranks, one of which has gone.
TEST_F(JobEntryTest, AsksAgainWhileTheJobBeforeEnds) {
  ScriptedNode a(path("a"), [](const std::string& method, const json&) -> json {
    return method == "session.open" ? opened({65536}) : json{{"result", json::object()}};
  });
  int asked = 0;
  ScriptedNode coordinator(path("c"), [&](const auto&, const auto&) -> json {
    if (++asked < 3) return refusal(Status::kStaleEpoch, "it has 3 ranks");
    return {{"result", {{"epoch", 3}, {"nodes", {at(a, {0})}}}}};
  });
  const auto entry = enter(coordinator.address());
  ASSERT_TRUE(entry.ok()) << entry.error().message;
  EXPECT_EQ(asked, 3);
}

TEST_F(JobEntryTest, WhoKnowsNoJobIsPassedOver) {
  ScriptedNode member(path("m"), [](const auto&, const auto&) {
    return refusal(Status::kUnavailable, "ask the coordinator");
  });
  const Nanos began = monotonic_now();
  const auto refused = enter(member.address());
  EXPECT_EQ(refused.status(), Status::kUnavailable);
  EXPECT_TRUE(refused.error().message.starts_with("ask the coordinator"))
      << refused.error().message;
  EXPECT_LT(monotonic_now() - began, 2 * kSecond) << "it is there: no need to wait so long";
  ScriptedNode alone(path("a"), [](const std::string& method, const json&) -> json {
    if (method == "job.open") return {{"result", {{"nodes", json::array()}}}};
    return method == "session.open" ? opened({65536}) : json{{"result", json::object()}};
  });
  EXPECT_TRUE(enter(member.address() + "," + alone.address()).ok());
}

// Whoever starts late is not given less time for its nodes to join.
TEST_F(JobEntryTest, ACoordinatorThatStartsLateHasTimeAllTheSame) {
  std::optional<ScriptedNode> late;
  Nanos began = 0;
  std::thread starts([&] {
    ::usleep(1'200'000);
    began = monotonic_now();
    late.emplace(path("l"), [&](const std::string& method, const json&) -> json {
      if (method == "job.open" && monotonic_now() < began + kSecond / 2) {
        return refusal(Status::kUnavailable, "no node has joined here");
      }
      if (method == "job.open") return {{"result", {{"nodes", json::array()}}}};
      return method == "session.open" ? opened({65536}) : json{{"result", json::object()}};
    });
  });
  const auto entered = enter("unix:" + path("l"), 30 * kSecond);
  starts.join();
  EXPECT_TRUE(entered.ok()) << entered.error().message;
}

TEST_F(JobEntryTest, AMemberLeadsToItsCoordinator) {
  ScriptedNode coordinator(path("c"), [](const std::string& method, const json&) -> json {
    if (method == "cluster.nodes") return {{"result", json::array({{{"name", "m"}}})}};
    if (method == "job.open") return {{"result", {{"nodes", json::array()}}}};
    return method == "session.open" ? opened({65536}) : json{{"result", json::object()}};
  });
  ScriptedNode member(path("m"), [&](const std::string& method, const json&) -> json {
    if (method != "cluster.coordinator") return refusal(Status::kUnavailable, "no coordinator");
    return {{"result", {{"name", "m"}, {"coordinator", coordinator.address()}}}};
  });
  const auto entered = enter(member.address());
  EXPECT_TRUE(entered.ok()) << entered.error().message;
}

}  // namespace
}  // namespace tally::client
