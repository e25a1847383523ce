// What a session may ask for, and what it takes instead. Whether it can be had, the tests of whole
// sessions try.
#include "client/connections/make_connection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "tests/support/client/fabric_node.h"
#include "tests/support/client/scripted_node.h"

namespace tally::client {
namespace {

using ::testing::HasSubstr;

ibv_pd* some_domain() {
  static int domain = 0;
  return reinterpret_cast<ibv_pd*>(&domain);  // never looked into
}

TEST(ConnectionWish, IsATransportAndForVerbsADevice) {
  for (const char* transport : {"", "shm", "fabric", "verbs"}) {
    const auto wish = read_wish(transport, nullptr);
    ASSERT_TRUE(wish.ok()) << transport;
    EXPECT_EQ(wish->transport, transport);
    EXPECT_EQ(wish->device, "");
  }
  EXPECT_EQ(read_wish("verbs:mlx5_0:1:3", nullptr)->device, "mlx5_0:1:3");
  for (const char* wrong : {"rdma", "shm:", "fabric:eth0", "verb"}) {
    const auto wish = read_wish(wrong, nullptr);
    EXPECT_EQ(wish.status(), Status::kInvalidArgument) << wrong;
    EXPECT_THAT(wish.error().message, HasSubstr("is not one of shm, verbs"));
  }
}

TEST(ConnectionWish, AProtectionDomainMeansVerbs) {
  for (const char* fine : {"", "verbs", "verbs:mlx5_0:1:3"}) {
    const auto wish = read_wish(fine, some_domain());
    ASSERT_TRUE(wish.ok()) << fine;
    EXPECT_EQ(wish->transport, "verbs");
    EXPECT_EQ(wish->domain, some_domain());
  }
  for (const char* other : {"shm", "fabric"}) {
    const auto wish = read_wish(other, some_domain());
    EXPECT_EQ(wish.status(), Status::kInvalidArgument);
    EXPECT_THAT(wish.error().message, HasSubstr("ibv_pd works only with transport verbs"));
    EXPECT_THAT(wish.error().message, HasSubstr(other));
  }
}

// A node on this host that cannot take a segment.
class ChosenConnectionTest : public ::testing::Test {
 protected:
  Result<ChosenConnection> choose(const std::string& transport, bool fabric_offered,
                                  Nanos timeout = 10 * kSecond) {
    const auto script = [this](const std::string&, const nlohmann::json& params) {
      attached_ = params;
      if (!params.contains("transport")) return refusal(Status::kNoMemory, "no segments here");
      return nlohmann::json{{"result", {{"names", fabric_.names()}}}};
    };
    const ScriptedNode node("/tmp/tally-make-link-" + std::to_string(::getpid()), script);
    nlohmann::json opened = nlohmann::json::object();
    if (fabric_offered) {
      opened["fabric"] = {
          {"provider", fabric_.provider()}, {"host", FabricNode::kHost}, {"eager_bytes", 4096U}};
    }
    const Nanos deadline = monotonic_now() + timeout;
    auto channel = rpc::RpcChannel::connect(node.address(), deadline).value();
    wish_.transport = transport;
    return make_connection(channel, opened, wish_, {FabricNode::kShards, 4}, {}, deadline);
  }
  FabricNode fabric_;
  ConnectionWish wish_;
  nlohmann::json attached_;  // the last parameters of session.attach
};

TEST_F(ChosenConnectionTest, WithoutSharedMemoryItIsFabric) {
  fabric_.work();
  const auto made = choose("", true);
  ASSERT_TRUE(made.ok()) << made.error().message;
  EXPECT_EQ(made->connection->transport(), "fabric");
  EXPECT_TRUE(made->second_best);
  EXPECT_THAT(made->why, HasSubstr("not shm: "));
  EXPECT_THAT(made->why, HasSubstr("no segments here"));
}

TEST_F(ChosenConnectionTest, ASessionMayWantNoEagerResults) {
  fabric_.work();
  for (const bool eager : {true, false}) {
    wish_.eager_results = eager;
    const auto made = choose("fabric", true);
    ASSERT_TRUE(made.ok()) << made.error().message;
    EXPECT_EQ(attached_.contains("eager_bytes"), eager) << attached_;
    EXPECT_GT(made->connection->eager_bytes(), 0U) << "contributions may travel with notices";
  }
}

TEST_F(ChosenConnectionTest, ReportsBothReasonsWhenNeitherTransportWorks) {
  const auto made = choose("", true, kSecond);  // nobody works at the node
  ASSERT_FALSE(made.ok());
  EXPECT_THAT(made.error().message, HasSubstr("nor transport shm: "));
  EXPECT_THAT(made.error().message, HasSubstr("no segments here"));
}

TEST_F(ChosenConnectionTest, DoesNotReplaceForcedSharedMemory) {
  fabric_.work();
  EXPECT_THAT(choose("shm", true).error().message, HasSubstr("no segments here"));
  EXPECT_EQ(choose("", false).status(), Status::kNoMemory);
}

}  // namespace
}  // namespace tally::client
