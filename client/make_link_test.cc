// What a session may ask for. Whether it can be had, the tests of whole sessions try.
#include "client/make_link.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tally::client {
namespace {

using ::testing::HasSubstr;

ibv_pd* some_domain() {
  static int domain = 0;
  return reinterpret_cast<ibv_pd*>(&domain);  // never looked into
}

TEST(LinkWish, IsATransportAndForVerbsADevice) {
  for (const char* transport : {"", "shm", "fabric", "verbs"}) {
    const auto wish = read_wish(transport, nullptr);
    ASSERT_TRUE(wish.ok()) << transport;
    EXPECT_EQ(wish->transport, transport);
    EXPECT_EQ(wish->device, "");
  }
  EXPECT_EQ(read_wish("verbs:mlx5_0:1:3", nullptr)->device, "mlx5_0:1:3");
  for (const char* wrong : {"rdma", "shm:", "fabric:eth0", "verb"}) {
    const auto wish = read_wish(wrong, nullptr);
    EXPECT_EQ(wish.status(), Status::kInvalidArgument) << wrong;
    EXPECT_THAT(wish.error().message, HasSubstr("is not one of shm, verbs"));
  }
}

TEST(LinkWish, AProtectionDomainMeansVerbs) {
  for (const char* fine : {"", "verbs", "verbs:mlx5_0:1:3"}) {
    const auto wish = read_wish(fine, some_domain());
    ASSERT_TRUE(wish.ok()) << fine;
    EXPECT_EQ(wish->transport, "verbs");
    EXPECT_EQ(wish->domain, some_domain());
  }
  for (const char* other : {"shm", "fabric"}) {
    const auto wish = read_wish(other, some_domain());
    EXPECT_EQ(wish.status(), Status::kInvalidArgument);
    EXPECT_THAT(wish.error().message, HasSubstr("ibv_pd is of use to transport verbs alone"));
    EXPECT_THAT(wish.error().message, HasSubstr(other));
  }
}

}  // namespace
}  // namespace tally::client
