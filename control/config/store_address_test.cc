#include "control/config/store_address.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "control/config/config.h"

namespace tally::control {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

std::string store_error(std::string_view store) {
  const auto endpoints = parse_store(store);
  return endpoints ? "" : endpoints.error().message;
}

std::string config_error(const std::string& cluster) {
  const auto config = parse_config("[cluster]\n" + cluster, "t.toml", {});
  return config ? "" : config.error().message;
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
  EXPECT_THAT(store_error("etcd:https://h:70000"), HasSubstr("no port from 1 to 65535"));
}

TEST(StoreAddress, ErrorsNameTheAddressByItsPlaceAndShowNoPassword) {
  for (const std::string wrong :
       {"https://tally:secret@h:2379", "http://tally:secret@h:2379", "tally:secret@h:2379",
        "https://h/secret", "https://secret", "http://secret:2379"}) {
    const std::string error = config_error("store = \"etcd:https://h:2379," + wrong + "\"\n");
    EXPECT_THAT(error, HasSubstr("cluster.store: address 2: "));
    EXPECT_THAT(error, Not(HasSubstr("secret"))) << wrong;
  }
  EXPECT_THAT(config_error("store = \"secret\"\n"), Not(HasSubstr("secret")));
  const std::string big(1 << 16, 'x');
  EXPECT_LT(config_error("store = \"etcd:https://" + big + "\"\n").size(), 300U);
}

TEST(StoreAddress, AConfigurationWithAStoreIsComplete) {
  const std::string store = "store = \"etcd:https://10.0.0.1:2379\"\n";
  const std::string list = "coordinators = \"tcp:10.0.0.1:7733\"\n";
  EXPECT_THAT(config_error(store), HasSubstr("cluster.coordinators is not"));
  EXPECT_EQ(config_error(store + list), "");
  EXPECT_THAT(config_error(store + list + "store_user = \"tally\"\n"),
              HasSubstr("belong together"));
  EXPECT_THAT(config_error("store = \"memory\"\n" + list), HasSubstr("cluster.store: write etcd:"));
}

}  // namespace
}  // namespace tally::control
