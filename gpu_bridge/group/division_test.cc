#include "gpu_bridge/group/division.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <random>

#include "gpu_bridge/machine/planner.h"
#include "gpu_bridge/machine/test_hosts.h"

namespace tally::gpu {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// A group of GPUs `first`, first+1 ... with these shares, all in one memory and through one NIC.
host::Group group_with(host::VertexId first, const std::vector<double>& shares) {
  host::Group group;
  for (std::size_t i = 0; i < shares.size(); ++i) {
    const auto gpu = first + static_cast<host::VertexId>(i);
    group.ring.push_back(gpu);
    if (shares[i] > 0) group.shares.push_back({gpu, 0, 1, shares[i]});
  }
  return group;
}

std::vector<std::uint32_t> owners_of(const Column& column) {
  std::vector<std::uint32_t> ranks;
  for (const Owner& owner : column.owners) ranks.push_back(owner.rank);
  return ranks;
}

TEST(Division, EqualGroupsHaveAColumnForEachGpu) {
  const auto division =
      Division::make({group_with(10, {0.5, 0.5}), group_with(20, {0.5, 0.5})}).value();
  ASSERT_EQ(division.columns().size(), 2U);
  EXPECT_THAT(owners_of(division.columns()[0]), ElementsAre(0, 0));
  EXPECT_THAT(owners_of(division.columns()[1]), ElementsAre(1, 1));
  EXPECT_EQ(division.ranks(), 4U);
  EXPECT_EQ(division.rank_of(1, 1), 3U);
  EXPECT_TRUE(division.is_uniform());
  EXPECT_THAT(division.columns_of(1, 0), ElementsAre(0));
  EXPECT_TRUE(division.is_even(0, 10));
  EXPECT_FALSE(division.is_even(0, 11));
}

TEST(Division, AGpuAloneOwnsAllColumns) {
  const auto division =
      Division::make({group_with(0, {0.25, 0.25, 0.25, 0.25}), group_with(9, {1})}).value();
  EXPECT_EQ(division.columns().size(), 4U);
  EXPECT_THAT(division.columns_of(1, 0), ElementsAre(0, 1, 2, 3));
  EXPECT_EQ(division.pieces(1).size(), 1U);
  EXPECT_FALSE(division.is_uniform());
  EXPECT_TRUE(division.is_even(0, 64));
}

TEST(Division, GroupsOfDifferentSharesHaveTheirCommonBoundaries) {
  const auto division =
      Division::make({group_with(0, {0.25, 0.75}), group_with(5, {0.5, 0, 0.5})}).value();
  ASSERT_EQ(division.columns().size(), 3U);
  EXPECT_THAT(owners_of(division.columns()[1]), ElementsAre(1, 0));
  EXPECT_DOUBLE_EQ(division.columns()[1].end, 0.5);
  EXPECT_THAT(division.members(1), ElementsAre(5, 7, 6));  // the one without a share comes last
  EXPECT_THAT(division.columns_of(1, 2), IsEmpty());
  EXPECT_FALSE(division.is_even(1, 100));
  const Elements second = division.elements(1, 3, 101);
  EXPECT_EQ(second.first, 25U);
  EXPECT_EQ(second.count, 76U);
}

TEST(Division, RefusesSharesThatAreWrong) {
  EXPECT_THAT(Division::make({group_with(0, {0.5, 0.4})}).error().message,
              HasSubstr("must sum to"));
  host::Group foreign = group_with(0, {1});
  foreign.ring = {7};
  EXPECT_THAT(Division::make({foreign}).error().message, HasSubstr("not in the ring"));
  EXPECT_FALSE(Division::make({}));
  host::Group negative = group_with(0, {0.5, 0.5});
  negative.shares[0].weight = -0.5;
  negative.shares[1].weight = 1.5;
  EXPECT_EQ(Division::make({negative}).status(), Status::kInvalidArgument);
  host::Group nothing = group_with(0, {0.5, 0.5});
  nothing.shares[1].weight = std::nan("");
  EXPECT_FALSE(Division::make({nothing}));
}

TEST(Division, ChunksHaveEvenPieces) {
  const auto division = Division::make({group_with(0, {0.25, 0.25, 0.25, 0.25})}).value();
  const Chunking chunks = division.chunks(1'000'003, 4, 1 << 20);
  EXPECT_EQ(chunks.size, 4U);
  EXPECT_EQ(chunks.chunk % 64, 0U);
  EXPECT_TRUE(division.is_even(0, chunks[0].count));
  EXPECT_EQ(chunks[3].first + chunks[3].count, 1'000'003U);
  EXPECT_EQ(division.chunks(1, 4, 1 << 20).size, 1U);
  EXPECT_EQ(division.chunks(1, 4, 1 << 20)[0].count, 1U);
  EXPECT_LE(division.chunks(std::uint64_t{1} << 34, 4, 1).size, Division::kMostChunks);
}

TEST(Division, ChunksOfAnySizeHoldAllElements) {
  const auto division = Division::make({group_with(0, {1})}).value();
  for (const std::size_t element_bytes : {1, 4, 8}) {
    const Chunking chunks = division.chunks(1000, element_bytes, SIZE_MAX);
    ASSERT_EQ(chunks.size, 1U);
    EXPECT_EQ(chunks[0].count, 1000U);
  }
}

// Whatever the planner chooses, the columns cover every element once in every group.
TEST(Division, CoversEveryElementOfEachPlan) {
  std::mt19937 random(3);
  for (int trial = 0; trial < 100; ++trial) {
    SCOPED_TRACE(trial);
    const host::Host first = host::random_host(random, 5), second = host::random_host(random, 5);
    std::vector<host::Group> groups;
    for (const host::Host* one : {&first, &second}) {
      for (const auto& group : plan_host(host::Routes(*one)).chosen.groups) groups.push_back(group);
    }
    const auto division = Division::make(groups);
    ASSERT_TRUE(division) << division.error().message;
    EXPECT_DOUBLE_EQ(division->columns().back().end, 1.0);
    for (const std::uint64_t count : {1ULL, 7ULL, 1000ULL, 99'991ULL}) {
      for (std::size_t group = 0; group < groups.size(); ++group) {
        std::uint64_t at = 0;
        for (const Piece& piece : division->pieces(group)) {
          const Elements part = division->elements(piece.first_column, piece.end_column, count);
          ASSERT_EQ(part.first, at);
          at += part.count;
        }
        ASSERT_EQ(at, count);
        for (const host::Share& share : groups[group].shares) {
          ASSERT_NE(std::find(division->members(group).begin(), division->members(group).end(),
                              share.gpu),
                    division->members(group).end());
        }
      }
    }
  }
}

}  // namespace
}  // namespace tally::gpu
