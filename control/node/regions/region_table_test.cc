#include "control/node/regions/region_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tally::control {
namespace {

using ::testing::HasSubstr;

TEST(RegionTable, GivesTheLowestNumberThatIsFree) {
  RegionTable table;
  EXPECT_EQ(table.add(0, 1).value()->id.number, 1U);
  EXPECT_EQ(table.add(3, 1).value()->id.number, 3U);
  EXPECT_EQ(table.add(0, 1).value()->id.number, 2U);
  EXPECT_EQ(table.add(0, 1).value()->id.number, 4U);
  const auto taken = table.add(3, 1);
  EXPECT_EQ(taken.status(), Status::kInvalidArgument);
  EXPECT_THAT(taken.error().message, HasSubstr("region 3 of this session is taken"));
}

TEST(RegionTable, ANumberServesAgainUnderAnotherIdentity) {
  RegionTable table;
  const RegionId first = table.add(1, 1).value()->id;
  table.find(first)->state = Region::State::kRemoving;
  EXPECT_EQ(table.add(1, 1).status(), Status::kAgain);
  table.erase(first);
  const RegionId second = table.add(1, 2).value()->id;
  EXPECT_EQ(second.number, first.number);
  EXPECT_EQ(table.find(first), nullptr);
  table.erase(first);  // what ends late ends nothing of the second
  ASSERT_NE(table.find(second), nullptr);
  EXPECT_EQ(table.find(second)->bytes, 2U);
  EXPECT_EQ(table.by_number(1), table.find(second));
}

TEST(RegionTable, GivesUpWhatIsBeingMapped) {
  RegionTable table;
  const RegionId id = table.add(0, 1).value()->id;
  const auto request = std::make_shared<ClientMemory::Request>();
  table.find(id)->request = request;
  table.give_up_mapping();
  EXPECT_TRUE(request->given_up);
}

}  // namespace
}  // namespace tally::control
