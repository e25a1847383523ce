#include "base/containers/fifo.h"

#include <gtest/gtest.h>

#include <deque>
#include <random>
#include <set>

namespace tally {
namespace {

TEST(Fifo, GivesWhatADequeGives) {
  std::mt19937 dice(7);
  Fifo<int> fifo;
  std::deque<int> model;
  for (int i = 0; i < 100'000; ++i) {
    // Fills up and empties by turns.
    const bool push = dice() % 100 < (i / 1000 % 2 == 0 ? 60u : 40u);
    if (push && dice() % 4 == 0) {
      const std::size_t index = dice() % (model.size() + 1);
      fifo.insert(index, i);
      model.insert(model.begin() + static_cast<std::ptrdiff_t>(index), i);
    } else if (push) {
      fifo.push_back(i);
      model.push_back(i);
    } else if (!model.empty() && dice() % 8 == 0) {
      fifo.pop_back();
      model.pop_back();
    } else if (!model.empty()) {
      fifo.pop_front();
      model.pop_front();
    }
    ASSERT_EQ(fifo.empty(), model.empty());
    ASSERT_EQ(fifo.size(), model.size());
    if (!model.empty()) {
      ASSERT_EQ(fifo.front(), model.front());
      ASSERT_EQ(fifo.back(), model.back());
      const std::size_t index = dice() % model.size();
      ASSERT_EQ(fifo[index], model[index]);
    }
  }
}

TEST(Fifo, TakesTheRoomOfThoseThatHaveGone) {
  Fifo<int> fifo;
  for (int i = 0; i < 8; ++i) fifo.push_back(i);
  std::set<const int*> places;
  for (int i = 8; i < 1000; ++i) {
    fifo.pop_front();
    fifo.push_back(i);
    places.insert(&fifo.front());
  }
  EXPECT_EQ(fifo.size(), 8u);
  EXPECT_LE(places.size(), 32u) << "not one for each of 1000";
}

}  // namespace
}  // namespace tally
