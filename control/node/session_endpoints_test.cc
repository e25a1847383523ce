// Sessions over RDMA devices of this process.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "tests/support/control/node_fixture.h"

namespace tally::control {
namespace {

using ::testing::HasSubstr;
using transport::verbs::Call;

TEST_F(NodeNetwork, ASlowQueuePairHoldsUpNeitherTheShardsNorOthers) {
  auto first = open(1);
  auto second = open(2);
  api_.stall(Call::kModify);
  const auto slow = attach(1, *first);
  ASSERT_TRUE(somebody_waits());
  EXPECT_TRUE(shards_turn());
  const auto quick = attach(2, *second);
  ASSERT_TRUE(until([&] { return quick->has_come(); }));
  EXPECT_TRUE(served(*second, *quick));
  EXPECT_FALSE(slow->has_come());
  // What takes for granted that it is attached is too early.
  const auto early = asked(1, "region.register", {{"bytes", 4096}, {"base", 1 << 20}, {"key", 7}});
  EXPECT_THAT(early->error(), HasSubstr("not attached"));
  api_.go_on();
  ASSERT_TRUE(until([&] { return slow->has_come(); }));
  EXPECT_TRUE(served(*first, *slow));
}

TEST_F(NodeNetwork, AClientThatHangsUpMeanwhileLeavesNothing) {
  for (const Call call : {Call::kPair, Call::kModify}) {
    auto link = open(1);
    api_.stall(call);
    const auto answer = attach(1, *link);
    ASSERT_TRUE(somebody_waits());
    node_->closed(1);
    // The name of the job is free again before the queue pair is there.
    auto next = open(2);
    const auto attached = attach(2, *next);
    ASSERT_TRUE(until([&] { return attached->has_come(); }));
    EXPECT_TRUE(served(*next, *attached));
    api_.go_on();
    ASSERT_TRUE(until([&] { return answer->has_come(); }));
    EXPECT_EQ(answer->error(), "no session is open on this connection");
    EXPECT_EQ(asked(2, "session.close", json::object())->error(), "");
    link.reset();
    next.reset();
    EXPECT_EQ(api_.objects(), whole_);
  }
}

TEST_F(NodeNetwork, AFailedQueuePairIsReportedTwice) {
  auto link = open(1);
  const std::size_t before = api_.objects();
  for (int attempt = 0; attempt < 2; ++attempt) {
    // RTR, of the second shard's: the first one's is given back.
    api_.fail(Call::kModify, ETIMEDOUT, 4);
    const auto answer = attach(1, *link);
    ASSERT_TRUE(until([&] { return answer->has_come(); }));
    EXPECT_THAT(answer->error(),
                HasSubstr("a queue pair on node cannot be brought to RTR: Connection timed out (is "
                          "there a way from "));
    EXPECT_EQ(api_.objects(), before);
  }
  const auto answer = attach(1, *link);
  ASSERT_TRUE(answer->has_come());
  EXPECT_EQ(answer->error(), "attached already, or tried too often");
}

TEST_F(NodeNetwork, AttachedAgainWithOtherQueuePairsThanBefore) {
  auto link_before = open(1);
  const auto before = attach(1, *link_before);
  ASSERT_TRUE(until([&] { return before->has_come(); }));
  const std::size_t attached = api_.objects();
  auto link_after = link();
  const auto after = attach(1, *link_after);
  ASSERT_TRUE(until([&] { return after->has_come(); }));
  EXPECT_TRUE(served(*link_after, *after));
  EXPECT_FALSE(served(*link_before, *before));
  link_before.reset();
  EXPECT_EQ(api_.objects(), attached);
}

TEST_F(NodeNetwork, ARegionHasTheNumberThatItsOwnerWishes) {
  auto link = open(1);
  const auto attached = attach(1, *link);
  ASSERT_TRUE(until([&] { return attached->has_come(); }));
  const auto registered = [this](json params) {
    params.update({{"bytes", 4096}, {"base", 1 << 20}, {"key", 7}});
    return asked(1, "region.register", std::move(params));
  };
  EXPECT_EQ(registered({{"region", 2}})->result(), (json{{"region", 2}}));
  EXPECT_THAT(registered({{"region", 2}})->error(), HasSubstr("region 2 of this session is taken"));
  EXPECT_EQ(registered(json::object())->result(), (json{{"region", 1}}));
  EXPECT_EQ(registered(json::object())->result(), (json{{"region", 3}}));
  EXPECT_THAT(registered({{"region", 8193}})->error(), HasSubstr("from 1 to 8192"));
}

class NodeRails : public NodeNetwork {
 protected:
  NodeRails()
      : NodeNetwork({"node", "node2"}, {{.address = "10.0.0.1", .speed = 300, .shards = 1},
                                        {.address = "10.0.1.1", .speed = 100, .shards = 1}}) {}
};

TEST_F(NodeRails, EachShardHasADeviceAtBothEnds) {
  const auto opened =
      asked(1, "session.open", {{"version", 1}, {"job", "rails"}, {"ranks", 1}, {"rank", 0}})
          ->result();
  EXPECT_EQ(opened["hosts"], (json{"10.0.0.1", "10.0.1.1"}));
  EXPECT_EQ(opened["weights"], (json{49152, 16384}));
  auto first = link("worker", 1), second = link("worker2", 1);
  const auto name = [](const client::VerbsConnection& one) {
    return one.introduction()["names"][0];
  };
  const auto attached =
      ask(1, "session.attach", {{"transport", "verbs"}, {"names", {name(*first), name(*second)}}});
  ASSERT_TRUE(until([&] { return attached->has_come(); }));
  ASSERT_EQ(attached->error(), "");
  const json names = attached->result()["names"];
  const auto in_time = monotonic_now() + 10 * kSecond;
  EXPECT_TRUE(first->attached(json::array({names[0]}), in_time).ok());
  EXPECT_TRUE(second->attached(json::array({names[1]}), in_time).ok());
  json region = {{"bytes", 4096}, {"base", 1 << 20}, {"key", 7}, {"keys", {7}}};
  EXPECT_THAT(asked(1, "region.register", region)->error(), HasSubstr("list of 2 numbers"));
  region["keys"] = {7U, 9U};
  EXPECT_EQ(asked(1, "region.register", region)->result(), (json{{"region", 1}}));
}

TEST_F(NodeNetwork, AQueuePairThatIsSlowToEndHoldsUpItsOwnerAlone) {
  auto first = open(1);
  auto second = open(2);
  const auto attached = attach(1, *first);
  ASSERT_TRUE(until([&] { return attached->has_come(); }));
  api_.stall(Call::kDestroyPair);
  const auto closed = ask(1, "session.close", json::object());
  ASSERT_TRUE(somebody_waits());
  EXPECT_TRUE(shards_turn());
  const auto quick = attach(2, *second);
  ASSERT_TRUE(until([&] { return quick->has_come(); }));
  EXPECT_TRUE(served(*second, *quick));
  EXPECT_FALSE(closed->has_come());
  api_.go_on();
  ASSERT_TRUE(until([&] { return closed->has_come(); }));
  EXPECT_EQ(closed->error(), "");
}

TEST_F(NodeNetwork, TheNodeEndsWhileQueuePairsComeAndGo) {
  auto first = open(1);
  auto second = open(2);
  auto third = open(3);
  const auto attached = attach(1, *first);
  ASSERT_TRUE(until([&] { return attached->has_come(); }));
  api_.stall(Call::kDestroyPair);
  node_->closed(1);
  ASSERT_TRUE(somebody_waits());
  api_.stall(Call::kPair);
  attach(2, *second);
  ASSERT_TRUE(until([this] { return api_.stalled() == 2; }));
  bool hung_up = false;
  node_->hang_up([&hung_up] { hung_up = true; });
  ASSERT_TRUE(until([&hung_up] { return hung_up; }));
  const auto late = attach(3, *third);
  api_.go_on();
  ASSERT_TRUE(until([&] { return late->has_come(); }));
  EXPECT_EQ(late->error(), "no session is open on this connection");
  first.reset();
  second.reset();
  third.reset();
  expect_nothing_left();
}

// No answer is sent any more, because the loop has ended.
TEST_F(NodeNetwork, WhatIsUnderWayWhenAllIsOverLeavesNothing) {
  auto first = open(1);
  auto second = open(2);
  const auto attached = attach(1, *first);
  ASSERT_TRUE(until([&] { return attached->has_come(); }));
  api_.stall(Call::kPair);
  attach(2, *second);
  ASSERT_TRUE(somebody_waits());
  node_->closed(1);
  api_.go_on();
  first.reset();
  second.reset();
  expect_nothing_left();
}

}  // namespace
}  // namespace tally::control
