#include "control/config/store_address.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "control/config/config.h"

namespace tally::control {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string store_error(std::string_view store) {
  const auto endpoints = parse_store(store);
  return endpoints ? "" : endpoints.error().message;
}

TEST(StoreAddress, ReadsEndpoints) {
  const auto endpoints = parse_store("etcd:https://10.0.0.1:2379/, https://etcd-2:2379");
  ASSERT_TRUE(endpoints.ok()) << endpoints.error().message;
  EXPECT_THAT(*endpoints, ElementsAre("https://10.0.0.1:2379", "https://etcd-2:2379"));
}

TEST(StoreAddress, RefusesHttpToOtherHosts) {
  for (const char* here : {"127.0.0.1:2379", "localhost:2379", "[::1]:2379", "127.9.9.9:1"}) {
    EXPECT_EQ(store_error(std::string("etcd:http://") + here), "");
  }
  for (const char* there : {"10.0.0.1:2379", "127.0.0.1.example.org:2379", "localhost.org:1"}) {
    EXPECT_THAT(store_error(std::string("etcd:http://") + there), HasSubstr("write https://"));
  }
}

TEST(StoreAddress, RefusesOtherTexts) {
  EXPECT_THAT(store_error("https://10.0.0.1:2379"), HasSubstr("write etcd:"));
  EXPECT_THAT(store_error("etcd:"), HasSubstr("no address"));
  EXPECT_THAT(store_error("etcd:10.0.0.1:2379"), HasSubstr("write https://"));
  EXPECT_THAT(store_error("etcd:https://10.0.0.1"), HasSubstr("write https://host:port"));
  EXPECT_THAT(store_error("etcd:https://user:word@h:2379"), HasSubstr("more than a host"));
  EXPECT_THAT(store_error("etcd:http://127.0.0.1:2379@evil:1"), HasSubstr("more than a host"));
  EXPECT_THAT(store_error("etcd:https://h:2379/v2"), HasSubstr("more than a host"));
}

std::string config_error(const std::string& cluster) {
  const auto config = parse_config("[cluster]\n" + cluster, "t.toml", {});
  return config ? "" : config.error().message;
}

TEST(StoreAddress, AConfigurationWithAStoreIsComplete) {
  const std::string store = "store = \"etcd:https://10.0.0.1:2379\"\n";
  const std::string list = "coordinators = \"tcp:10.0.0.1:7733\"\n";
  EXPECT_THAT(config_error(store), HasSubstr("cluster.coordinators is not"));
  EXPECT_EQ(config_error(store + list), "");
  EXPECT_THAT(config_error(store + list + "store_user = \"tally\"\n"),
              HasSubstr("belong together"));
  EXPECT_THAT(config_error("store = \"memory\"\n" + list), HasSubstr("cluster.store = \"memory\""));
}

}  // namespace
}  // namespace tally::control
