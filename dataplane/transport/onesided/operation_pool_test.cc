// The entries of operations: their addresses, their reuse, and what they give back.
#include "dataplane/transport/onesided/operation_pool.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

namespace tally::transport::onesided {
namespace {

class OperationPoolTest : public ::testing::Test {
 protected:
  using Kind = Context::Kind;
  static constexpr Peer kOne = 1;
  static constexpr Peer kTwo = 2;

  Payloads payloads_{LandingMemory::kAlignment};
  OperationPool operations_{payloads_};
};

TEST_F(OperationPoolTest, EntryKeepsItsAddressWhilePoolGrows) {
  Operation& first = operations_.take(Kind::kPull, kOne, 100, 7);
  for (int i = 0; i < 1000; ++i) operations_.take(Kind::kPush, kTwo, 8, 0);
  EXPECT_EQ(&operations_[first.index], &first);
  EXPECT_EQ(first.user, 7U);
  EXPECT_EQ(first.bytes, 100U);
}

TEST_F(OperationPoolTest, UsesFreeEntryAgainWithoutItsPast) {
  Operation& first = operations_.take(Kind::kPush, kOne, 100, 7);
  first.answered = first.eager = true;
  operations_.give_back(first);
  Operation& again = operations_.take(Kind::kPull, kTwo, 8, 9);
  EXPECT_EQ(&again, &first);
  EXPECT_EQ(again.kind, Kind::kPull);
  EXPECT_FALSE(again.answered || again.eager);
}

TEST_F(OperationPoolTest, GivesBackLandingMemory) {
  LandingMemory landing(LandingMemory::kAlignment);
  Operation& operation = operations_.take(Kind::kPull, kOne, 100, 0);
  operation.local = landing.allocate(100);
  operation.memory = &landing;
  operations_.give_back(operation);
  EXPECT_TRUE(landing.empty());
}

TEST_F(OperationPoolTest, GivesBackViewOfPayload) {
  const std::array<std::byte, 8> bytes{};
  Operation& operation = operations_.take(Kind::kPull, kOne, bytes.size(), 0);
  operation.payload = *payloads_.keep(kOne, 70, bytes);
  payloads_.hold(operation.payload);
  payloads_.ended(kOne, 70);
  EXPECT_EQ(payloads_.size(), 1U);
  operations_.give_back(operation);
  EXPECT_EQ(payloads_.size(), 0U);
}

TEST_F(OperationPoolTest, FindsOpenOperationsOfOnePeer) {
  operations_.take(Kind::kPull, kOne, 8, 1);
  operations_.take(Kind::kPull, kTwo, 8, 2);
  operations_.take(Kind::kPull, kOne, 8, 3).answered = true;
  operations_.give_back(operations_.take(Kind::kPull, kOne, 8, 4));
  std::vector<std::uint64_t> users;
  operations_.for_each_open(kOne, [&](Operation& operation) {
    users.push_back(operation.user);
    operations_.give_back(operation);
  });
  EXPECT_EQ(users, std::vector<std::uint64_t>{1});
}

}  // namespace
}  // namespace tally::transport::onesided
