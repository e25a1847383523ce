#include "dataplane/engine/tiles/tile_reducer.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>

#include "dataplane/partition/granules.h"

namespace tally::engine {
namespace {

constexpr std::size_t kCount = 300;
using Floats = std::array<float, kCount>;

// A tile whose inputs have come. Rank r gives r + 0.5 everywhere.
class TileReducerTest : public ::testing::Test {
 protected:
  static constexpr std::uint32_t kRanks = 3;
  static constexpr float kSum = 4.5F;

  TileReducerTest() {
    record_.tile.count = kCount;
    record_.tile.group = {0, kRanks};
    for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
      in_[rank].fill(static_cast<float>(rank) + 0.5F);
      out_[rank].fill(-1);
      spans_[rank] = {reinterpret_cast<const std::byte*>(in_[rank].data()), sizeof(Floats)};
      record_.views.emplace_back(&spans_[rank], 1);
      record_.tile.sources.push_back({rank, 1, 0, sizeof(Floats), 0});
      record_.tile.landings.push_back({rank, 2, 0, sizeof(Floats), 0});
      landings_.push_back({{}, reinterpret_cast<std::byte*>(out_[rank].data()), 0, 0});
    }
  }

  static bool holds(const std::byte* bytes, float value) {
    Floats expected;
    expected.fill(value);
    return std::memcmp(bytes, expected.data(), sizeof expected) == 0;
  }
  bool stored_at(std::uint32_t rank) const {
    return holds(reinterpret_cast<const std::byte*>(out_[rank].data()), kSum);
  }

  TileRecord record_{std::pmr::get_default_resource()};
  std::array<Floats, kRanks> in_{}, out_{};
  std::array<Span, kRanks> spans_{};
  std::vector<transport::Landing> landings_;
  TileReducer reducer_{summation::kernels(summation::Isa::kScalar), *Crc32c::open(), 8};
};

TEST_F(TileReducerTest, StoresTheSumAtEveryReceiver) {
  ASSERT_TRUE(TileReducer::reserve_results(record_, landings_));
  EXPECT_FALSE(record_.staged);
  reducer_.reduce(record_, landings_, nullptr);
  for (std::uint32_t rank = 0; rank < kRanks; ++rank) EXPECT_TRUE(stored_at(rank)) << rank;
}

TEST_F(TileReducerTest, StagesTheSumForReceiversThatItCannotStoreAt) {
  landings_[1].direct = nullptr;
  ASSERT_TRUE(TileReducer::reserve_results(record_, landings_));
  EXPECT_TRUE(record_.staged);
  reducer_.reduce(record_, landings_, nullptr);
  EXPECT_TRUE(stored_at(0));
  EXPECT_FALSE(stored_at(1));
  EXPECT_TRUE(holds(record_.result, kSum));
}

TEST_F(TileReducerTest, GroupsGiveTheSumOfOnePass) {
  record_.tile.group = {0, 2};
  ASSERT_TRUE(TileReducer::reserve_partial(record_));
  reducer_.add_group(record_);
  EXPECT_TRUE(holds(record_.partial.data(), 2));
  record_.tile.group = {2, 3};
  ASSERT_TRUE(TileReducer::reserve_results(record_, landings_));
  reducer_.reduce(record_, landings_, nullptr);
  EXPECT_TRUE(stored_at(2));
}

TEST_F(TileReducerTest, PartialSumGoesToTheParentsBuffer) {
  Floats own{};
  record_.tile.partial = true;
  record_.tile.landings.clear();
  ASSERT_TRUE(TileReducer::reserve_results(record_, {}));
  reducer_.reduce(record_, {}, reinterpret_cast<std::byte*>(own.data()));
  EXPECT_TRUE(holds(reinterpret_cast<const std::byte*>(own.data()), kSum));
}

TEST_F(TileReducerTest, StatisticsArePlacedBehindTheResults) {
  std::vector<BlockStats> stats(stats_blocks(kCount));
  record_.tile.stats_landings.push_back({1, 3, 0, stats.size() * sizeof(BlockStats), 0});
  landings_.push_back({{1, 3, 0, stats.size() * sizeof(BlockStats)},
                       reinterpret_cast<std::byte*>(stats.data()),
                       0,
                       0});
  ASSERT_TRUE(TileReducer::reserve_results(record_, landings_));
  reducer_.reduce(record_, landings_, nullptr);
  EXPECT_EQ(stats.at(0).sum_of_squares, kCount * kSum * kSum);
}

TEST_F(TileReducerTest, ResultOfTheParentIsCopiedToTheRanks) {
  Floats own;
  own.fill(kSum);
  auto* const bytes = reinterpret_cast<std::byte*>(own.data());
  record_.result = bytes;
  landings_[2].direct = nullptr;
  reducer_.copy(record_, landings_, bytes);
  EXPECT_TRUE(stored_at(0));
  EXPECT_TRUE(stored_at(1));
  EXPECT_FALSE(stored_at(2));
}

TEST_F(TileReducerTest, DamagedInputIsNotIntact) {
  const Crc32c& crc32c = **Crc32c::open();
  const protocol::Checksum checksum = crc32c(std::as_bytes(std::span(in_[1])), 0);
  const Span given{reinterpret_cast<const std::byte*>(&checksum), sizeof checksum};
  record_.tile.checksums.push_back({1, {1, 3, 0, sizeof checksum, 0}});
  record_.tile.lead = sizeof(Floats);
  record_.views.emplace_back(&given, 1);
  EXPECT_TRUE(reducer_.intact(record_, 0));
  in_[1][kCount - 1] += 1;
  EXPECT_FALSE(reducer_.intact(record_, 0));
}

TEST_F(TileReducerTest, TileFailsWithoutMemory) {
  TileRecord record(std::pmr::null_memory_resource());
  record.tile.count = kCount;
  EXPECT_FALSE(TileReducer::reserve_partial(record));
  EXPECT_EQ(record.status, Status::kNoMemory);
}

}  // namespace
}  // namespace tally::engine
