#include "dataplane/protocol/job/outbox.h"

#include <gtest/gtest.h>

namespace tally::protocol {
namespace {

TEST(Outbox, DropsEverythingForASessionThatEnded) {
  Outbox outbox;
  outbox.complete({1, {}});
  outbox.complete({2, {}});
  outbox.send_down(1, {});
  outbox.send_down(2, {});
  outbox.send_up(1, {});
  outbox.drop_member(1);
  ASSERT_EQ(outbox.completions().size(), 1u);
  EXPECT_EQ(outbox.completions()[0].member, 2u);
  ASSERT_EQ(outbox.messages_down().size(), 1u);
  EXPECT_EQ(outbox.messages_down()[0].to, 2u);
  EXPECT_EQ(outbox.messages_up().size(), 1u) << "a parent's number is another number";
  outbox.drop_parent(1);
  EXPECT_TRUE(outbox.messages_up().empty());
}

TEST(Outbox, SendsNothingToNodesThatAreNotThere) {
  Outbox outbox;
  outbox.send_down(kNoSession, {});
  outbox.send_up(kNoParentId, {});
  EXPECT_TRUE(outbox.messages_down().empty());
  EXPECT_TRUE(outbox.messages_up().empty());
}

}  // namespace
}  // namespace tally::protocol
