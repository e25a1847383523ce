#include "dataplane/protocol/grain.h"

#include <gtest/gtest.h>

namespace tally::protocol {
namespace {

TEST(Grain, IsFineForOthersWhileSmallOperationsCome) {
  Grain grain(nullptr);
  EXPECT_FALSE(grain.fine(0));
  grain.ready(0, Grain::kSmall + 1);
  EXPECT_FALSE(grain.fine(1)) << "not small";
  grain.ready(0, Grain::kSmall);
  EXPECT_TRUE(grain.fine(1));
  EXPECT_FALSE(grain.fine(0)) << "a job does not hurry itself: it has priorities for that";
  grain.started(Grain::kFineFor - 1);
  EXPECT_TRUE(grain.fine(1));
  grain.started(Grain::kFineFor);
  EXPECT_FALSE(grain.fine(1));
}

TEST(Grain, WhoHasSmallOperationsGivesWayToOthersThatHave) {
  Grain grain(nullptr);
  grain.ready(0, 100);
  EXPECT_FALSE(grain.fine(0));
  grain.ready(1, 100);
  EXPECT_TRUE(grain.fine(0));
  EXPECT_TRUE(grain.fine(1));
  grain.started(Grain::kFineFor);
  grain.ready(1, 100);
  EXPECT_FALSE(grain.fine(1)) << "the other's are long ago";
}

// They share the cores on which its ranks wait.
TEST(Grain, IsFineAtAllShardsOfANode) {
  SmallOperations small;
  Grain one(&small), other(&small);
  one.ready(3, 100);
  EXPECT_TRUE(other.fine(2));
  EXPECT_FALSE(other.fine(3));
  other.started(Grain::kFineFor);
  EXPECT_FALSE(other.fine(2));
  EXPECT_TRUE(one.fine(2)) << "each for as many bytes of its own";
  one.ready(3, 100);
  EXPECT_TRUE(other.fine(2)) << "the same job's next";
}

}  // namespace
}  // namespace tally::protocol
