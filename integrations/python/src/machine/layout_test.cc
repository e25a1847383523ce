#include "integrations/python/src/machine/layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace tally::python {
namespace {

using ::testing::ElementsAre;

RankFacts facts(const std::string& host, std::int32_t bus, const std::string& problem = {}) {
  RankFacts one;
  one.host = FixedText(host);
  one.device = {0, bus, 0};
  one.problem = FixedText(problem);
  return one;
}

std::string reason(const std::vector<RankFacts>& by_rank) {
  const auto layout = lay_out(by_rank, 0);
  return layout ? "none" : layout.error().message;
}

TEST(MachineLayout, RanksOfOneHostAreAGroup) {
  const std::vector<RankFacts> by_rank = {facts("a", 1), facts("b", 1), facts("a", 2),
                                          facts("b", 2)};
  for (std::uint32_t rank = 0; rank < by_rank.size(); ++rank) {
    const auto layout = lay_out(by_rank, rank);
    ASSERT_TRUE(layout) << layout.error().message;
    ASSERT_EQ(layout->division.groups(), 2U);
    EXPECT_THAT(layout->division.members(0), ElementsAre(0, 2));
    EXPECT_THAT(layout->division.members(1), ElementsAre(1, 3));
    EXPECT_EQ(layout->group, rank % 2);
    EXPECT_EQ(layout->rank, rank / 2);
    EXPECT_EQ(layout->division.columns().size(), 2U);
  }
}

TEST(MachineLayout, HostsMayHaveDifferentNumbersOfRanks) {
  const auto layout =
      lay_out(std::vector<RankFacts>{facts("a", 1), facts("a", 2), facts("b", 1)}, 2);
  ASSERT_TRUE(layout) << layout.error().message;
  EXPECT_FALSE(layout->division.is_uniform());
  EXPECT_THAT(layout->division.columns_of(1, 0), ElementsAre(0, 1));
}

TEST(MachineLayout, ReportsWhyThereAreNoGroups) {
  EXPECT_EQ(reason({facts("a", 1), facts("b", 1)}), "no host has two ranks of the group");
  EXPECT_EQ(reason({facts("a", 1), facts("b", 3), facts("a", 1)}),
            "ranks 0 and 2 use one GPU: give each rank its own");
  EXPECT_EQ(reason({facts("a", 1), facts("a", 2, "no NCCL")}), "rank 1: no NCCL");
}

TEST(MachineLayout, LongTextsAreCut) {
  EXPECT_EQ(FixedText(std::string(1000, 'x')).text(), std::string(255, 'x'));
  EXPECT_TRUE(FixedText("").empty());
}

}  // namespace
}  // namespace tally::python
