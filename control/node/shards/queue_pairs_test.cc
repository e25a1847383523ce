#include "control/node/shards/queue_pairs.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <asio/executor_work_guard.hpp>
#include <cerrno>
#include <chrono>

#include "client/connections/verbs_connection.h"
#include "control/node/shards/transports.h"
#include "tests/support/transport/fake_verbs.h"

namespace tally::control {
namespace {

namespace verbs = transport::verbs;
using verbs::Call;

constexpr std::uint32_t kShards = 2;
constexpr std::uint32_t kCredit = 8;
constexpr auto kTimeout = std::chrono::seconds(10);

class QueuePairsTest : public ::testing::Test {
 protected:
  QueuePairsTest() {
    std::array<int, 2> pair{};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, pair.data()), 0);
    here_ = UniqueFd(pair[0]);
    there_ = UniqueFd(pair[1]);
    client_ = client::VerbsConnection::make(api_, {.device = {.device = "worker", .host = {}},
                                                   .shards = kShards,
                                                   .credit = kCredit,
                                                   .watch = here_.get()})
                  .value();
    const auto introduction = client_->introduction();
    for (const auto& name : introduction["names"]) {
      attempt_->clients.push_back(verbs::from_hex(name.get<std::string>()).value());
    }
    for (std::uint32_t i = 0; i < kShards; ++i) {
      transports_.push_back(
          verbs::VerbsTransport::open(api_, {.device = {.device = "node", .host = {}},
                                             .credit = kCredit,
                                             .landing_bytes = 1 << 20,
                                             .tiles = {}})
              .value());
      attempt_->transports.push_back(transports_.back().get());
    }
    attempt_->credit = kCredit;
    before_ = api_.objects();
  }
  ~QueuePairsTest() override { api_.go_on(); }

  bool until(const bool& done) {
    io_.restart();
    const auto guard = asio::make_work_guard(io_);
    const auto end = std::chrono::steady_clock::now() + kTimeout;
    while (!done && std::chrono::steady_clock::now() < end) {
      io_.run_one_for(std::chrono::milliseconds(10));
    }
    return done;
  }
  // Returns true when the attempt has ended.
  bool make() {
    bool ended = false;
    queue_pairs_.make(attempt_, [&ended](const Outcome& done) { ended = done.ok(); });
    return until(ended);
  }

  verbs::FakeVerbs api_{{{.name = "node"}, {.name = "worker"}}};
  UniqueFd here_, there_;
  std::unique_ptr<client::VerbsConnection> client_;
  asio::io_context io_;
  std::vector<std::unique_ptr<verbs::VerbsTransport>> transports_;
  std::shared_ptr<QueuePairs::Attempt> attempt_ = std::make_shared<QueuePairs::Attempt>();
  std::size_t before_ = 0;
  QueuePairs queue_pairs_{io_, true};
};

TEST_F(QueuePairsTest, MakesOneForEachShardAndEndsThem) {
  ASSERT_TRUE(make());
  EXPECT_FALSE(attempt_->why_not.has_value());
  EXPECT_EQ(attempt_->made.size(), kShards);
  EXPECT_GT(api_.objects(), before_);
  bool ended = false;
  queue_pairs_.end({attempt_, &attempt_->made}, [&ended] { ended = true; });
  ASSERT_TRUE(until(ended));
  EXPECT_EQ(api_.objects(), before_);
}

TEST_F(QueuePairsTest, KeepsNoneWhenOneFails) {
  api_.fail(Call::kModify, ETIMEDOUT, 4);  // of the second shard; the first has three calls
  ASSERT_TRUE(make());
  EXPECT_TRUE(attempt_->why_not.has_value());
  EXPECT_TRUE(attempt_->made.empty());
  EXPECT_EQ(api_.objects(), before_);
}

TEST_F(QueuePairsTest, MakesNoMoreWhenTheSessionHasGivenUp) {
  attempt_->given_up = true;
  ASSERT_TRUE(make());
  EXPECT_FALSE(attempt_->why_not.has_value());
  EXPECT_TRUE(attempt_->made.empty());
  EXPECT_EQ(api_.objects(), before_);
}

TEST_F(QueuePairsTest, EndsWhileAnotherIsBeingMade) {
  ASSERT_TRUE(make());
  const auto first = std::make_shared<QueuePairs::Connections>(std::move(attempt_->made));
  attempt_->made.clear();
  api_.stall(Call::kPair);
  bool made = false, ended = false;
  queue_pairs_.make(attempt_, [&made](const Outcome&) { made = true; });
  queue_pairs_.end(first, [&ended] { ended = true; });
  EXPECT_TRUE(until(ended));
  EXPECT_FALSE(made);
  api_.go_on();
  EXPECT_TRUE(until(made));
  attempt_->made.clear();
}

}  // namespace
}  // namespace tally::control
