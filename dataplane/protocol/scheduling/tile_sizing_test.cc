#include "dataplane/protocol/scheduling/tile_sizing.h"

#include <gtest/gtest.h>

namespace tally::protocol {
namespace {

TEST(TileSizing, IsFineForOthersWhileSmallOperationsCome) {
  TileSizing tile_sizing(nullptr);
  EXPECT_FALSE(tile_sizing.fine(0));
  tile_sizing.ready(0, TileSizing::kSmall + 1);
  EXPECT_FALSE(tile_sizing.fine(1)) << "not small";
  tile_sizing.ready(0, TileSizing::kSmall);
  EXPECT_TRUE(tile_sizing.fine(1));
  EXPECT_FALSE(tile_sizing.fine(0)) << "a job does not hurry itself: it has priorities for that";
  tile_sizing.started(TileSizing::kFineFor - 1);
  EXPECT_TRUE(tile_sizing.fine(1));
  tile_sizing.started(TileSizing::kFineFor);
  EXPECT_FALSE(tile_sizing.fine(1));
}

TEST(TileSizing, WhoHasSmallOperationsGivesWayToOthersThatHave) {
  TileSizing tile_sizing(nullptr);
  tile_sizing.ready(0, 100);
  EXPECT_FALSE(tile_sizing.fine(0));
  tile_sizing.ready(1, 100);
  EXPECT_TRUE(tile_sizing.fine(0));
  EXPECT_TRUE(tile_sizing.fine(1));
  tile_sizing.started(TileSizing::kFineFor);
  tile_sizing.ready(1, 100);
  EXPECT_FALSE(tile_sizing.fine(1)) << "the other's are long ago";
}

// They share the cores on which its ranks wait.
TEST(TileSizing, IsFineAtAllShardsOfANode) {
  SmallOperations small;
  TileSizing one(&small), other(&small);
  one.ready(3, 100);
  EXPECT_TRUE(other.fine(2));
  EXPECT_FALSE(other.fine(3));
  other.started(TileSizing::kFineFor);
  EXPECT_FALSE(other.fine(2));
  EXPECT_TRUE(one.fine(2)) << "each for as many bytes of its own";
  one.ready(3, 100);
  EXPECT_TRUE(other.fine(2)) << "the same job's next";
}

}  // namespace
}  // namespace tally::protocol
