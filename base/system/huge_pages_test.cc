#include "base/system/huge_pages.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstdint>
#include <cstring>

namespace tally {
namespace {

bool aligned(const Mapping& mapping) {
  return reinterpret_cast<std::uintptr_t>(mapping.data()) % kHugePage == 0;
}

TEST(HugePages, WhatIsLongBeginsWhereOneCan) {
  for (const std::size_t bytes : {kHugePage, kHugePage + 4096, 5 * kHugePage}) {
    const Mapping mapping = map_own(bytes, false);
    ASSERT_TRUE(mapping);
    EXPECT_TRUE(aligned(mapping)) << bytes;
    EXPECT_EQ(mapping.size(), bytes);
    std::memset(mapping.data(), 1, mapping.size());
  }
  EXPECT_EQ(map_own(8192, false).size(), 8192U);
}

TEST(HugePages, ThePoolGivesAllOrNothing) {
  EXPECT_FALSE(map_own(std::size_t{1} << 46, true));
  const Mapping some = map_own(kHugePage + 1, true);
  if (!some) GTEST_SKIP() << "no hugepages are free here (vm.nr_hugepages)";
  EXPECT_TRUE(aligned(some));
  EXPECT_EQ(some.size(), 2 * kHugePage);
  std::memset(some.data(), 1, some.size());
}

TEST(HugePages, WhatCannotBeMappedIsEmpty) {
  EXPECT_FALSE(map_aligned(kHugePage, MAP_SHARED, -1));
  EXPECT_FALSE(map_aligned(4096, MAP_SHARED, -1));
}

}  // namespace
}  // namespace tally
