// A session's nodes: which tree is whose, one number for a region at all of them, and what a
// coordinator's answer leads to.
#include "client/versions/nodes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <unistd.h>

#include "tests/support/client/recording_connection.h"
#include "tests/support/client/scripted_node.h"

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
    nodes.push_back({rpc::RpcChannel::connect(first.address(), soon()).value(),
                     std::make_unique<RecordingConnection>(true),
                     {0, 3, 4},
                     {0, 1, 0}});
    nodes.push_back({rpc::RpcChannel::connect(second.address(), soon()).value(),
                     std::make_unique<RecordingConnection>(false),
                     {1, 2},
                     {0, 1}});
    shared_ = static_cast<RecordingConnection*>(nodes[0].connection.get());
    remote_ = static_cast<RecordingConnection*>(nodes[1].connection.get());
    return Nodes(std::move(nodes));
  }

  RecordingConnection* shared_ = nullptr;
  RecordingConnection* remote_ = nullptr;
};

TEST_F(NodesTest, ATreesNoticesGoToItsNode) {
  ScriptedNode first(path("a"), good), second(path("b"), good);
  Nodes nodes = make(first, second);
  EXPECT_EQ(nodes.shards(), 4u);
  EXPECT_EQ(nodes.transport(), "shm, fabric");
  EXPECT_TRUE(nodes.memory_needs().shared);
  const auto& shards = nodes.shards_of_trees();
  ASSERT_EQ(shards.size(), 5u);
  EXPECT_EQ(shards[4], shards[0]) << "they share a shard";
  for (const std::uint32_t shard : shards) EXPECT_TRUE(nodes.send(shard, {}, {}));
  ASSERT_EQ(shared_->sent.size(), 3u);
  ASSERT_EQ(remote_->sent.size(), 2u);
  EXPECT_EQ(shared_->sent[1].first, 1u) << "tree 3 is its second";
  EXPECT_EQ(shared_->sent[2].first, 0u);
  EXPECT_EQ(remote_->sent[0].first, 0u);
  EXPECT_EQ(nodes.connections().index_of(shards[0]), 0u);
  EXPECT_EQ(nodes.connections().index_of(shards[2]), 1u);
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

// It is the node's choice.
TEST_F(NodesTest, ARegionsNumberCostsNoMemory) {
  static constexpr std::uint32_t kLast = wire::kMaxRegions;
  const auto last = [](const std::string&, const json&) {
    return json{{"result", {{"region", kLast}}}};
  };
  ScriptedNode first(path("a"), last), second(path("b"), last);
  Nodes nodes = make(first, second);
  std::vector<std::byte> memory(10'000);
  const auto region = Region::stage(memory.data() + 8, 9000).value();
  const std::size_t before = ::mallinfo2().uordblks;
  ASSERT_EQ(nodes.add_region(*region, soon()).value(), kLast);
  EXPECT_LT(::mallinfo2().uordblks, before + (256 << 10));
  region->id = kLast;
  EXPECT_TRUE(nodes.remove_region(*region, soon()).ok());
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
    ASSERT_TRUE(nodes.send(nodes.shards_of_trees()[tree], notice, {}));
  }
  EXPECT_EQ(shared_->sent.at(0).second.in_offset, 16 + region->base_offset());
  EXPECT_EQ(shared_->sent.at(0).second.out_offset, region->base_offset());
  EXPECT_EQ(remote_->sent.at(0).second.in_offset, 16u);
}

TEST_F(NodesTest, ARegionThatOneNodeRefusesIsRemovedFromTheOthers) {
  ScriptedNode first(path("a"), good);
  ScriptedNode second(path("b"), [](const auto&, const auto&) {
    return refusal(Status::kRefused, "no room for it");
  });
  Nodes nodes = make(first, second);
  const auto region = Region::allocate(4096).value();
  const auto added = nodes.add_region(*region, soon());
  EXPECT_EQ(added.status(), Status::kRefused);
  EXPECT_EQ(added.error().message, "the node at " + second.address() + ": no room for it");
  ASSERT_EQ(first.requests().size(), 2u);
  EXPECT_EQ(first.requests().at(1).first, "region.deregister");
  EXPECT_EQ(shared_->offered, 0);
  EXPECT_EQ(remote_->offered, 0);
}

// A node may answer anything: no number is taken that nobody gives, and no access left behind.
TEST_F(NodesTest, RefusesImpossibleRegionNumbers) {
  for (const json& number : {json(0), json(4294967295), json(1 << 21), json("5"), json()}) {
    const auto answer = [&](const auto&, const auto&) {
      return json{{"result", {{"region", number}}}};
    };
    ScriptedNode first(path("a"), answer), second(path("b"), good);
    Nodes nodes = make(first, second);
    const auto region = Region::allocate(4096).value();
    EXPECT_EQ(nodes.add_region(*region, soon()).status(), Status::kProtocol) << number;
    EXPECT_EQ(shared_->offered, 0) << number;
  }
}

TEST_F(NodesTest, NamesTheNodeThatIsGone) {
  ScriptedNode first(path("a"), good), second(path("b"), good);
  Nodes nodes = make(first, second);
  nodes.connections().mark_all();
  EXPECT_FALSE(nodes.connections().read_events());
  remote_->gone = true;
  nodes.connections().mark(1);
  EXPECT_TRUE(nodes.connections().read_events());
  EXPECT_THAT(nodes.why_gone(), HasSubstr(second.address()));
  EXPECT_EQ(nodes.why_gone().find(first.address()), std::string::npos);
}

TEST_F(NodesTest, ANodeOfAClusterIsNamedByItsNameToo) {
  ScriptedNode node(path("a"), good);
  std::vector<SessionNode> one;
  one.push_back({rpc::RpcChannel::connect(node.address(), soon()).value(),
                 std::make_unique<RecordingConnection>(true),
                 {0},
                 {0}});
  one.front().name = "n1";
  auto* connection = static_cast<RecordingConnection*>(one.front().connection.get());
  Nodes nodes(std::move(one));
  const std::string title = "node \"n1\" at " + node.address();
  EXPECT_EQ(nodes.titles(), title);
  EXPECT_EQ(nodes.titles_of({0}), title);
  connection->gone = true;
  nodes.connections().mark(0);
  EXPECT_TRUE(nodes.connections().read_events());
  EXPECT_EQ(nodes.why_gone(), title + ": it died or closed the connection");
}

// None of them is asked for memory: whoever has room is not known before all have said so.
TEST_F(NodesTest, AllNodesAreAskedForRoomAndAnOlderOneCannotBe) {
  ScriptedNode first(path("a"), [](const auto&, const auto&) {
    return refusal(Status::kUnsupported, "unknown method");
  });
  bool room = true;
  ScriptedNode second(path("b"), [&](const auto&, const auto&) {
    return room ? json{{"result", json::object()}} : refusal(Status::kRefused, "no room for it");
  });
  Nodes nodes = make(first, second);
  EXPECT_TRUE(nodes.room_for(1 << 20, soon()).ok());
  EXPECT_EQ(second.requests().back(),
            (std::pair<std::string, json>{"region.check", {{"bytes", 1 << 20}}}));
  room = false;
  const auto refused = nodes.room_for(1 << 20, soon());
  EXPECT_EQ(refused.status(), Status::kRefused);
  EXPECT_EQ(refused.error().message, "the node at " + second.address() + ": no room for it");
}

}  // namespace
}  // namespace tally::client
