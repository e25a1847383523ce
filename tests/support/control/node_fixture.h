// For tests of a node over simulated RDMA devices in this process. The node has no server, and the
// test's thread is its control thread.
#pragma once

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>
#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "client/connections/verbs_connection.h"
#include "control/coordinator/state/memory_store.h"
#include "control/node/node.h"
#include "tests/support/transport/fake_verbs.h"

namespace tally::control {

using nlohmann::json;
namespace verbs = transport::verbs;

// The answer to a request.
class Answer : public rpc::ReplySink {
 public:
  void answer(std::string line) override { answer_ = json::parse(line, nullptr, false); }
  bool has_come() const { return !answer_.is_null(); }
  json result() const { return answer_.value("result", json()); }
  std::string error() const { return answer_.value("/error/message"_json_pointer, ""); }

 private:
  json answer_;
};

class NodeNetwork : public ::testing::Test {
 protected:
  static constexpr std::uint32_t kShards = 2;
  static constexpr std::uint32_t kCredit = 8;
  static constexpr auto kTimeout = std::chrono::seconds(10);

  // devices are the shards' devices, assigned in turn.
  explicit NodeNetwork(const std::vector<std::string>& devices = {"node"},
                       std::vector<Rail> rails = {}, std::string coordinators = {}) {
    std::vector<NetworkTransports> ports(kShards);
    for (std::size_t i = 0; i < kShards; ++i) {
      ports[i].verbs = verbs::VerbsTransport::open(
                           api_, {.device = {.device = devices[i % devices.size()], .host = {}},
                                  .credit = kCredit,
                                  .landing_bytes = 1 << 20,
                                  .tiles = {}})
                           .value();
    }
    engine::ShardConfig config;
    config.kernels = summation::kernels(summation::Isa::kScalar);
    config.protocol.plan = protocol::even_partition(kShards, 1 << 16);
    shards_ =
        std::make_unique<ShardSet>(*io_, kShards, config, std::span<std::byte>{}, std::move(ports));
    NodeOptions options;
    options.credit = kCredit;
    options.limits.network = true;
    options.verbs = {"node", ""};
    options.rails = std::move(rails);
    options.coordinators = std::move(coordinators);
    options.access = std::make_shared<Access>(true);
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
    const auto end = std::chrono::steady_clock::now() + kTimeout;
    while (!condition() && std::chrono::steady_clock::now() < end) {
      io_->run_one_for(std::chrono::milliseconds(1));
    }
    return condition();
  }
  std::shared_ptr<Answer> ask(rpc::ConnectionId connection, const char* method, json params,
                              std::vector<UniqueFd> fds = {}) {
    auto answer = std::make_shared<Answer>();
    rpc::Request request{method, std::move(params), std::move(fds)};
    node_->handle(connection, request, {answer, 1, true});
    return answer;
  }
  std::shared_ptr<Answer> asked(rpc::ConnectionId connection, const char* method, json params,
                                std::vector<UniqueFd> fds = {}) {
    auto answer = ask(connection, method, std::move(params), std::move(fds));
    EXPECT_TRUE(until([&] { return answer->has_come(); })) << method;
    return answer;
  }
  // Opens a session in a job of its own; returns the client's end of its connections.
  std::unique_ptr<client::VerbsConnection> open(rpc::ConnectionId connection) {
    const auto opened = asked(
        connection, "session.open",
        {{"version", 1}, {"job", "job-" + std::to_string(connection)}, {"ranks", 1}, {"rank", 0}});
    EXPECT_EQ(opened->error(), "");
    return link();
  }
  std::unique_ptr<client::VerbsConnection> link(const char* device = "worker",
                                                std::uint32_t shards = kShards) {
    return client::VerbsConnection::make(api_, {.device = {.device = device, .host = {}},
                                                .shards = shards,
                                                .credit = kCredit,
                                                .watch = here_.get()})
        .value();
  }
  std::shared_ptr<Answer> attach(rpc::ConnectionId connection,
                                 const client::VerbsConnection& link) {
    return ask(connection, "session.attach", link.introduction());
  }
  // True when messages reach the node's queue pairs.
  static bool served(client::VerbsConnection& link, const Answer& answer) {
    return link.attached(answer.result().value("names", json()), monotonic_now() + kSecond).ok();
  }
  // Waits until all shards have run a task.
  bool shards_turn() {
    bool done = false;
    shards_->on_each([](auto, auto&, auto&) {}, [&done] { done = true; });
    return until([&done] { return done; });
  }
  // Destroys the parts in the order of a daemon's end.
  void expect_nothing_left() {
    node_.reset();
    stop();
    shards_.reset();
    io_.reset();  // with the handlers that have not run
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
  std::size_t whole_ = 0;  // the node's objects of the devices before the first session
};

}  // namespace tally::control
