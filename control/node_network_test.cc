// Sessions over RDMA devices of this process: a node without its server, whose control thread is
// the test's.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>
#include <cerrno>
#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>
#include <utility>

#include "client/verbs_link.h"
#include "control/coordinator/memory_store.h"
#include "control/node.h"
#include "dataplane/transport/verbs/fake_verbs.h"

namespace tally::control {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using transport::verbs::Call;
namespace verbs = transport::verbs;

constexpr std::uint32_t kShards = 2;
constexpr std::uint32_t kCredit = 8;
constexpr auto kPatience = std::chrono::seconds(10);

// What has come of a request.
class Answer : public rpc::ReplySink {
 public:
  void answer(std::string line) override { said_ = json::parse(line, nullptr, false); }
  bool has_come() const { return !said_.is_null(); }
  json result() const { return said_.value("result", json()); }
  std::string error() const { return said_.value("/error/message"_json_pointer, ""); }

 private:
  json said_;
};

class NodeNetwork : public ::testing::Test {
 protected:
  // `devices`: of the shards, in turn.
  explicit NodeNetwork(const std::vector<std::string>& devices = {"node"},
                       std::vector<Rail> rails = {}) {
    std::vector<NetworkPorts> ports(kShards);
    for (std::size_t i = 0; i < kShards; ++i) {
      ports[i].verbs =
          verbs::Port::open(api_, {.device = {.device = devices[i % devices.size()], .host = {}},
                                   .credit = kCredit,
                                   .landing_bytes = 1 << 20,
                                   .tiles = {}})
              .value();
    }
    engine::ShardConfig config;
    config.kernels = summation::kernels(summation::Isa::kScalar);
    config.protocol.plan = protocol::even_plan(kShards, 1 << 16);
    shards_ =
        std::make_unique<ShardSet>(*io_, kShards, config, std::span<std::byte>{}, std::move(ports));
    NodeOptions options;
    options.credit = kCredit;
    options.limits.network = true;
    options.verbs = {"node", ""};
    options.rails = std::move(rails);
    node_ = std::make_unique<Node>(std::move(options), *io_, *shards_, store_, [](auto, auto) {});
    for (std::uint32_t i = 0; i < kShards; ++i) {
      threads_.emplace_back([this, i] { shards_->run(i, false); });
    }
    std::array<int, 2> pair{};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, pair.data()), 0);
    here_ = UniqueFd(pair[0]);
    there_ = UniqueFd(pair[1]);
    whole_ = api_.objects();
  }
  ~NodeNetwork() override {
    api_.go_on();
    if (shards_ != nullptr) stop();
  }
  void stop() {
    shards_->stop();
    for (std::thread& thread : std::exchange(threads_, {})) thread.join();
  }

  template <typename Condition>
  bool until(Condition condition) {
    io_->restart();
    const auto guard = asio::make_work_guard(*io_);
    const auto end = std::chrono::steady_clock::now() + kPatience;
    while (!condition() && std::chrono::steady_clock::now() < end) {
      io_->run_one_for(std::chrono::milliseconds(1));
    }
    return condition();
  }
  std::shared_ptr<Answer> ask(rpc::ConnectionId connection, const char* method, json params) {
    auto answer = std::make_shared<Answer>();
    node_->handle(connection, {method, std::move(params), {}}, {answer, 1, true});
    return answer;
  }
  std::shared_ptr<Answer> asked(rpc::ConnectionId connection, const char* method, json params) {
    auto answer = ask(connection, method, std::move(params));
    EXPECT_TRUE(until([&] { return answer->has_come(); })) << method;
    return answer;
  }
  // A job of its own, and the client's end of its connections.
  std::unique_ptr<client::VerbsLink> open(rpc::ConnectionId connection) {
    const auto opened = asked(
        connection, "session.open",
        {{"version", 1}, {"job", "job-" + std::to_string(connection)}, {"ranks", 1}, {"rank", 0}});
    EXPECT_EQ(opened->error(), "");
    return link();
  }
  std::unique_ptr<client::VerbsLink> link(const char* device = "worker",
                                          std::uint32_t shards = kShards) {
    return client::VerbsLink::make(api_, {.device = {.device = device, .host = {}},
                                          .shards = shards,
                                          .credit = kCredit,
                                          .watch = here_.get()})
        .value();
  }
  std::shared_ptr<Answer> attach(rpc::ConnectionId connection, const client::VerbsLink& link) {
    return ask(connection, "session.attach", link.introduction());
  }
  // Messages get to the node's queue pairs.
  static bool served(client::VerbsLink& link, const Answer& answer) {
    return link.attached(answer.result().value("names", json()), monotonic_now() + kSecond).ok();
  }
  // All shards go through a task.
  bool shards_turn() {
    bool done = false;
    shards_->on_each([](auto, auto&, auto&) {}, [&done] { done = true; });
    return until([&done] { return done; });
  }
  // In the order of a daemon's end.
  void expect_nothing_left() {
    node_.reset();
    stop();
    shards_.reset();
    io_.reset();  // with what nobody has heard
    EXPECT_EQ(api_.objects(), 0U);
  }
  bool somebody_waits() {
    return until([this] { return api_.stalled() > 0; });
  }

  verbs::FakeVerbs api_{
      {{.name = "node"}, {.name = "worker"}, {.name = "node2"}, {.name = "worker2"}}};
  UniqueFd here_, there_;
  std::optional<asio::io_context> io_{std::in_place};
  MemoryStore store_;
  std::unique_ptr<ShardSet> shards_;
  std::unique_ptr<Node> node_;
  std::vector<std::thread> threads_;
  std::size_t whole_ = 0;  // what the node has of the devices before anybody comes
};

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

TEST_F(NodeNetwork, WhyThereIsNoQueuePairIsSaidTwice) {
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

TEST_F(NodeRails, EachLaneHasADeviceAtBothEnds) {
  const auto opened =
      asked(1, "session.open", {{"version", 1}, {"job", "rails"}, {"ranks", 1}, {"rank", 0}})
          ->result();
  EXPECT_EQ(opened["hosts"], (json{"10.0.0.1", "10.0.1.1"}));
  EXPECT_EQ(opened["weights"], (json{49152, 16384}));
  auto first = link("worker", 1), second = link("worker2", 1);
  const auto name = [](const client::VerbsLink& one) { return one.introduction()["names"][0]; };
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

// Nobody hears of it any more: the loop has ended.
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
