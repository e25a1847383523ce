#include "control/coordinator/layout/rack_machines.h"

#include <gtest/gtest.h>

#include "control/plan/json/machine_network.h"
#include "tests/support/control/coordinator_fixture.h"

namespace tally::control {
namespace {

Member in_rack(const char* name, const char* rack, std::uint64_t up = 0, std::uint64_t down = 0) {
  Member made = member(name, 2, 2'000'000'000, Role::kWorker);
  made.rack = {rack, up, down};
  return made;
}

TEST(RackMachines, AreThereWhenAMemberHasARack) {
  EXPECT_FALSE(rack_machines({{1, member("a")}}).has_value());
  const auto file = rack_machines({{1, member("a")}, {2, in_rack("b", "r")}});
  ASSERT_TRUE(file.has_value());
  EXPECT_EQ(file->machines[0].rack, "");
  EXPECT_EQ(file->machines[1].rack, "r");
  EXPECT_TRUE(plan::network_of(*file).ok());
}

TEST(RackMachines, TheSlowestSpeedOfARacksLinkCounts) {
  const auto file = rack_machines({{1, in_rack("a", "r", 3'000'000'000, 4'000'000'000)},
                                   {2, in_rack("b", "r", 5'000'000'000, 1'000'000'000)},
                                   {3, in_rack("c", "r")}});
  ASSERT_EQ(file->racks.size(), 1U);
  EXPECT_EQ(file->racks[0].up, 3e9);
  EXPECT_EQ(file->racks[0].down, 1e9);
}

TEST(RackMachines, AnUnknownLinkHasHalfOfTheNicsOfItsRack) {
  const auto file = rack_machines(
      {{1, in_rack("a", "r1")}, {2, in_rack("b", "r1")}, {3, in_rack("c", "r2", 5, 0)}});
  ASSERT_EQ(file->racks.size(), 2U);
  EXPECT_EQ(file->racks[0].up, 2e9);
  EXPECT_EQ(file->racks[0].down, 2e9);
  EXPECT_EQ(file->racks[1].down, 5) << "the other direction is known";
}

TEST(RackMachines, MeasuredRacksOverrideDeclaredOnes) {
  Member moved = in_rack("a", "old", 9, 9);
  moved.measured.rack = {"new", 7, 8};
  const auto file = rack_machines({{1, moved}});
  ASSERT_EQ(file->racks.size(), 1U);
  EXPECT_EQ(file->racks[0].name, "new");
  EXPECT_EQ(file->racks[0].down, 8);
}

TEST(RackMachines, TheOrderOfJoiningDoesNotCount) {
  const Member a = in_rack("a", "r1"), b = in_rack("b", "r2"), c = in_rack("c", "r1");
  EXPECT_EQ(plan::write_machines(*rack_machines({{1, a}, {2, b}, {3, c}})),
            plan::write_machines(*rack_machines({{4, c}, {5, a}, {9, b}})));
}

TEST(RackMachines, UnknownNicsCountAsAGigabyte) {
  Member a = in_rack("a", "r");
  a.speed = 0;
  EXPECT_EQ(rack_machines({{1, a}})->machines[0].out, 1e9);
}

}  // namespace
}  // namespace tally::control
