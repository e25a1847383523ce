#include "control/helper_threads.h"

#include <gtest/gtest.h>

#include <asio/executor_work_guard.hpp>
#include <atomic>
#include <chrono>
#include <future>
#include <memory>

namespace tally::control {
namespace {

constexpr auto kTaskPatience = std::chrono::seconds(10);

class HelperThreadsTest : public ::testing::Test {
 protected:
  // Until `count` answers have come.
  void hear(std::size_t count) {
    const auto guard = asio::make_work_guard(io_);
    io_.restart();
    while (answers_.size() < count && io_.run_one_for(kTaskPatience) > 0) continue;
    EXPECT_EQ(answers_.size(), count);
  }
  std::function<void()> answer(int number) {
    return [this, number] {
      EXPECT_EQ(std::this_thread::get_id(), here_);
      answers_.push_back(number);
    };
  }

  const std::thread::id here_ = std::this_thread::get_id();
  asio::io_context io_;
  std::vector<int> answers_;
};

TEST_F(HelperThreadsTest, OneThreadDoesThemInOrderElsewhere) {
  HelperThreads helper(io_, 1);
  std::vector<int> done;
  for (int i = 0; i < 3; ++i) {
    helper.run(
        [&, i] {
          EXPECT_NE(std::this_thread::get_id(), here_);
          done.push_back(i);
        },
        answer(i));
  }
  hear(3);
  EXPECT_EQ(done, (std::vector<int>{0, 1, 2}));
  EXPECT_EQ(answers_, done);
}

TEST_F(HelperThreadsTest, ASlowOneDoesNotHoldUpOthers) {
  HelperThreads helpers(io_, 2);
  std::promise<void> latch;
  helpers.run([waits = latch.get_future().share()] { waits.wait_for(kTaskPatience); }, answer(1));
  helpers.run([] {}, answer(2));
  helpers.run([] {}, answer(3));
  hear(2);
  EXPECT_EQ(answers_, (std::vector<int>{2, 3}));
  latch.set_value();
  hear(3);
}

TEST_F(HelperThreadsTest, AtTheEndWhatHasBegunIsWaitedForAndTheRestIsDropped) {
  std::atomic<int> begun = 0;
  std::atomic<int> ended = 0;
  auto held = std::make_shared<int>();
  {
    HelperThreads helper(io_, 1);
    std::promise<void> started;
    helper.run(
        [&] {
          ++begun;
          started.set_value();
          std::this_thread::sleep_for(std::chrono::milliseconds(20));
          ++ended;
        },
        [] {});
    helper.run([&begun, held] { ++begun; }, [] {});
    ASSERT_EQ(started.get_future().wait_for(kTaskPatience), std::future_status::ready);
  }
  EXPECT_EQ(begun, 1);
  EXPECT_EQ(ended, 1);
  EXPECT_EQ(held.use_count(), 1);
}

}  // namespace
}  // namespace tally::control
