#include "client/operations/chunks.h"

#include <gtest/gtest.h>

#include <set>

namespace tally::client {
namespace {

protocol::Shape shape_of(wire::Kind kind, std::uint64_t count, std::uint16_t ranks = 4) {
  return {kind, ElementType::kF32, Operation::kSum, 1, ranks, count};
}

constexpr std::uint64_t kMiB = (1 << 20) / sizeof(float);

TEST(Chunks, SmallOperationsHaveOne) {
  for (const wire::Kind kind :
       {wire::Kind::kAllReduce, wire::Kind::kReduceScatter, wire::Kind::kAllGather}) {
    for (const std::uint64_t count : {std::uint64_t{0}, std::uint64_t{1}, kMiB / 2}) {
      const Chunks chunks(shape_of(kind, count), 7);
      ASSERT_EQ(chunks.size(), 1U);
      EXPECT_EQ(chunks[0].shape.kind, kind);
      EXPECT_EQ(chunks[0].shape.count, count);
      EXPECT_EQ(chunks[0].tag, 7U);
    }
  }
}

TEST(Chunks, GrowWithTheOperation) {
  EXPECT_EQ(Chunks(shape_of(wire::Kind::kAllReduce, 4 * kMiB), 0).size(), 8U);
  EXPECT_EQ(Chunks(shape_of(wire::Kind::kAllReduce, 16 * kMiB), 0).size(), 16U);
  EXPECT_EQ(Chunks(shape_of(wire::Kind::kAllReduce, 64 * kMiB), 0).size(), 16U);
  EXPECT_EQ(Chunks(shape_of(wire::Kind::kAllReduce, 400 * kMiB), 0).size(), 100U);
  EXPECT_EQ(Chunks(shape_of(wire::Kind::kAllReduce, std::uint64_t{1} << 33), 0).size(),
            Chunks::kMost);
}

TEST(Chunks, CoverEachElementOnceInOrder) {
  for (const wire::Kind kind : {wire::Kind::kAllReduce, wire::Kind::kReduce, wire::Kind::kBroadcast,
                                wire::Kind::kReduceScatter, wire::Kind::kAllGather}) {
    for (const std::uint64_t count : {kMiB + 1, 5 * kMiB + 12345, 33 * kMiB - 1}) {
      for (const std::uint16_t ranks : {1, 3, 8, 1000}) {
        const Chunks chunks(shape_of(kind, count, ranks), 3);
        std::uint64_t next = 0;
        std::set<std::uint32_t> tags;
        for (std::uint32_t i = 0; i < chunks.size(); ++i) {
          EXPECT_EQ(chunks[i].first, next);
          next += chunks[i].shape.count;
          tags.insert(chunks[i].tag);
        }
        EXPECT_EQ(next, count);
        EXPECT_EQ(tags.size(), chunks.size());
      }
    }
  }
}

// Each element goes to, or comes from, the rank that it belongs to in the whole operation.
TEST(Chunks, KeepTheOwnersOfElements) {
  for (const wire::Kind kind : {wire::Kind::kReduceScatter, wire::Kind::kAllGather}) {
    const protocol::Shape whole = shape_of(kind, 9 * kMiB + 5, 3);
    const Chunks chunks(whole, 3);
    ASSERT_GT(chunks.size(), 3U);
    for (std::uint32_t i = 0; i < chunks.size(); ++i) {
      const Chunk chunk = chunks[i];
      if (chunk.shape.count == 0) continue;
      for (const std::uint64_t element : {chunk.first, chunk.first + chunk.shape.count - 1}) {
        const auto there = protocol::stretch_at(whole, element);
        const auto here = protocol::stretch_at(chunk.shape, element - chunk.first);
        for (std::uint16_t rank = 0; rank < 3; ++rank) {
          EXPECT_EQ(here.contributors.has(rank), there.contributors.has(rank));
          EXPECT_EQ(here.receivers.has(rank), there.receivers.has(rank));
        }
      }
    }
  }
}

TEST(Chunks, OfDifferentTagsHaveDifferentTags) {
  std::set<std::uint32_t> tags;
  for (const std::uint32_t tag : {0U, 1U, 77U, Chunks::kTagLimit - 1}) {
    const Chunks chunks(shape_of(wire::Kind::kAllReduce, 100 * kMiB), tag);
    EXPECT_TRUE(chunks.check());
    for (std::uint32_t i = 0; i < chunks.size(); ++i) {
      EXPECT_TRUE(tags.insert(chunks[i].tag).second);
      EXPECT_EQ(Chunks::chunk_id_of(chunks[i].tag).tag, tag);
      EXPECT_EQ(Chunks::chunk_id_of(chunks[i].tag).index, i);
    }
  }
}

TEST(Chunks, RefuseTagsWithoutRoom) {
  EXPECT_TRUE(Chunks(shape_of(wire::Kind::kAllReduce, 1), Chunks::kTagLimit).check());
  EXPECT_FALSE(Chunks(shape_of(wire::Kind::kAllReduce, 1), Chunks::kFirstTag).check());
  const auto outcome =
      Chunks(shape_of(wire::Kind::kAllReduce, 8 * kMiB), Chunks::kTagLimit).check();
  ASSERT_FALSE(outcome);
  EXPECT_EQ(outcome.error().message,
            "tag 2097152: must be below 2097152 for an operation of 2097152 elements on memory of "
            "a device, because its chunks have tags of their own");
}

}  // namespace
}  // namespace tally::client
