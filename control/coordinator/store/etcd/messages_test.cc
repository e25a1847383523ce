#include "control/coordinator/store/etcd/messages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace tally::control::etcd {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const json kHeader = {{"revision", "7"}};

TEST(EtcdMessages, MissingFieldsAreDefaults) {
  const auto range = parse_range({{"header", kHeader}});
  ASSERT_TRUE(range.ok());
  EXPECT_THAT(range->values, IsEmpty());
  EXPECT_FALSE(range->more);
  const auto transaction = parse_transaction({{"header", kHeader}});
  ASSERT_TRUE(transaction.ok());
  EXPECT_FALSE(transaction->succeeded) << "a transaction that fails has no such field";
  EXPECT_EQ(transaction->revision, 7U);
  const auto dead = parse_time_to_live({{"result", {{"header", kHeader}, {"ID", "5"}}}});
  ASSERT_TRUE(dead.ok());
  EXPECT_EQ(*dead, 0) << "a lease that has ended has no TTL";
}

TEST(EtcdMessages, NumbersAreTextsOrNumbers) {
  EXPECT_EQ(*parse_time_to_live({{"header", kHeader}, {"ID", "5"}, {"TTL", "2"}}), 2);
  EXPECT_EQ(*parse_time_to_live({{"header", kHeader}, {"ID", "5"}, {"TTL", 2}}), 2);
  const json value = {{"key", "YQ=="},
                      {"value", "/+8="},
                      {"create_revision", "9007199254740993"},
                      {"lease", "9223372036854775807"}};
  const auto range =
      parse_range({{"header", kHeader}, {"kvs", json::array({value})}, {"more", true}});
  ASSERT_TRUE(range.ok());
  EXPECT_TRUE(range->more);
  EXPECT_EQ(range->values[0].key, "a");
  EXPECT_EQ(range->values[0].value, "\xff\xef");
  EXPECT_EQ(range->values[0].create_revision, 9007199254740993U);
  EXPECT_EQ(range->values[0].lease, INT64_MAX);
}

TEST(EtcdMessages, RefusesUnreadableAnswers) {
  const json no_header = json::object();
  EXPECT_FALSE(parse_range(no_header).ok());
  EXPECT_FALSE(parse_transaction(no_header).ok());
  EXPECT_FALSE(parse_time_to_live(no_header).ok());
  EXPECT_FALSE(parse_range(json::array()).ok());
  EXPECT_FALSE(parse_range({{"header", {{"revision", "7x"}}}}).ok());
  EXPECT_FALSE(parse_range({{"header", kHeader}, {"kvs", 3}}).ok());
  EXPECT_FALSE(parse_range({{"header", kHeader}, {"kvs", json::array({3})}}).ok());
  EXPECT_FALSE(
      parse_range({{"header", kHeader}, {"kvs", json::array({{{"key", "not base64!"}}})}}).ok());
  EXPECT_FALSE(parse_transaction({{"header", kHeader}, {"succeeded", "yes"}}).ok());
  EXPECT_FALSE(parse_transaction({{"header", kHeader}, {"responses", json::array({3})}}).ok());
  EXPECT_FALSE(parse_time_to_live({{"result", 3}}).ok());
  EXPECT_FALSE(parse_time_to_live({{"header", kHeader}, {"TTL", "-1"}}).ok());
}

TEST(EtcdMessages, AConditionHasTheFieldOfItsTarget) {
  const json condition = created_at("k", 12);
  EXPECT_EQ(condition["target"], "CREATE");
  EXPECT_EQ(condition["create_revision"], "12");
  EXPECT_FALSE(condition.contains("version") || condition.contains("mod_revision"));
}

TEST(EtcdMessages, TemporaryFailuresAreTriedAgain) {
  const std::string changed =
      R"({"error":"etcdserver: leader changed","message":"etcdserver: leader changed","code":14})";
  EXPECT_TRUE(parse_failure(503, changed).is_temporary());
  EXPECT_TRUE(parse_failure(502, "<html>bad gateway</html>").is_temporary());
  const auto stream =
      parse_failure(200, R"({"error":{"grpc_code":14,"http_code":503,"message":"no leader"}})");
  EXPECT_TRUE(stream.is_temporary());
  EXPECT_THAT(stream.message, HasSubstr("no leader"));
  const auto refused = parse_failure(400, R"({"error":"etcdserver: permission denied","code":7})");
  EXPECT_FALSE(refused.is_temporary() || refused.needs_token());
  EXPECT_TRUE(
      parse_failure(401, R"({"error":"etcdserver: invalid auth token","code":16})").needs_token());
  EXPECT_TRUE(
      parse_failure(400, R"({"error":"etcdserver: user name is empty","code":3})").needs_token());
  EXPECT_LT(parse_failure(400, std::string(100'000, 'x')).message.size(), 1000U);
}

}  // namespace
}  // namespace tally::control::etcd
