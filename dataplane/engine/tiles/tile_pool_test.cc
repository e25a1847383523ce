#include "dataplane/engine/tiles/tile_pool.h"

#include <gtest/gtest.h>

namespace tally::engine {
namespace {

TEST(TilePool, GivesRecordsUntilAllAreInFlight) {
  TilePool pool(2, std::pmr::get_default_resource());
  TileRecord* first = pool.next_up();
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(pool.next_up(), first) << "a record is free until it is taken";
  EXPECT_EQ(pool.in_flight(), 0U);
  pool.take(*first);
  TileRecord* second = pool.next_up();
  ASSERT_NE(second, nullptr);
  EXPECT_NE(second, first);
  pool.take(*second);
  EXPECT_EQ(pool.next_up(), nullptr);
  EXPECT_EQ(pool.in_flight(), 2U);
  pool.put_back(*first);
  EXPECT_EQ(pool.next_up(), first);
  EXPECT_EQ(pool.in_flight(), 1U);
}

TEST(TilePool, HandleFindsTheRecord) {
  TilePool pool(3, std::pmr::get_default_resource());
  for (int i = 0; i < 3; ++i) {
    TileRecord* record = pool.next_up();
    EXPECT_EQ(&pool[record->tile.handle], record);
    pool.take(*record);
  }
}

TEST(TilePool, TilesDownHaveRecordsOfTheirOwn) {
  TilePool pool(1, std::pmr::get_default_resource());
  EXPECT_EQ(pool.next_down(), nullptr);
  pool.reserve_down(2);
  pool.reserve_down(1);
  EXPECT_EQ(pool.records().size(), 3U);
  pool.take(*pool.next_up());
  TileRecord* down = pool.next_down();
  ASSERT_NE(down, nullptr);
  EXPECT_TRUE(down->down);
  pool.take(*down);
  pool.put_back(*down);
  EXPECT_EQ(pool.next_up(), nullptr);
  EXPECT_EQ(pool.next_down(), down);
}

TEST(TilePool, TakenRecordHasNoFailureAndRoomForAllInputs) {
  TilePool pool(1, std::pmr::get_default_resource());
  TileRecord* record = pool.next_up();
  pool.take(*record);
  record->fail(Status::kPeerLost, 7);
  record->fail(Status::kDamaged, 8);
  EXPECT_EQ(record->status, Status::kPeerLost);
  EXPECT_EQ(record->culprit, 7U) << "the first failure names the culprit";
  pool.put_back(*record);
  pool.expect_children(5);
  record = pool.next_up();
  pool.take(*record);
  EXPECT_EQ(record->status, Status::kOk);
  EXPECT_EQ(record->culprit, protocol::kNoSession);
  EXPECT_GE(record->tile.sources.capacity(), 5U);
  EXPECT_GE(record->views.capacity(), 10U);
}

}  // namespace
}  // namespace tally::engine
