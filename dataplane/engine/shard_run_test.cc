// Shard::run() on a thread of its own. The loopback transport belongs to that thread, so the test
// reaches it by tasks, as the control thread reaches a shard.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <thread>
#include <utility>

#include "dataplane/engine/parent_connection.h"
#include "tests/support/failing_new.h"
#include "tests/support/single_shard.h"

namespace tally::engine {
namespace {

using testing::SingleShard;
using wire::Kind;
using wire::Notice;

// A parent that has a message, or none.
class QuietParentConnection final : public ParentConnection {
 public:
  void send(std::uint32_t /*shard*/, const RingEntry& /*message*/) override {}
  std::size_t receive(std::uint32_t /*shard*/, std::span<RingEntry> /*out*/) override { return 0; }
  std::span<std::byte> buffers(std::uint32_t /*shard*/) const override { return {}; }
  std::uint32_t region(std::uint32_t /*shard*/) const override { return 1; }
  bool lost() const override { return is_lost; }
  void disconnect() override { is_lost = true; }
  bool arm() override {
    ++arms;
    return !something;
  }
  void disarm() override { ++disarms; }
  int fd() const override { return -1; }

  std::atomic<bool> is_lost{false};
  std::atomic<bool> something{false};
  std::atomic<int> arms{0};
  std::atomic<int> disarms{0};
};

class ShardRunTest : public ::testing::Test {
 protected:
  ShardRunTest() : node_({}) {}
  ~ShardRunTest() override { stop(); }

  void start(bool busy) {
    thread_ = std::thread([this, busy] { node_.shard().run(stop_, busy); });
  }
  void stop() {
    if (!thread_.joinable()) return;
    stop_ = true;
    node_.shard().post([] {});  // out of its sleep
    thread_.join();
  }

  // Runs `task` on the shard's thread and returns what it returns.
  template <typename Task>
  auto on_shard(Task task) {
    auto promise = std::make_shared<std::promise<decltype(task())>>();
    auto future = promise->get_future();
    node_.shard().post([promise, task] { promise->set_value(task()); });
    return future.get();
  }

  template <typename Condition>
  static bool eventually(Condition condition) {
    for (int i = 0; i < 10'000; ++i) {
      if (condition()) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return false;
  }

  std::uint64_t sleeps() { return node_.shard().counters().sleeps.read(); }

  void run_one(std::uint32_t round) {
    on_shard([this, round] {
      Notice n = SingleShard::notice(Kind::kAllReduce, 100);
      n.round = round;
      node_.send_all(n);
      return true;
    });
    EXPECT_TRUE(eventually([&] { return on_shard([this] { return node_.take(0).size(); }) == 1; }));
    on_shard([this] { return node_.take(1).size() + node_.take(2).size(); });
  }

  SingleShard node_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

TEST_F(ShardRunTest, SleepsWhenThereIsNothingToDoAndWakesForATask) {
  start(false);
  for (std::uint32_t round = 0; round < 5; ++round) {
    const std::uint64_t before = sleeps();
    ASSERT_TRUE(eventually([&] { return sleeps() > before; }));
    run_one(round);
  }
  ASSERT_TRUE(eventually([&] { return node_.shard().counters().completions.read() == 15; }));
  // Asleep it takes no turns: one follows each sleep.
  const std::uint64_t asleep = sleeps();
  ASSERT_TRUE(eventually([&] { return sleeps() > asleep; }));
  const std::uint64_t turns = node_.shard().counters().turns.read();
  ASSERT_TRUE(eventually([&] { return sleeps() > asleep + 1; }));
  EXPECT_LT(node_.shard().counters().turns.read() - turns, 100u);
}

TEST_F(ShardRunTest, ASleepEndsInTimeForTheNextDeadline) {
  start(false);
  const Nanos before = monotonic_now();
  on_shard([this] {
    Notice n = SingleShard::notice(Kind::kAllReduce, 100);
    n.deadline_ms = 300;  // long enough to fall asleep on a busy machine
    node_.send(0, n);
    return true;
  });
  EXPECT_TRUE(eventually([&] { return node_.shard().counters().failures.read() == 1; }));
  EXPECT_GE(monotonic_now() - before, 300 * kMillisecond);
  EXPECT_GT(sleeps(), 0u);
}

TEST_F(ShardRunTest, DoesNotSleepWhenAParentHasAMessage) {
  QuietParentConnection parent_connection;
  parent_connection.something = true;
  std::atomic<int> lost{0};
  node_.shard().on_parent_lost(
      [&](protocol::ParentId parent_id) { lost += parent_id == 0 ? 1 : 100; });
  node_.shard().add_parent_connection(0, parent_connection, 0, {});
  start(false);
  ASSERT_TRUE(eventually([&] { return parent_connection.disarms >= 3; }));
  EXPECT_GE(parent_connection.arms, 3);
  EXPECT_EQ(sleeps(), 0u);
  parent_connection.something = false;
  EXPECT_TRUE(eventually([&] { return sleeps() > 0; }));
  parent_connection.is_lost = true;
  EXPECT_TRUE(eventually([&] { return lost == 1; }));
  EXPECT_EQ(node_.shard().counters().parents_lost.read(), 1u);
  stop();
  EXPECT_EQ(lost, 1);
  // The link's number may be another's then.
  node_.shard().remove_parent_connection(0);
  QuietParentConnection other;
  node_.shard().add_parent_connection(0, other, 0, {});
  node_.turns(2);
  EXPECT_EQ(node_.shard().tiles_in_flight(), 0u);
}

// Outside a turn nothing catches std::bad_alloc: a sleep that needed memory would end the process.
TEST_F(ShardRunTest, SleepsWithoutMemory) {
  QuietParentConnection first, second;
  node_.shard().add_parent_connection(0, first, 0, {});
  node_.shard().add_parent_connection(1, second, 0, {});
  node_.shard().post([] { testing::fail_allocation(1); });
  start(false);
  EXPECT_TRUE(eventually([&] { return sleeps() > 2; }));
  EXPECT_EQ(on_shard([] { return std::exchange(testing::allocations_left, 0); }), 1U);
  EXPECT_EQ(node_.shard().counters().out_of_memory.read(), 0U);
  stop();
}

TEST_F(ShardRunTest, BusyNeverSleeps) {
  start(true);
  run_one(0);
  // A shard that sleeps takes far fewer turns without work before its first sleep.
  const std::uint64_t turns = node_.shard().counters().turns.read();
  EXPECT_TRUE(eventually([&] { return node_.shard().counters().turns.read() > turns + 50'000; }));
  stop();
  EXPECT_EQ(sleeps(), 0u);
}

TEST_F(ShardRunTest, TasksRunInOrderEvenWhenTheMailboxOverflows) {
  start(false);
  std::vector<int> seen;
  for (int i = 0; i < 2000; ++i) node_.shard().post([&seen, i] { seen.push_back(i); });
  on_shard([] { return true; });
  ASSERT_EQ(seen.size(), 2000u);
  for (int i = 0; i < 2000; ++i) EXPECT_EQ(seen[static_cast<std::size_t>(i)], i);
}

TEST_F(ShardRunTest, TasksPostedBeforeTheStopAreRun) {
  bool ran = false;
  start(false);
  node_.shard().post([&ran] { ran = true; });
  stop();
  EXPECT_TRUE(ran);
}

}  // namespace
}  // namespace tally::engine
