#include "base/debug_steps.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <string>

namespace tally {
namespace {

TEST(DebugSteps, TheTableNamesEveryStepOnceInOrder) {
  for (std::size_t i = 0; i < kDebugSteps.size(); ++i) {
    EXPECT_EQ(static_cast<std::size_t>(kDebugSteps[i].step), i) << kDebugSteps[i].name;
  }
  EXPECT_EQ(kDebugSteps.back().step, DebugStep::kClientBeforeClose) << "the last one is missing";
}

TEST(DebugSteps, ABadValueIsRefusedWithTheNames) {
  for (const char* text :
       {"", "node.plaecd:stop", "node.placed", "node.placed:halt", "node.placed:stop:0",
        "node.placed:stop:x", "node.placed:stop:3x", "node.placed:stop:99999999999999999999"}) {
    const auto parsed = parse_debug_step(text);
    ASSERT_FALSE(parsed) << text;
    EXPECT_NE(parsed.error().message.find("TALLY_DEBUG_STEP=\"" + std::string(text)),
              std::string::npos);
    for (const DebugStepInfo& info : kDebugSteps) {
      EXPECT_NE(parsed.error().message.find(info.name), std::string::npos) << info.name;
    }
  }
}

TEST(DebugSteps, ActsAtTheNthTimeAndNeverAgain) {
  ASSERT_TRUE(parse_debug_step("node.placed:kill:3"));
  for (int i = 0; i < 5; ++i) debug_steps::reach(DebugStep::kNodeStoring);
  debug_steps::reach(DebugStep::kNodePlaced);
  debug_steps::reach(DebugStep::kNodePlaced);
  EXPECT_EXIT(debug_steps::reach(DebugStep::kNodePlaced), ::testing::KilledBySignal(SIGKILL), "");
}

TEST(DebugSteps, OffAStepDoesNothing) {
  ASSERT_TRUE(parse_debug_step("node.placed:kill"));
  ASSERT_FALSE(debug_steps::on);
  debug_step(DebugStep::kNodePlaced);
}

}  // namespace
}  // namespace tally
