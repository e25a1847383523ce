#include "net/rpc/fault_json.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/timeouts/fault_timeouts.h"

namespace tally::rpc {
namespace {

using nlohmann::json;

TEST(FaultJson, ReadsWhatTheCoordinatorHasSent) {
  json answer = {{"node", 3}};
  put_fault(answer, 25 * kSecond);
  EXPECT_EQ(answer["fault_ms"], 25'000);
  EXPECT_EQ(fault_of(json::parse(answer.dump())), 25 * kSecond);
}

TEST(FaultJson, AnOlderCoordinatorHasTheDefault) {
  for (const char* text :
       {"{}", "7", "null", R"({"fault_ms": "9"})", R"({"fault_ms": -9})", R"({"fault_ms": 1.5})"}) {
    EXPECT_EQ(fault_of(json::parse(text)), 60 * kSecond) << text;
  }
}

TEST(FaultJson, KeepsTheLimitsOfTheConfiguration) {
  EXPECT_EQ(fault_of({{"fault_ms", 0U}}), FaultTimeouts::kLeast);
  EXPECT_EQ(fault_of({{"fault_ms", UINT64_MAX}}), FaultTimeouts::kMost);
}

}  // namespace
}  // namespace tally::rpc
