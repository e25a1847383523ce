#include "dataplane/transport/onesided/payloads.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "dataplane/transport/onesided/small_operation.h"

namespace tally::transport::onesided {
namespace {

constexpr Peer kPeer = 3;
constexpr Peer kOther = 4;
constexpr std::uint32_t kCookie = 70;

class PayloadsTest : public ::testing::Test {
 protected:
  bool found(Peer peer, std::uint32_t region, std::uint64_t offset = 0, std::uint64_t bytes = 1) {
    return payloads_.find({peer, region, offset, bytes}).has_value();
  }

  Payloads payloads_{16 * LandingMemory::kAlignment};
  std::vector<std::byte> bytes_ = std::vector<std::byte>(1000, std::byte{42});
  std::shared_ptr<int> owner_ = std::make_shared<int>();  // of bytes_, when they are lent
};

TEST_F(PayloadsTest, WhatIsKeptIsACopyAndWhatIsLentIsNot) {
  const auto kept = payloads_.keep(kPeer, kCookie, bytes_);
  const auto lent = payloads_.lend(kPeer, kCookie + 1, bytes_, owner_);
  ASSERT_TRUE(kept && lent);
  EXPECT_TRUE(Payloads::is_payload(*kept) && Payloads::is_payload(*lent));
  bytes_.assign(bytes_.size(), std::byte{0});
  const auto copy = payloads_.find({kPeer, *kept, 990, 10});
  ASSERT_TRUE(copy.has_value());
  EXPECT_EQ(copy->bytes, 10U);
  EXPECT_EQ(copy->data[9], std::byte{42});
  EXPECT_EQ(payloads_.find({kPeer, *lent, 990, 10})->data, bytes_.data() + 990);
}

TEST_F(PayloadsTest, NobodyReadsBeyondItNorAnothersNorWhatIsNone) {
  const auto region = payloads_.keep(kPeer, kCookie, bytes_);
  EXPECT_TRUE(found(kPeer, *region, 0, 1000));
  EXPECT_FALSE(found(kPeer, *region, 0, 1001));
  EXPECT_FALSE(found(kPeer, *region, 1001, 0));
  EXPECT_FALSE(found(kPeer, *region, UINT64_MAX, 2));
  EXPECT_FALSE(found(kOther, *region));
  EXPECT_FALSE(found(kPeer, *region + 1));
  EXPECT_FALSE(found(kPeer, UINT32_MAX));
  EXPECT_FALSE(found(kPeer, 1));
}

TEST_F(PayloadsTest, ItGoesWithItsOperationButNotUnderAView) {
  const auto region = payloads_.keep(kPeer, kCookie, bytes_);
  const auto view = payloads_.find({kPeer, *region, 0, 1000});
  payloads_.hold(*region);
  payloads_.ended(kPeer, kCookie + 1);
  payloads_.ended(kOther, kCookie);
  EXPECT_TRUE(found(kPeer, *region));
  payloads_.ended(kPeer, kCookie);
  EXPECT_FALSE(found(kPeer, *region));
  // Nothing takes its place while somebody looks at it.
  for (std::uint32_t i = 0; i < Payloads::kMostEach; ++i) {
    const auto later = payloads_.keep(kOther, i, std::vector<std::byte>(1000, std::byte{1}));
    ASSERT_TRUE(later.has_value());
    EXPECT_NE(*later, *region);
  }
  EXPECT_EQ(view->data[999], std::byte{42});
  EXPECT_EQ(payloads_.size(), Payloads::kMostEach + 1);
  payloads_.release(*region);
  EXPECT_EQ(payloads_.size(), Payloads::kMostEach);
}

TEST_F(PayloadsTest, APeerHasRoomForAFewAndAllTogetherForWhatFits) {
  for (std::uint32_t i = 0; i < Payloads::kMostEach; ++i) {
    EXPECT_TRUE(payloads_.keep(kPeer, i, bytes_).has_value());
  }
  EXPECT_FALSE(payloads_.keep(kPeer, 100, bytes_).has_value());
  EXPECT_FALSE(payloads_.lend(kPeer, 100, bytes_, owner_).has_value());
  EXPECT_FALSE(
      payloads_.keep(kOther, 1, std::vector<std::byte>(9 * LandingMemory::kAlignment)).has_value());
  EXPECT_TRUE(
      payloads_.keep(kOther, 1, std::vector<std::byte>(8 * LandingMemory::kAlignment)).has_value());
  EXPECT_FALSE(payloads_.keep(kOther, 2, bytes_).has_value());
  payloads_.ended(kPeer, 5);
  EXPECT_TRUE(payloads_.keep(kOther, 2, bytes_).has_value());
  payloads_.forget(kPeer);
  payloads_.forget(kOther);
  EXPECT_EQ(payloads_.size(), 0U);
  EXPECT_TRUE(
      payloads_.keep(kPeer, 1, std::vector<std::byte>(16 * LandingMemory::kAlignment)).has_value());
}

// A notice that comes twice: the first one's stays as it is.
TEST_F(PayloadsTest, AnOperationHasOne) {
  const auto first = payloads_.keep(kPeer, kCookie, bytes_);
  EXPECT_FALSE(payloads_.keep(kPeer, kCookie, bytes_).has_value());
  EXPECT_FALSE(payloads_.lend(kPeer, kCookie, bytes_, owner_).has_value());
  EXPECT_TRUE(found(kPeer, *first));
  EXPECT_TRUE(payloads_.keep(kOther, kCookie, bytes_).has_value());
  payloads_.ended(kPeer, kCookie);
  payloads_.ended(kPeer, kCookie);
  EXPECT_EQ(payloads_.size(), 1U);
  EXPECT_TRUE(payloads_.keep(kPeer, kCookie, bytes_).has_value());
}

TEST_F(PayloadsTest, NoticeNamesItsStoredContribution) {
  const RingEntry notice = wire::encode(small_notice(kCookie));
  const RingEntry stored = payloads_.store(kPeer, notice, bytes_, nullptr);
  wire::Notice seen;
  ASSERT_EQ(wire::parse(stored, seen), Status::kOk);
  EXPECT_TRUE(found(kPeer, seen.in_region, seen.in_offset, bytes_.size()));
  EXPECT_EQ(seen.cookie, kCookie);
  const RingEntry again = payloads_.store(kPeer, notice, bytes_, nullptr);
  EXPECT_EQ(std::memcmp(&again, &notice, sizeof notice), 0) << "one payload of an operation";
}

TEST_F(PayloadsTest, CancelHasNoContribution) {
  wire::Notice cancel = small_notice(kCookie);
  cancel.kind = wire::Kind::kCancel;
  payloads_.store(kPeer, wire::encode(cancel), bytes_, nullptr);
  EXPECT_EQ(payloads_.size(), 0U);
}

TEST_F(PayloadsTest, CompletionOfSecondEqualNoticeKeepsPayloadOfFirst) {
  payloads_.keep(kPeer, kCookie, bytes_);
  payloads_.completed({kPeer, small_completion(kCookie, Status::kDuplicate)});
  EXPECT_EQ(payloads_.size(), 1U);
  payloads_.completed({kPeer, small_completion(kCookie)});
  EXPECT_EQ(payloads_.size(), 0U);
}

}  // namespace
}  // namespace tally::transport::onesided
