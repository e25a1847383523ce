#include "control/node/session_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tally::control {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(SessionTable, FindsASessionByConnectionAndByNumber) {
  SessionTable table;
  EXPECT_TRUE(table.empty());
  const SharedSession session = table.add(7);
  EXPECT_EQ(session->connection, 7U);
  EXPECT_EQ(table.on(7), session);
  EXPECT_EQ(table.numbered(session->number), session);
  EXPECT_EQ(table.on(8), nullptr);
  EXPECT_EQ(table.numbered(session->number + 1), nullptr);
  EXPECT_FALSE(table.empty());
}

TEST(SessionTable, AnEndingSessionKeepsItsNumberAndNotItsConnection) {
  SessionTable table;
  const SharedSession first = table.add(7);
  table.disconnect(7);
  EXPECT_EQ(table.on(7), nullptr);
  EXPECT_TRUE(table.empty());
  EXPECT_EQ(table.numbered(first->number), first);
  const SharedSession second = table.add(7);
  EXPECT_NE(second->number, first->number);
  EXPECT_EQ(table.on(7), second);
}

TEST(SessionTable, AFreeNumberServesAgainUnderAnotherIdentity) {
  SessionTable table;
  const SharedSession first = table.add(1), second = table.add(2);
  EXPECT_EQ(first->number, 0U);
  EXPECT_EQ(second->number, 1U);
  table.disconnect(1);
  table.erase(first->number);
  const SharedSession third = table.add(3);
  EXPECT_EQ(third->number, 0U);
  EXPECT_NE(third->identity, first->identity);
  EXPECT_EQ(table.add(4)->number, 2U);
}

TEST(SessionTable, ListsTheSessionsOfAJobInstanceThatAreNotEnding) {
  SessionTable table;
  JobInstance one, other;
  const SharedSession first = table.add(1), second = table.add(2), third = table.add(3);
  first->instance = third->instance = &one;
  second->instance = &other;
  EXPECT_THAT(table.of(one), ElementsAre(first, third));
  first->ending = true;
  EXPECT_THAT(table.of(one), ElementsAre(third));
  third->ending = true;
  EXPECT_THAT(table.of(one), IsEmpty());
}

}  // namespace
}  // namespace tally::control
