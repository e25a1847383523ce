#include "net/rpc/params.h"

#include <gtest/gtest.h>

namespace tally::rpc {
namespace {

using nlohmann::json;

TEST(Params, ReadsWhatIsThere) {
  const json given = {{"rank", 3}, {"job", "j"}, {"last", true}};
  Params params(given);
  EXPECT_EQ(params.number("rank", 0, 10), 3u);
  EXPECT_EQ(params.text("job", 8), "j");
  EXPECT_TRUE(params.flag_or("last", false));
  EXPECT_EQ(params.number_or("deadline", 1, 9, 5), 5u);
  EXPECT_EQ(params.text_or("token", 8, "none"), "none");
  EXPECT_FALSE(params.finish());
}

std::string number_error(const json& given) {
  Params params(given);
  params.number("rank", 0, 10);
  const auto error = params.finish();
  return error ? error->message : "";
}

TEST(Params, RefusesWhatIsNoNumberInRange) {
  EXPECT_EQ(number_error({{"rank", 10}}), "");
  EXPECT_EQ(number_error({{"rank", 11}}),
            "parameter \"rank\" is 11: must be an integer from 0 to 10");
  EXPECT_EQ(number_error({{"rank", -1}}),
            "parameter \"rank\" is -1: must be an integer from 0 to 10");
  EXPECT_EQ(number_error({{"rank", 1.5}}),
            "parameter \"rank\" is 1.5: must be an integer from 0 to 10");
  EXPECT_EQ(number_error({{"rank", "3"}}),
            "parameter \"rank\" is \"3\": must be an integer from 0 to 10");
  EXPECT_EQ(number_error(json::object()), "parameter \"rank\" is missing");
  EXPECT_EQ(number_error({{"rank", 1}, {"rnak", 2}}),
            "parameter \"rnak\" is unknown: this method takes rank");
}

TEST(Params, NeverShowsATextThatMayBeASecret) {
  const json given = {{"token", "a secret that is too long"}};
  Params params(given);
  params.text("token", 4);
  EXPECT_EQ(params.finish()->message.find("secret"), std::string::npos);
}

TEST(Params, TheFirstErrorCounts) {
  const json given = {{"a", "x"}, {"b", "y"}};
  Params params(given);
  params.number("a", 0, 1);
  params.flag_or("b", false);
  const auto error = params.finish();
  ASSERT_TRUE(error);
  EXPECT_EQ(error->status, Status::kInvalidArgument);
  EXPECT_NE(error->message.find("\"a\""), std::string::npos);
}

}  // namespace
}  // namespace tally::rpc
