#include "control/threads/thread_pool.h"

#include <gtest/gtest.h>

#include <asio/executor_work_guard.hpp>
#include <atomic>
#include <chrono>
#include <future>
#include <memory>

namespace tally::control {
namespace {

constexpr auto kTaskTimeout = std::chrono::seconds(10);

class ThreadPoolTest : public ::testing::Test {
 protected:
  // Runs the loop until `count` answers have come.
  void await_answers(std::size_t count) {
    const auto guard = asio::make_work_guard(io_);
    io_.restart();
    while (answers_.size() < count && io_.run_one_for(kTaskTimeout) > 0) continue;
    EXPECT_EQ(answers_.size(), count);
  }
  WorkDone answer(int number) {
    return [this, number](const Outcome& done) {
      EXPECT_TRUE(done.ok());
      EXPECT_EQ(std::this_thread::get_id(), here_);
      answers_.push_back(number);
    };
  }

  const std::thread::id here_ = std::this_thread::get_id();
  asio::io_context io_;
  std::vector<int> answers_;
};

TEST_F(ThreadPoolTest, OneThreadDoesThemInOrderElsewhere) {
  ThreadPool helper(io_, 1);
  std::vector<int> done;
  for (int i = 0; i < 3; ++i) {
    helper.run(
        [&, i] {
          EXPECT_NE(std::this_thread::get_id(), here_);
          done.push_back(i);
        },
        answer(i));
  }
  await_answers(3);
  EXPECT_EQ(done, (std::vector<int>{0, 1, 2}));
  EXPECT_EQ(answers_, done);
}

TEST_F(ThreadPoolTest, ASlowOneDoesNotHoldUpOthers) {
  ThreadPool helpers(io_, 2);
  std::promise<void> latch;
  helpers.run([waits = latch.get_future().share()] { waits.wait_for(kTaskTimeout); }, answer(1));
  helpers.run([] {}, answer(2));
  helpers.run([] {}, answer(3));
  await_answers(2);
  EXPECT_EQ(answers_, (std::vector<int>{2, 3}));
  latch.set_value();
  await_answers(3);
}

TEST_F(ThreadPoolTest, AtTheEndWhatHasBegunIsWaitedForAndTheRestIsDropped) {
  std::atomic<int> begun = 0;
  std::atomic<int> ended = 0;
  auto held = std::make_shared<int>();
  const std::weak_ptr<int> dropped = held;
  {
    ThreadPool helper(io_, 1);
    std::promise<void> started;
    helper.run(
        [&] {
          ++begun;
          started.set_value();
          const auto end = std::chrono::steady_clock::now() + kTaskTimeout;
          while (!dropped.expired() && std::chrono::steady_clock::now() < end) {
            std::this_thread::yield();
          }
          ++ended;
        },
        [](const Outcome&) {});
    helper.run([&begun, held = std::move(held)] { ++begun; }, [](const Outcome&) {});
    ASSERT_EQ(started.get_future().wait_for(kTaskTimeout), std::future_status::ready);
  }
  EXPECT_EQ(begun, 1);
  EXPECT_EQ(ended, 1);
  EXPECT_TRUE(dropped.expired());
}

TEST_F(ThreadPoolTest, ATaskThatRunsOutOfMemoryFailsAndTheThreadGoesOn) {
  ThreadPool helper(io_, 1);
  Outcome done = Unit{};
  helper.run([] { throw std::bad_alloc(); },
             [&](const Outcome& result) {
               done = result;
               answers_.push_back(1);
             });
  helper.run([] {}, answer(2));
  await_answers(2);
  EXPECT_EQ(done.status(), Status::kNoMemory);
}

}  // namespace
}  // namespace tally::control
