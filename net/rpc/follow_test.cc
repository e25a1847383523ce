#include "net/rpc/follow.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <string>

#include "tests/support/client/scripted_node.h"

namespace tally::rpc {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

class FollowTest : public testing::Test {
 protected:
  static std::string path(const char* name) {
    return "/tmp/tally-follow-" + std::to_string(::getpid()) + "-" + name;
  }
  // Follows a member that answers this.
  static Result<RpcChannel> follow_what(const json& answer, Nanos timeout = 20 * kSecond) {
    client::ScriptedNode member(path("member"), [&](const auto&, const auto&) -> json {
      return answer.is_null() ? answer : json{{"result", answer}};
    });
    auto channel = RpcChannel::connect(member.address(), monotonic_now() + 20 * kSecond);
    if (!channel) return channel.error();
    return follow(*channel, monotonic_now() + timeout);
  }
  static json naming(const std::string& address) {
    return {{"coordinator", address}, {"name", "b"}};
  }
};

TEST_F(FollowTest, GoesWhereTheNodeIsAMember) {
  client::ScriptedNode coordinator(path("c"), [](const auto&, const auto&) -> json {
    return {{"result", json::array({{{"name", "a"}}, {{"name", "b"}}})}};
  });
  const auto followed = follow_what(naming(coordinator.address()));
  ASSERT_TRUE(followed.ok()) << followed.error().message;
  EXPECT_EQ(followed->address(), coordinator.address());
  ASSERT_EQ(coordinator.requests().size(), 1u);
  EXPECT_EQ(coordinator.requests()[0].first, "cluster.nodes") << "no token has been sent yet";
}

TEST_F(FollowTest, NotToOneThatDoesNotKnowTheNode) {
  for (const json& nodes : {json::array(), json(3), json::array({1, "b"}),
                            json::array({{{"name", 7}}}), json::array({{{"name", "a"}}})}) {
    client::ScriptedNode other(path("c"), [&](const auto&, const auto&) -> json {
      return {{"result", nodes}};
    });
    const auto followed = follow_what(naming(other.address()));
    EXPECT_EQ(followed.status(), Status::kUnavailable);
    EXPECT_THAT(followed.error().message, HasSubstr("has no member \"b\"")) << nodes;
  }
}

TEST_F(FollowTest, NotWhereNobodyIs) {
  const auto followed = follow_what(naming("unix:" + path("nowhere")));
  EXPECT_EQ(followed.status(), Status::kUnavailable);
  EXPECT_THAT(followed.error().message, HasSubstr(path("nowhere")));
  EXPECT_THAT(follow_what(naming("unix:" + path("member"))).error().message, HasSubstr("cannot go"))
      << "itself";
}

TEST_F(FollowTest, RefusesAnswersThatNameNoCoordinator) {
  for (const json& answer :
       {json(1), json::array({1}), json::object(), json{{"coordinator", 5}, {"name", "b"}},
        json{{"coordinator", ""}, {"name", "b"}}, json{{"coordinator", "unix:/x"}},
        naming("unix:/" + std::string(1 << 20, 'x'))}) {
    const auto followed = follow_what(answer);
    EXPECT_EQ(followed.status(), Status::kUnavailable);
    EXPECT_THAT(followed.error().message, HasSubstr("is not a member"));
  }
  EXPECT_EQ(follow_what(naming("tcp:nonsense")).status(), Status::kUnavailable);
  EXPECT_EQ(follow_what(nullptr, 20 * kMillisecond).status(), Status::kUnavailable)
      << "no answer at all";
}

}  // namespace
}  // namespace tally::rpc
