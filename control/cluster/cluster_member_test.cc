#include "control/cluster/cluster_member.h"

#include <gtest/gtest.h>

namespace tally::control {
namespace {

TEST(ClusterMember, ReportsTheAddressAtWhichItCanBeReached) {
  EXPECT_EQ(reachable_tcp("tcp:10.0.0.7:7733", "10.0.0.8", "h"), "tcp:10.0.0.7:7733");
  EXPECT_EQ(reachable_tcp("tcp:0.0.0.0:7733", "10.0.0.8", "h"), "tcp:10.0.0.8:7733");
  EXPECT_EQ(reachable_tcp("tcp:*:7733", "fd00::1", "h"), "tcp:[fd00::1]:7733");
  EXPECT_EQ(reachable_tcp("tcp:[::]:7733", "", "h"), "tcp:h:7733") << "over a Unix socket";
  EXPECT_EQ(reachable_tcp("tcp:[::]:7733", "127.0.0.1", "h"), "tcp:h:7733");
  EXPECT_EQ(reachable_tcp("", "10.0.0.8", "h"), "");
}

}  // namespace
}  // namespace tally::control
