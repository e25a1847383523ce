#include "dataplane/partition/groups.h"

#include <gtest/gtest.h>

#include <vector>

namespace tally::protocol {
namespace {

std::vector<Group> groups_of(std::uint32_t ranks, std::uint32_t partials) {
  std::vector<Group> groups = {group_from(0, ranks, partials)};
  while (groups.back().end < ranks + partials) {
    groups.push_back(group_from(groups.back().end, ranks, partials));
  }
  return groups;
}

TEST(Groups, FewSourcesAreOneGroup) {
  EXPECT_EQ(groups_of(1, 0), (std::vector<Group>{{0, 1}}));
  EXPECT_EQ(groups_of(16, 0), (std::vector<Group>{{0, 16}}));
  EXPECT_EQ(groups_of(16, 3), (std::vector<Group>{{0, 19}}));
  EXPECT_EQ(groups_of(0, 3), (std::vector<Group>{{0, 3}}));
}

TEST(Groups, ManyAreDividedEvenly) {
  EXPECT_EQ(groups_of(17, 0), (std::vector<Group>{{0, 9}, {9, 17}}));
  EXPECT_EQ(groups_of(31, 0), (std::vector<Group>{{0, 16}, {16, 31}}));
  EXPECT_EQ(groups_of(32, 0), (std::vector<Group>{{0, 11}, {11, 22}, {22, 32}}));
}

TEST(Groups, ChildNodesBesideManyRanksAreTheLast) {
  EXPECT_EQ(groups_of(17, 2), (std::vector<Group>{{0, 9}, {9, 17}, {17, 19}}));
}

TEST(Groups, EveryGroupIsOnePassAndHoldsNearlyAsMuchAsAnyOther) {
  for (std::uint32_t ranks = 17; ranks <= 1024; ++ranks) {
    const auto groups = groups_of(ranks, 0);
    std::uint32_t least = ranks, most = 0;
    for (const Group& group : groups) {
      const std::uint32_t size = group.end - group.begin;
      least = std::min(least, size);
      most = std::max(most, size);
      EXPECT_LE(size + (group.begin > 0), kGroupSources) << ranks;
    }
    EXPECT_LE(most - least, 1u) << ranks;
  }
}

TEST(Groups, ReceiversTakeEvenTurns) {
  EXPECT_EQ(receivers_at_once(0), 0u);
  EXPECT_EQ(receivers_at_once(16), 16u);
  EXPECT_EQ(receivers_at_once(17), 9u);
  EXPECT_EQ(receivers_at_once(1024), 16u);
}

}  // namespace
}  // namespace tally::protocol
