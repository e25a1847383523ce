#include "client/memory/exposed_memory.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

namespace tally::client {
namespace {

namespace fabric = transport::fabric;

class ExposedMemoryTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto opened = fabric::Domain::open({.address = "127.0.0.1", .provider = {}, .threads = true});
    ASSERT_TRUE(opened.ok()) << opened.error().message;
    domain_ = std::move(opened).value();
    auto exposed = domain_->expose(memory_.data(), memory_.size());
    ASSERT_TRUE(exposed.ok());
    key_ = ::fi_mr_key(exposed->get());
    base_ = domain_->base_of(memory_.data());
    exposed_.add(*region_, std::move(exposed).value(), base_);
  }

  // A result of so many bytes, all of this value.
  void add(std::uint64_t key, std::uint64_t offset, std::uint64_t bytes, int value,
           std::uint64_t claimed = 0) {
    const fabric::Store store{key, base_ + offset, claimed != 0 ? claimed : bytes};
    const auto* raw = reinterpret_cast<const std::byte*>(&store);
    results_.insert(results_.end(), raw, raw + sizeof store);
    results_.insert(results_.end(), bytes, std::byte(value));
  }
  std::size_t changed() const {
    std::size_t count = 0;
    for (const std::byte byte : memory_) count += byte != std::byte{0} ? 1 : 0;
    return count;
  }

  std::vector<std::byte> memory_ = std::vector<std::byte>(1000);
  std::unique_ptr<Region> region_ = Region::borrow(memory_.data(), memory_.size());
  std::unique_ptr<fabric::Domain> domain_;
  ExposedMemory exposed_;
  std::uint64_t key_ = 0;
  std::uint64_t base_ = 0;
  std::vector<std::byte> results_;
};

TEST_F(ExposedMemoryTest, StoresResultsAtTheirAddresses) {
  EXPECT_TRUE(exposed_.store({}));
  add(key_, 0, 1, 7);
  add(key_, 990, 10, 9);
  add(key_, 500, 3, 8);
  EXPECT_TRUE(exposed_.store(results_));
  EXPECT_EQ(memory_[0], std::byte{7});
  EXPECT_EQ(memory_[999], std::byte{9});
  EXPECT_EQ(memory_[502], std::byte{8});
  EXPECT_EQ(changed(), 14U);
}

TEST_F(ExposedMemoryTest, StoresNothingOutsideOfExposedRegions) {
  const auto refused = [this](std::uint64_t key, std::uint64_t offset, std::uint64_t bytes) {
    results_.clear();
    add(key, offset, bytes, 7);
    return !exposed_.store(results_);
  };
  EXPECT_TRUE(refused(key_ + 1, 0, 1));
  EXPECT_TRUE(refused(key_, 1000, 1));
  EXPECT_TRUE(refused(key_, 999, 2));
  EXPECT_TRUE(refused(key_, UINT64_MAX - base_, 2));
  EXPECT_TRUE(refused(key_, UINT64_MAX, 1));
  EXPECT_EQ(changed(), 0U);
  exposed_.withdraw(*region_);
  EXPECT_TRUE(refused(key_, 0, 1));
  EXPECT_EQ(changed(), 0U);
}

TEST_F(ExposedMemoryTest, RefusesResultsThatCannotBeRead) {
  add(key_, 0, 10, 7, 11);  // a byte is missing
  EXPECT_FALSE(exposed_.store(results_));
  results_.clear();
  add(key_, 0, 10, 7, UINT64_MAX);
  EXPECT_FALSE(exposed_.store(results_));
  results_.clear();
  add(key_, 0, 10, 7);
  results_.push_back(std::byte{1});  // and the beginning of another
  EXPECT_FALSE(exposed_.store(results_));
  EXPECT_EQ(changed(), 10U);
}

}  // namespace
}  // namespace tally::client
