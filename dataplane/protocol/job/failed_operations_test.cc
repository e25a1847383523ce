#include "dataplane/protocol/job/failed_operations.h"

#include <gtest/gtest.h>

namespace tally::protocol {
namespace {

class FailedOperationsTest : public ::testing::Test {
 protected:
  PoolIndex keep(std::uint32_t tag) {
    const PoolIndex index = table_.create(OperationKey{0, 0, tag, 0}, 2);
    failed_.keep(index);
    return index;
  }
  std::vector<std::uint32_t> tags() const {
    std::vector<std::uint32_t> tags;
    for (PoolIndex i = failed_.oldest(); i != kNone; i = table_[i].newer_failed) {
      tags.push_back(table_[i].key.tag);
    }
    return tags;
  }

  OperationTable table_{2, 4, 2};
  FailedOperations failed_{table_, 3};
};

TEST_F(FailedOperationsTest, ForgetsTheOldestWhenThereAreTooMany) {
  for (const std::uint32_t tag : {1, 2, 3, 4}) keep(tag);
  EXPECT_EQ(tags(), (std::vector<std::uint32_t>{2, 3, 4}));
  EXPECT_EQ(table_.size(), 3u);
  EXPECT_EQ(table_.find(OperationKey{0, 0, 1, 0}), kNone);
}

TEST_F(FailedOperationsTest, ForgetsFromAnyPlace) {
  const PoolIndex first = keep(1);
  const PoolIndex second = keep(2);
  const PoolIndex third = keep(3);
  failed_.forget(second);
  EXPECT_EQ(tags(), (std::vector<std::uint32_t>{1, 3}));
  failed_.forget(first);
  failed_.forget(third);
  EXPECT_EQ(failed_.oldest(), kNone);
  EXPECT_EQ(failed_.size(), 0u);
  keep(4);
  EXPECT_EQ(tags(), (std::vector<std::uint32_t>{4}));
}

TEST_F(FailedOperationsTest, ForgetsWhenTheLastChildHasAnnounced) {
  const PoolIndex index = keep(1);
  table_.mark(index, 0);
  failed_.forget_if_announced(index);
  EXPECT_EQ(failed_.size(), 1u);
  table_.mark(index, 1);
  failed_.forget_if_announced(index);
  EXPECT_EQ(failed_.size(), 0u);
}

}  // namespace
}  // namespace tally::protocol
