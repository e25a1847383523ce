#include "dataplane/protocol/operations/deadline_heap.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace tally::protocol {
namespace {

TEST(DeadlineHeap, AgreesWithAMapUnderRandomUse) {
  std::mt19937_64 random(5);
  DeadlineHeap heap(100);
  std::map<PoolIndex, Nanos> model;
  for (int tile_event = 0; tile_event < 20'000; ++tile_event) {
    const PoolIndex operation = static_cast<PoolIndex>(random() % 100);
    if (model.erase(operation) > 0) {
      heap.remove(operation);
    } else {
      const Nanos when = static_cast<Nanos>(random() % 1000);
      heap.insert(operation, when);
      model[operation] = when;
    }
    Nanos earliest = kForever;
    for (const auto& [s, when] : model) earliest = std::min(earliest, when);
    ASSERT_EQ(heap.earliest(), earliest);
    if (!model.empty()) {
      ASSERT_EQ(model.at(heap.earliest_operation()), earliest);
    }
  }
}

TEST(DeadlineHeap, RemovingWhatIsNotThereDoesNothing) {
  DeadlineHeap heap(4);
  heap.remove(2);
  heap.insert(1, 10);
  heap.remove(2);
  EXPECT_EQ(heap.earliest(), 10);
}

}  // namespace
}  // namespace tally::protocol
