#include "net/rpc/terms.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace tally::rpc {
namespace {

using nlohmann::json;

json with_term(std::uint64_t term) {
  return {{"term", term}};
}

TEST(Terms, RefusesATermBelowTheHighest) {
  HighestTerm highest;
  EXPECT_TRUE(highest.accept(with_term(7)).ok());
  EXPECT_TRUE(highest.accept(with_term(7)).ok());
  EXPECT_TRUE(highest.accept(with_term(9)).ok());
  const Outcome refused = highest.accept(with_term(8));
  EXPECT_EQ(refused.status(), Status::kUnavailable);
  EXPECT_THAT(refused.error().message, ::testing::HasSubstr("term 8 has ended: one with term 9"));
  EXPECT_EQ(highest.value(), 9U) << "a refused message changes nothing";
}

TEST(Terms, AMessageWithoutATermCountsAsZero) {
  HighestTerm highest;
  for (const char* text : {"{}", "3", "null", R"({"term": "9"})", R"({"term": -9})"}) {
    EXPECT_TRUE(highest.accept(json::parse(text)).ok()) << text;
  }
  EXPECT_TRUE(highest.accept(with_term(1)).ok());
  EXPECT_FALSE(highest.accept(json::object()).ok());
}

}  // namespace
}  // namespace tally::rpc
