#include "control/threads/fair_thread.h"

#include <gtest/gtest.h>

#include <asio/executor_work_guard.hpp>
#include <chrono>
#include <latch>
#include <vector>

namespace tally::control {
namespace {

class FairThreadTest : public ::testing::Test {
 protected:
  WorkDone answer(int number) {
    return [this, number](const Outcome& done) {
      answers_.push_back(number);
      last_ = done;
    };
  }
  void await_answers(std::size_t count) {
    const auto guard = asio::make_work_guard(io_);
    io_.restart();
    while (answers_.size() < count && io_.run_one_for(std::chrono::seconds(10)) > 0) continue;
    EXPECT_EQ(answers_.size(), count);
  }
  // Appends `name` to order_ in each of `slices`, once the test has queued all work.
  FairThread::Slice append(char name, int slices) {
    return [this, name, slices]() mutable {
      all_asked_.wait();
      order_ += name;
      return --slices > 0;
    };
  }

  asio::io_context io_;
  std::vector<int> answers_;
  Outcome last_ = Unit{};
  std::latch all_asked_{1};
  std::string order_;  // of the slices that the thread has run
};

TEST_F(FairThreadTest, OwnersTakeTurnsAndTheWorkOfEachIsInOrder) {
  FairThread thread(io_);
  thread.run(1, append('a', 4), answer(1));
  thread.run(1, append('b', 1), answer(2));
  thread.run(2, append('c', 2), answer(3));
  thread.run(3, append('d', 1), answer(4));
  thread.run(2, append('e', 1), answer(5));
  all_asked_.count_down();
  await_answers(5);
  EXPECT_EQ(order_, "acdacaeab");
  EXPECT_EQ(answers_, (std::vector<int>{4, 3, 5, 1, 2}));
}

TEST_F(FairThreadTest, WorkThatRunsOutOfMemoryFailsAndEnds) {
  FairThread thread(io_);
  thread.run(
      1, []() -> bool { throw std::bad_alloc(); }, answer(1));
  await_answers(1);
  EXPECT_EQ(last_.status(), Status::kNoMemory);
  all_asked_.count_down();
  thread.run(1, append('a', 2), answer(2));
  await_answers(2);
  EXPECT_TRUE(last_.ok());
  EXPECT_EQ(order_, "aa");
}

TEST_F(FairThreadTest, AtTheEndTheSliceThatHasBegunIsWaitedForAndTheRestIsDropped) {
  const auto held = std::make_shared<int>();
  std::latch begun{1};
  {
    FairThread thread(io_);
    thread.run(
        1,
        [&begun, this] {
          if (order_.empty()) begun.count_down();
          order_ += 'a';
          return true;
        },
        answer(1));
    thread.run(
        2, [held] { return true; }, answer(2));
    begun.wait();
  }
  io_.poll();
  EXPECT_TRUE(answers_.empty());
  EXPECT_EQ(held.use_count(), 1);
}

}  // namespace
}  // namespace tally::control
