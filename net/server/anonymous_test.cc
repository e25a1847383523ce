#include "net/server/anonymous.h"

#include <gtest/gtest.h>

#include "net/server/connection_limits.h"

namespace tally::rpc {
namespace {

using Cause = AnonymousConnections::Cause;

constexpr AnonymousLimits kFew = {
    .connections = 4, .per_source = 2, .operators = 2, .idle = 10 * kSecond, .all_bytes = 1000};

// What makes room for one more, by id; 0: nothing has to.
ConnectionId victim(const AnonymousConnections& all, const std::string& source,
                    bool is_operator = false) {
  const auto closing = all.before_next(source, is_operator);
  return closing ? closing->id : 0;
}

TEST(Anonymous, TheOldestOfASourceMakesRoomForItsNext) {
  AnonymousConnections all(kFew);
  all.add(1, "a", false, 0);
  EXPECT_EQ(victim(all, "a"), 0U);
  all.add(2, "a", false, 0);
  ASSERT_EQ(victim(all, "a"), 1U);
  EXPECT_EQ(all.before_next("a", false)->cause, Cause::kSource);
  EXPECT_EQ(victim(all, "b"), 0U) << "another source has places of its own";
  all.active(1, false, 5);
  EXPECT_EQ(victim(all, "a"), 2U) << "1 has done something since";
  all.remove(2);
  EXPECT_EQ(victim(all, "a"), 0U);
}

TEST(Anonymous, TheOldestOfAllMakesRoomWhenAllPlacesAreTaken) {
  AnonymousConnections all(kFew);
  all.add(1, "a", false, 0);
  all.add(2, "b", false, 0);
  all.add(3, "c", false, 0);
  all.add(4, "d", false, 0);
  ASSERT_EQ(victim(all, "e"), 1U);
  EXPECT_EQ(all.before_next("e", false)->cause, Cause::kAll);
  EXPECT_EQ(all.oldest(), 1U);
}

TEST(Anonymous, WhatIsBeingWorkedOnIsClosedLast) {
  AnonymousConnections all(kFew);
  all.add(1, "a", false, 0);
  all.add(2, "a", false, 0);
  all.active(1, true, 1);
  EXPECT_EQ(victim(all, "a"), 2U);
  all.active(2, true, 2);
  EXPECT_EQ(victim(all, "a"), 1U) << "all of them are";
}

TEST(Anonymous, OperatorsHavePlacesOfTheirOwn) {
  AnonymousConnections all(kFew);
  for (ConnectionId id = 1; id <= 4; ++id) all.add(id, std::to_string(id), false, 0);
  EXPECT_EQ(victim(all, "uid 0", true), 0U);
  all.add(5, "uid 0", true, 0);
  all.add(6, "uid 0", true, 0);
  EXPECT_EQ(victim(all, "uid 0", true), 5U);
  EXPECT_EQ(all.before_next("uid 0", true)->cause, Cause::kOperators);
  EXPECT_EQ(all.operators(), 2U);
  EXPECT_EQ(all.strangers(), 4U);
  EXPECT_FALSE(AnonymousConnections(kFew).next_to_close(kSecond));
}

TEST(Anonymous, IdleStrangersAreClosedAndNobodyElse) {
  AnonymousConnections all(kFew);
  all.add(1, "a", false, 0);
  all.add(2, "b", false, 0);
  all.add(3, "uid 0", true, 0);
  all.active(1, true, kSecond);
  all.active(2, false, 2 * kSecond);
  EXPECT_FALSE(all.next_to_close(12 * kSecond - 1));
  ASSERT_TRUE(all.next_to_close(12 * kSecond));
  EXPECT_EQ(all.next_to_close(12 * kSecond)->id, 2U);
  EXPECT_EQ(all.next_to_close(12 * kSecond)->cause, Cause::kIdle);
  all.remove(2);
  EXPECT_FALSE(all.next_to_close(kForever)) << "1 is being worked for, 3 is an operator";
  all.active(1, false, 20 * kSecond);
  EXPECT_FALSE(all.next_to_close(30 * kSecond - 1)) << "its clock begins with the answer";
  EXPECT_EQ(all.next_to_close(30 * kSecond)->id, 1U);
}

TEST(Anonymous, HoldingMoreBytesDoesNotResetIdleTime) {
  AnonymousConnections all(kFew);
  all.add(1, "a", false, 0);
  all.holds(1, 500);
  EXPECT_EQ(all.next_to_close(10 * kSecond)->cause, Cause::kIdle);
}

TEST(Anonymous, ClosesLargestHolderAboveTotalLimit) {
  AnonymousConnections all(kFew);
  all.add(1, "a", false, 0);
  all.add(2, "b", false, 0);
  all.add(3, "c", true, 0);
  all.holds(3, 5000);
  all.holds(1, 400);
  all.holds(2, 600);
  EXPECT_FALSE(all.next_to_close(0));
  all.holds(1, 500);
  ASSERT_TRUE(all.next_to_close(0));
  EXPECT_EQ(all.next_to_close(0)->id, 2U);
  EXPECT_EQ(all.next_to_close(0)->cause, Cause::kMemory);
  all.remove(2);
  EXPECT_FALSE(all.next_to_close(0));
}

TEST(Anonymous, WhatIsUnknownIsIgnored) {
  AnonymousConnections all(kFew);
  all.active(1, true, 0);
  all.holds(1, 5000);
  all.remove(1);
  EXPECT_FALSE(all.contains(1));
  EXPECT_FALSE(all.next_to_close(kForever));
  EXPECT_FALSE(all.oldest());
}

TEST(Limits, AProcessWithFewDescriptorsHasFewerStrangers) {
  const Limits few = fit_descriptors({}, 300);
  EXPECT_EQ(few.anonymous.connections, 37U);
  EXPECT_EQ(few.anonymous.per_source, 18U);
  EXPECT_EQ(few.anonymous.operators, 18U);
  EXPECT_EQ(few.connections, 218U);
  const Limits many = fit_descriptors({}, 65'536);
  EXPECT_EQ(many.anonymous.connections, 512U);
  EXPECT_EQ(many.anonymous.per_source, 64U);
  EXPECT_EQ(many.anonymous.operators, 64U);
  EXPECT_EQ(many.connections, 4096U);
  EXPECT_EQ(fit_descriptors({}, 1).anonymous.connections, 4U);
}

}  // namespace
}  // namespace tally::rpc
