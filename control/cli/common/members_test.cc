// Who the members are, asked of a coordinator, of a member and of a node that stands alone.
#include "control/cli/common/members.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/support/client/scripted_node.h"
#include "tests/support/net/rpc_test_support.h"

namespace tally::control {
namespace {

using client::refusal;
using client::ScriptedNode;
using nlohmann::json;
using rpc::RpcChannel;

constexpr Nanos kTimeout = 5 * kSecond;

class AskMembers : public testing::Test {
 protected:
  std::string path(const char* name) { return directory_ / name; }
  static RpcChannel to(const ScriptedNode& node) {
    return RpcChannel::connect(node.address(), monotonic_now() + kTimeout).value();
  }
  static ScriptedNode::Script answering(json nodes, json coordinator = json::object()) {
    return [nodes, coordinator](const std::string& method, const json&) -> json {
      return {{"result", method == "cluster.nodes" ? nodes : coordinator}};
    };
  }

  rpc::TemporaryDirectory directory_;
};

const json two_members = {{{"name", "a"}}, {{"name", "b"}}};

TEST_F(AskMembers, OfACoordinatorAreItsOwn) {
  const ScriptedNode coordinator(path("a"), answering(two_members));
  RpcChannel channel = to(coordinator);
  EXPECT_EQ(*ask_members(channel, kTimeout), two_members);
  EXPECT_EQ(channel.address(), coordinator.address());
}

TEST_F(AskMembers, OfAMemberAreThoseOfItsCoordinatorWhoIsAskedFromThenOn) {
  const ScriptedNode coordinator(path("a"), answering(two_members));
  const json named = {{"coordinator", coordinator.address()}, {"name", "b"}};
  const ScriptedNode member(path("b"), answering(json::array(), named));
  RpcChannel channel = to(member);
  EXPECT_EQ(*ask_members(channel, kTimeout), two_members);
  EXPECT_EQ(channel.address(), coordinator.address());
}

TEST_F(AskMembers, ThereAreNoneWhereNobodyIsNamedOrThere) {
  const json nowhere = {{"coordinator", "unix:" + path("nowhere")}, {"name", "b"}};
  for (const json& named : {json::object(), nowhere, json(7)}) {
    for (const json& nodes : {json::array(), json(7), json("text"), json()}) {
      const ScriptedNode node(path("b"), answering(nodes, named));
      RpcChannel channel = to(node);
      EXPECT_EQ(*ask_members(channel, kTimeout), json::array()) << nodes << named;
      EXPECT_EQ(channel.address(), node.address());
    }
  }
}

TEST_F(AskMembers, AnErrorIsTheNodes) {
  const ScriptedNode old(path("b"), [](const std::string&, const json&) {
    return refusal(Status::kUnsupported, "unknown method");
  });
  RpcChannel channel = to(old);
  EXPECT_EQ(ask_members(channel, kTimeout).status(), Status::kUnsupported);
}

}  // namespace
}  // namespace tally::control
