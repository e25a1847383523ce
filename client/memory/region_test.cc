#include "client/memory/region.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <numeric>
#include <vector>

#include "base/system/fd.h"

namespace tally::client {
namespace {

constexpr std::size_t kPage = 4096;

// Private anonymous memory, as malloc gives for large blocks.
struct Anonymous {
  explicit Anonymous(std::size_t bytes) : mapping(map(bytes), bytes) {}
  static void* map(std::size_t bytes) {
    return ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  }
  std::byte* data() const { return mapping.data(); }
  Mapping mapping;
};

void number(std::byte* data, std::size_t bytes, int seed) {
  for (std::size_t i = 0; i < bytes; ++i) data[i] = static_cast<std::byte>(i * 7 + i / 256 + seed);
}

bool numbered(const std::byte* data, std::size_t bytes, int seed) {
  for (std::size_t i = 0; i < bytes; ++i) {
    if (data[i] != static_cast<std::byte>(i * 7 + i / 256 + seed)) return false;
  }
  return true;
}

Mapping as_the_node_sees_it(const Region& region) {
  auto mapped = transport::shm::map_peer(region.fd(), region.node_bytes(), "region");
  EXPECT_TRUE(mapped.ok());
  return std::move(mapped).value();
}

TEST(Region, AllocatedMemoryIsTheNodesToo) {
  auto region = Region::allocate(10'000);
  ASSERT_TRUE(region.ok());
  const Mapping node = as_the_node_sees_it(**region);
  number((*region)->data(), 10'000, 1);
  EXPECT_TRUE(numbered(node.data(), 10'000, 1));
}

// Odd begins and ends: the whole pages move, the edges are copied, the bytes around them stay
// untouched.
TEST(Region, AdoptedMemoryKeepsItsContentsAndTheBytesAroundIt) {
  for (const auto& [offset, bytes] : {std::pair<std::size_t, std::size_t>{0, 8 * kPage},
                                      {100, 6 * kPage},
                                      {kPage - 1, 3 * kPage + 2}}) {
    Anonymous memory(10 * kPage);
    number(memory.data(), 10 * kPage, 3);
    std::vector<std::byte> before(memory.data(), memory.data() + 10 * kPage);
    auto region = Region::adopt(memory.data() + offset, bytes);
    ASSERT_TRUE(region.ok()) << region.error().message;
    EXPECT_EQ(std::memcmp(memory.data(), before.data(), 10 * kPage), 0);
    const Mapping node = as_the_node_sees_it(**region);
    std::byte* shared = node.data() + (*region)->base_offset();
    const std::size_t pages = (offset + bytes) / kPage - (offset + kPage - 1) / kPage;
    EXPECT_EQ((*region)->copy_in(0, bytes), bytes - pages * kPage) << "the edges alone";
    EXPECT_EQ(std::memcmp(shared, before.data() + offset, bytes), 0);
    number(shared, bytes, 9);  // the node writes a result
    EXPECT_EQ((*region)->copy_out(0, bytes), bytes - pages * kPage);
    EXPECT_TRUE(numbered(memory.data() + offset, bytes, 9));
    EXPECT_EQ(std::memcmp(memory.data(), before.data(), offset), 0);
    const std::size_t after = offset + bytes;
    EXPECT_EQ(std::memcmp(memory.data() + after, before.data() + after, 10 * kPage - after), 0);
    region->reset();
    EXPECT_TRUE(numbered(memory.data() + offset, bytes, 9)) << "kept when it is put back";
    number(shared, bytes, 5);
    EXPECT_TRUE(numbered(memory.data() + offset, bytes, 9)) << "and no longer the node's";
  }
}

TEST(Region, OnlyTheRangeOfTheOperationIsCopied) {
  Anonymous memory(4 * kPage);
  auto region = Region::stage(memory.data() + 10, 2 * kPage);
  ASSERT_TRUE(region.ok());
  const Mapping node = as_the_node_sees_it(**region);
  number(memory.data() + 10, 2 * kPage, 4);
  EXPECT_EQ((*region)->copy_in(100, 50), 50u);
  EXPECT_EQ(std::memcmp(node.data() + 100, memory.data() + 110, 50), 0);
  EXPECT_EQ(node.data()[99], std::byte{0});
  EXPECT_EQ(node.data()[150], std::byte{0});
  std::memset(node.data(), 1, 2 * kPage);
  (*region)->copy_out(100, 50);
  EXPECT_EQ(memory.data()[110 + 49], std::byte{1});
  EXPECT_NE(memory.data()[110 + 50], std::byte{1});
}

TEST(Region, AMovedRegionIsOutOfTheNodesReach) {
  auto region = Region::allocate(3 * kPage);
  ASSERT_TRUE(region.ok());
  number((*region)->data(), 3 * kPage, 2);
  const Mapping node = as_the_node_sees_it(**region);
  ASSERT_TRUE((*region)->move().ok());
  EXPECT_TRUE(numbered((*region)->data(), 3 * kPage, 2)) << "the contents moved along";
  std::memset(node.data(), 0xee, 3 * kPage);
  EXPECT_TRUE(numbered((*region)->data(), 3 * kPage, 2)) << "the stuck node keeps the orphan";
}

// Regions of all kinds that a node may still write to, when their session goes on with other nodes.
TEST(Region, AReplacedRegionHasAnotherFileForLaterNodes) {
  Anonymous memory(4 * kPage), staged(4 * kPage);
  std::vector<std::unique_ptr<Region>> regions;
  regions.push_back(std::move(Region::allocate(3 * kPage)).value());
  regions.push_back(std::move(Region::adopt(memory.data() + 100, 3 * kPage)).value());
  regions.push_back(std::move(Region::stage(staged.data() + 100, 3 * kPage)).value());
  for (const auto& region : regions) {
    for (const int seed : {2, 3}) {  // it may be replaced again
      number(region->data(), 3 * kPage, seed);
      region->copy_in(0, 3 * kPage);
      const Mapping stuck = as_the_node_sees_it(*region);
      const auto replaced = region->replace();
      ASSERT_TRUE(replaced.ok()) << replaced.error().message;
      std::memset(stuck.data(), 0xee, region->node_bytes());
      EXPECT_TRUE(numbered(region->data(), 3 * kPage, seed)) << "the contents moved along";
      const Mapping later = as_the_node_sees_it(*region);
      std::byte* shared = later.data() + region->base_offset();
      EXPECT_TRUE(numbered(shared, 3 * kPage, seed));
      number(shared, 3 * kPage, seed + 10);
      region->copy_out(0, 3 * kPage);
      EXPECT_TRUE(numbered(region->data(), 3 * kPage, seed + 10)) << "a result of the later node";
    }
  }
}

TEST(Region, MemoryThatOthersReachIsNotReplaced) {
  auto pinned = Region::allocate(kPage);
  (*pinned)->pin();
  EXPECT_EQ((*pinned)->replace().status(), Status::kUnsupported);
  auto memory = transport::shm::make_shared("caller", kPage);
  auto shared = Region::share(memory->mapping.data(), kPage, memory->fd.get(), 0);
  EXPECT_EQ((*shared)->replace().status(), Status::kUnsupported);
  EXPECT_TRUE((*shared)->move().ok()) << "at the end of its session";
}

// A device goes on with the pages that were pinned, so they must stay those of the region.
TEST(Region, PinnedMemoryStaysWhereItIs) {
  auto region = Region::allocate(4096);
  ASSERT_TRUE(region);
  (*region)->pin();
  ASSERT_TRUE((*region)->move().ok());
  const Mapping same = Mapping::shared((*region)->fd(), 4096, false);
  same.data()[7] = std::byte{42};
  EXPECT_EQ((*region)->data()[7], std::byte{42});
}

TEST(Region, WhatAnAdapterReachesStaysWhereItIs) {
  std::vector<std::byte> memory(kPage);
  EXPECT_EQ(Region::borrow(memory.data(), memory.size())->move().status(), Status::kUnsupported);
}

TEST(Region, ACallersMemfdIsShared) {
  auto memory = transport::shm::make_shared("caller", 2 * kPage);
  ASSERT_TRUE(memory.ok());
  auto region = Region::share(memory->mapping.data() + kPage, kPage, memory->fd.get(), kPage);
  ASSERT_TRUE(region.ok());
  EXPECT_EQ((*region)->base_offset(), kPage);
  EXPECT_EQ((*region)->node_bytes(), 2 * kPage);
  EXPECT_FALSE(Region::share(memory->mapping.data(), kPage, memory->fd.get(), 100).ok());
  EXPECT_FALSE(Region::share(memory->mapping.data(), kPage, -1, 0).ok());
}

}  // namespace
}  // namespace tally::client
