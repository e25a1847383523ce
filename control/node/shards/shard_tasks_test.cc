#include "control/node/shards/shard_tasks.h"

#include <gtest/gtest.h>

#include <asio/executor_work_guard.hpp>
#include <asio/post.hpp>
#include <atomic>
#include <new>
#include <thread>

namespace tally::control {
namespace {

class ShardTasksTest : public ::testing::Test {
 protected:
  static constexpr std::uint32_t kShards = 2;

  ShardTasksTest() {
    engine::ShardConfig config;
    config.kernels = summation::kernels(summation::Isa::kScalar);
    config.protocol.plan = protocol::even_partition(kShards, 1 << 16);
    shards_.emplace(io_, kShards, config);
    tasks_.emplace(io_, *shards_);
  }
  ~ShardTasksTest() override { end(); }

  void start() {
    guard_.emplace(io_.get_executor());
    threads_.emplace_back([this] { io_.run(); });
    for (std::uint32_t i = 0; i < kShards; ++i) {
      threads_.emplace_back([this, i] { shards_->run(i, false); });
      shard_threads_.push_back(threads_.back().get_id());
    }
  }
  // Only one thread at a time talks to the shards: the control thread, and this one after its end.
  void end() {
    guard_.reset();
    io_.stop();
    if (!threads_.empty()) threads_.front().join();
    shards_->stop();
    for (std::size_t i = 1; i < threads_.size(); ++i) threads_[i].join();
    threads_.clear();
  }

  asio::io_context io_;
  std::optional<asio::executor_work_guard<asio::io_context::executor_type>> guard_;
  std::optional<ShardSet> shards_;
  std::optional<ShardTasks> tasks_;
  std::vector<std::thread> threads_;
  std::vector<std::thread::id> shard_threads_;
};

TEST_F(ShardTasksTest, ATaskRunsOnTheThreadOfItsShard) {
  start();
  for (std::uint32_t shard = 0; shard < kShards; ++shard) {
    std::thread::id ran;
    EXPECT_TRUE(tasks_->run(shard, [&](Transports&) { ran = std::this_thread::get_id(); }));
    EXPECT_EQ(ran, shard_threads_[shard]);
  }
}

TEST_F(ShardTasksTest, LackOfMemoryIsReported) {
  start();
  const Outcome outcome = tasks_->run(0, [](Transports&) { throw std::bad_alloc(); });
  EXPECT_EQ(outcome.status(), Status::kNoMemory);
}

TEST_F(ShardTasksTest, WithoutShardsATaskRunsOnceOnTheThreadThatAsks) {
  std::atomic<int> runs = 0;
  std::thread::id ran;
  std::thread waits([&] {
    EXPECT_TRUE(tasks_->run(0, [&](Transports&) {
      ++runs;
      ran = std::this_thread::get_id();
    }));
  });
  const std::thread::id waiting = waits.get_id();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(runs, 0) << "nobody runs the shard";
  tasks_->shards_ended();
  waits.join();
  EXPECT_EQ(ran, waiting);
  EXPECT_TRUE(tasks_->run(1, [&](Transports&) { ++runs; }));
  EXPECT_EQ(runs, 2);
  start();  // what was passed on before finds that its task has run
  std::atomic<bool> later = false;
  asio::post(io_, [&] { shards_->on_each([](auto, auto&, auto&) {}, [&] { later = true; }); });
  while (!later) std::this_thread::yield();
  EXPECT_EQ(runs, 2);
}

}  // namespace
}  // namespace tally::control
