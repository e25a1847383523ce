#include "control/plan/model/pieces.h"

#include <gtest/gtest.h>

#include "tests/support/control/test_plans.h"

namespace tally::plan {
namespace {

const Tree one_star{kWeightUnit, {3, 3, 3, kIsRoot}, {}};
const Tree one_chain{kWeightUnit, {kIsRoot, 0, 1, kIsAbsent}, {}};

SizeClass size_class(std::optional<std::uint64_t> max_bytes, const Tree& tree, std::uint64_t chunk,
                     std::uint32_t window) {
  return {max_bytes, chunk, window, {tree}};
}

Domain domain(std::vector<SizeClass> classes) {
  return {"all", {0, 1, 2}, std::move(classes), {}};
}

TEST(Pieces, StarsNeedNone) {
  EXPECT_EQ(wanted_pieces(domain({size_class({}, one_star, 1 << 16, 32)})), Pieces{});
  EXPECT_EQ(most_inputs(domain({size_class({}, one_star, 1 << 16, 32)})), 0U);
}

TEST(Pieces, AreThoseOfTheDividedClass) {
  const auto small = size_class(1000, one_chain, 1 << 20, 60);
  EXPECT_EQ(wanted_pieces(domain({small, size_class({}, one_chain, 1 << 16, 32)})),
            (Pieces{1 << 16, 32}));
  EXPECT_EQ(wanted_pieces(domain({small, size_class({}, one_chain, 1 << 16, 0)})),
            (Pieces{1 << 16, 0}))
      << "left out is for nodes to choose";
}

TEST(Pieces, AreTheLargestOfOtherClassesWhenTheDividedClassHasStars) {
  EXPECT_EQ(wanted_pieces(domain(
                {size_class(1000, one_chain, 1 << 15, 20), size_class(2000, one_chain, 1 << 16, 10),
                 size_class(3000, one_star, 1 << 19, 50), size_class({}, one_star, 1 << 20, 60)})),
            (Pieces{1 << 16, 20}));
}

TEST(Pieces, PacedTreesWantManySmallPieces) {
  EXPECT_EQ(paced_pieces({}), (Pieces{kLeastPiece, kMostPieces}));
  EXPECT_EQ(paced_pieces({128 << 10, 0}), (Pieces{kLeastPiece, kMostPieces}));
  EXPECT_EQ(paced_pieces({256 << 10, 4}), (Pieces{256 << 10, 4})) << "as the plan says";
}

TEST(Pieces, NodesChooseByTheNumberOfChildren) {
  EXPECT_EQ(served_pieces({}, 2), (Pieces{kMostPiece, 8}));
  EXPECT_EQ(served_pieces({}, 9), (Pieces{224 << 10, 8}));
  EXPECT_EQ(served_pieces({}, 200), (Pieces{kLeastPiece, 8}));
}

TEST(Pieces, ServesTheWantedPiecesWithinTheBounds) {
  EXPECT_EQ(served_pieces({64 << 10, 20}, 2), (Pieces{64 << 10, 20}));
  EXPECT_EQ(served_pieces({100'000, 1}, 2), (Pieces{96 << 10, 1})) << "whole parts";
  EXPECT_EQ(served_pieces({1, 64}, 2).bytes, kLeastPiece);
  EXPECT_EQ(served_pieces({1 << 20, 64}, 2).bytes, kMostPiece);
  EXPECT_EQ(served_pieces({1 << 20, 64}, 16).bytes, 128U << 10) << "of 16 children 2 MiB";
  EXPECT_EQ(served_pieces({1 << 20, 1000}, 2).count, kMostPieces);
}

// As many bytes in flight as nodes would choose.
TEST(Pieces, SmallerPiecesAreMore) {
  EXPECT_EQ(served_pieces({64 << 10, 0}, 2), (Pieces{64 << 10, 32}));
  EXPECT_EQ(served_pieces({32 << 10, 0}, 2), (Pieces{32 << 10, 64}));
  EXPECT_EQ(served_pieces({32 << 10, 0}, 16), (Pieces{32 << 10, 32}));
  EXPECT_EQ(served_pieces({256 << 10, 0}, 2), served_pieces({}, 2));
}

// Worker 0 and what is below it.
TEST(Pieces, AWorkersOwnGradientIsAnInput) {
  EXPECT_EQ(most_inputs(domain({size_class({}, one_chain, 1, 0)})), 2U);
  const Tree wide{kWeightUnit, {3, 3, kIsAbsent, kIsRoot, 3, 1}, {}};
  EXPECT_EQ(most_inputs({"all", {0, 1, 4, 5}, {size_class({}, wide, 1, 0)}, {}}), 3U);
}

}  // namespace
}  // namespace tally::plan
