#include "dataplane/partition/granules.h"

#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "dataplane/partition/partition.h"

namespace tally::protocol {
namespace {

using wire::Kind;

Shape shape(Kind kind, std::uint64_t count, std::uint16_t ranks,
            ElementType type = ElementType::kF32) {
  return Shape{kind, type, Operation::kSum, 0, ranks, count};
}

std::vector<Shape> shapes() {
  std::vector<Shape> all;
  for (const Kind kind : {Kind::kAllReduce, Kind::kReduce, Kind::kBroadcast, Kind::kReduceScatter,
                          Kind::kAllGather}) {
    for (const std::uint16_t ranks : {1, 2, 3, 7}) {
      for (const std::uint64_t count : {0, 1, 5, 1000, 1024, 4096, 4097, 20'000, 65'536}) {
        all.push_back(shape(kind, count, ranks));
        all.push_back(shape(kind, count, ranks, ElementType::kF64));
        all.push_back(shape(kind, count, ranks, ElementType::kI8));
      }
    }
  }
  return all;
}

// Every byte of a contribution lies in one granule, every granule has a number of its own and a
// place within what is registered.
TEST(Granules, TileEveryContribution) {
  for (const Shape& s : shapes()) {
    for (std::uint16_t rank = 0; rank < s.ranks; ++rank) {
      const std::uint64_t bytes = contribution(s, rank).count * element_bytes(s.type);
      std::uint64_t covered = 0;
      std::uint64_t last_number = UINT64_MAX;  // + 1 is 0
      for_each_granule(s, rank, [&](std::uint64_t number, std::uint64_t offset, std::uint64_t n) {
        ASSERT_EQ(offset, covered);
        ASSERT_GT(n, 0u);
        ASSERT_LE(n, kGranuleBytes);
        ASSERT_GE(number, last_number + 1);
        ASSERT_LE((number + 1) * sizeof(Checksum), checksum_bytes(s, rank));
        covered += n;
        last_number = number;
      });
      EXPECT_EQ(covered, bytes);
      EXPECT_LE(checksum_bytes(s, rank), (bytes / kGranuleBytes + s.ranks + 1) * sizeof(Checksum));
    }
  }
}

// A node that goes through a stretch in tiles whose ends are multiples of the cut comes upon the
// same granules as the rank that gave the checksums.
TEST(Granules, ATileHasWholeGranules) {
  for (const Shape& s : shapes()) {
    const std::uint64_t size = element_bytes(s.type);
    for (std::uint16_t rank = 0; rank < s.ranks; ++rank) {
      std::map<std::uint64_t, std::pair<std::uint64_t, std::uint64_t>> given;
      for_each_granule(s, rank, [&](auto number, auto offset, auto n) {
        given[number] = {offset, n};
      });
      const Extent whole = contribution(s, rank);
      for (std::uint64_t at = whole.first; at < whole.first + whole.count;) {
        const std::uint64_t end =
            std::min((at / kCutElements + 1) * kCutElements, stretch_at(s, at).end);
        const Granules tile = granules_of(s, rank, {at, end - at});
        std::uint64_t offset = (at - whole.first) * size;
        for (std::uint64_t i = 0; i < tile.count; ++i) {
          const auto found = given.find(tile.first + i);
          ASSERT_NE(found, given.end());
          ASSERT_EQ(found->second.first, offset);
          if (i == 0) {
            ASSERT_EQ(found->second.second, tile.lead);
          }
          offset += found->second.second;
        }
        ASSERT_EQ(offset, (end - whole.first) * size);
        at = end;
      }
    }
  }
}

TEST(Granules, StandBehindTheStatistics) {
  EXPECT_EQ(checksums_offset(5000, false), 0u);
  EXPECT_EQ(checksums_offset(5000, true), 2 * sizeof(BlockStats));
}

}  // namespace
}  // namespace tally::protocol
