#include "dataplane/engine/tiles/tile_pool.h"

#include <gtest/gtest.h>

namespace tally::engine {
namespace {

TEST(TilePool, GivesSlotsUntilAllAreInFlight) {
  TilePool pool(2, std::pmr::get_default_resource());
  TileSlot* first = pool.next_up();
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(pool.next_up(), first) << "a slot is free until it is taken";
  EXPECT_EQ(pool.in_flight(), 0U);
  pool.take(*first);
  TileSlot* second = pool.next_up();
  ASSERT_NE(second, nullptr);
  EXPECT_NE(second, first);
  pool.take(*second);
  EXPECT_EQ(pool.next_up(), nullptr);
  EXPECT_EQ(pool.in_flight(), 2U);
  pool.put_back(*first);
  EXPECT_EQ(pool.next_up(), first);
  EXPECT_EQ(pool.in_flight(), 1U);
}

TEST(TilePool, HandleFindsTheSlot) {
  TilePool pool(3, std::pmr::get_default_resource());
  for (int i = 0; i < 3; ++i) {
    TileSlot* slot = pool.next_up();
    EXPECT_EQ(&pool[slot->tile.handle], slot);
    pool.take(*slot);
  }
}

TEST(TilePool, TilesDownHaveSlotsOfTheirOwn) {
  TilePool pool(1, std::pmr::get_default_resource());
  EXPECT_EQ(pool.next_down(), nullptr);
  pool.reserve_down(2);
  pool.reserve_down(1);
  EXPECT_EQ(pool.slots().size(), 3U);
  pool.take(*pool.next_up());
  TileSlot* down = pool.next_down();
  ASSERT_NE(down, nullptr);
  EXPECT_TRUE(down->down);
  pool.take(*down);
  pool.put_back(*down);
  EXPECT_EQ(pool.next_up(), nullptr);
  EXPECT_EQ(pool.next_down(), down);
}

TEST(TilePool, TakenSlotHasNoFailureAndRoomForAllInputs) {
  TilePool pool(1, std::pmr::get_default_resource());
  TileSlot* slot = pool.next_up();
  pool.take(*slot);
  slot->fail(Status::kPeerLost, 7);
  slot->fail(Status::kDamaged, 8);
  EXPECT_EQ(slot->status, Status::kPeerLost);
  EXPECT_EQ(slot->culprit, 7U) << "the first failure names the culprit";
  pool.put_back(*slot);
  pool.expect_children(5);
  slot = pool.next_up();
  pool.take(*slot);
  EXPECT_EQ(slot->status, Status::kOk);
  EXPECT_EQ(slot->culprit, protocol::kNoSession);
  EXPECT_GE(slot->tile.sources.capacity(), 5U);
  EXPECT_GE(slot->views.capacity(), 10U);
}

}  // namespace
}  // namespace tally::engine
