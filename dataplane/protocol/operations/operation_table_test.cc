#include "dataplane/protocol/operations/operation_table.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <tuple>

namespace tally::protocol {
namespace {

// The same operations on a std::map, with keys that crowd together.
TEST(OperationTable, AgreesWithAMapUnderRandomUse) {
  std::mt19937_64 random(3);
  OperationTable table(4, 16, 4);
  std::map<std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>, PoolIndex> model;
  for (int tile_event = 0; tile_event < 50'000; ++tile_event) {
    const OperationKey key{static_cast<std::uint32_t>(random() % 3), 0,
                           static_cast<std::uint32_t>(random() % 8),
                           static_cast<std::uint32_t>(random() % 4)};
    const auto name = std::tuple(key.tree, key.tag, key.round);
    const auto known = model.find(name);
    const PoolIndex found = table.find(key);
    ASSERT_EQ(found, known == model.end() ? kNone : known->second);
    if (found != kNone && random() % 2 == 0) {
      table.erase(found);
      model.erase(known);
    } else if (found == kNone && model.size() < 64) {
      model[name] = table.create(key, 4);
    }
    ASSERT_EQ(table.size(), model.size());
  }
}

// It begins small, and widens while operations are there, and others have gone.
TEST(OperationTable, FindsAllWhileItsIndexWidens) {
  constexpr std::uint32_t kMost = 8 * 512;
  OperationTable table(8, 512, 8);
  std::map<std::uint32_t, PoolIndex> model;
  for (std::uint32_t tag = 0; model.size() < kMost; ++tag) {
    model[tag] = table.create(OperationKey{0, 0, tag, 1}, 8);
    if (tag % 5 == 0) {
      const auto gone = model.lower_bound(tag / 2);
      table.erase(gone->second);
      model.erase(gone);
    }
    const auto some = model.lower_bound(tag / 3);
    if (some != model.end()) {
      ASSERT_EQ(table.find(OperationKey{0, 0, some->first, 1}), some->second);
    }
  }
  for (const auto& [tag, index] : model) {
    ASSERT_EQ(table.find(OperationKey{0, 0, tag, 1}), index);
    ASSERT_EQ(table.find(OperationKey{0, 0, tag, 2}), kNone);
    table.erase(index);
    ASSERT_EQ(table.find(OperationKey{0, 0, tag, 1}), kNone);
  }
  EXPECT_EQ(table.size(), 0u);
}

TEST(OperationTable, HoldsEveryNoticeWithinCredit) {
  constexpr std::uint16_t kRanks = 3;
  constexpr std::uint32_t kCredit = 4;
  OperationTable table(kRanks, kCredit, kRanks);
  for (int lap = 0; lap < 3; ++lap) {  // each rank has operations that nobody else announces
    std::vector<PoolIndex> indices;
    for (std::uint16_t rank = 0; rank < kRanks; ++rank) {
      for (std::uint32_t i = 0; i < kCredit; ++i) {
        const PoolIndex index = table.create(OperationKey{0, 0, rank * 100u + i, 0}, kRanks);
        Announcement announcement;
        announcement.rank = rank;
        ASSERT_TRUE(table.mark(index, rank));
        ASSERT_FALSE(table.mark(index, rank));
        table.park(table[index], announcement);
        indices.push_back(index);
      }
    }
    for (PoolIndex index : indices) table.erase(index);
    EXPECT_EQ(table.size(), 0u);
  }
}

TEST(OperationTable, OrdersAnnouncementsByRank) {
  OperationTable table(130, 2, 130);
  const PoolIndex index = table.create(OperationKey{}, 130);
  for (std::uint32_t i = 0; i < 130; ++i) {
    Announcement announcement;
    announcement.rank = static_cast<std::uint16_t>(i * 37 % 130);
    ASSERT_TRUE(table.mark(index, announcement.rank));
    table.park(table[index], announcement);
  }
  EXPECT_TRUE(table.marked(index, 129));
  table.order_by_rank(table[index]);
  std::uint16_t expected = 0;
  for (PoolIndex i = table[index].announcements; i != kNone; i = table.announcement(i).next) {
    EXPECT_EQ(table.announcement(i).rank, expected++);
  }
  EXPECT_EQ(expected, 130);
}

// A tag has a round in each tree: most of them find a place, however many trees there are.
TEST(OperationTable, RemembersWhatHasEndedInEveryTree) {
  constexpr std::uint32_t kTags = 4;
  constexpr std::uint32_t kTrees = 16;
  OperationTable table(1, kTags, 1, kTrees);
  std::uint32_t remembered = 0;
  for (const bool close : {true, false}) {
    for (std::uint32_t tag = 0; tag < kTags; ++tag) {
      for (std::uint32_t tree = 0; tree < kTrees; ++tree) {
        const OperationKey key{tree, 0, tag, 0};
        if (!close) {
          remembered += table.closed(key) ? 1 : 0;
          continue;
        }
        const PoolIndex index = table.create(key, 1);
        table.mark(index, 0);
        table.erase(index);
      }
    }
  }
  EXPECT_GE(remembered, kTags * kTrees * 3 / 4);
  EXPECT_LT(OperationTable::footprint(1, 256, 1, 4096) - OperationTable::footprint(1, 256, 1),
            512u << 10)
      << "but not of any number of them";
}

// Growth is a decision, not an accident: admission reserves ranks x credit of both.
TEST(Sizes, OfHotObjects) {
  EXPECT_EQ(sizeof(Announcement), 48u);
  EXPECT_LE(sizeof(OperationRecord), 256u);
}

}  // namespace
}  // namespace tally::protocol
