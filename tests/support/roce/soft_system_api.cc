// A program that links this file has a soft adapter in place of libibverbs. At its end it prints
// what the cable has done.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdio>

#include "tests/support/roce/soft_adapter.h"

namespace tally {
namespace {

// A cable with faults that met none would prove nothing.
class CableReport : public ::testing::Environment {
 public:
  void TearDown() override {
    const testing::Cable& cable = testing::test_cable();
    const testing::CableCounters& seen = cable.counters();
    const testing::CableFaults& faults = cable.faults();
    fmt::print("cable, seed {}: {}\n", faults.seed, testing::to_text(seen));
    std::fflush(stdout);
    const auto sent = static_cast<double>(seen.sent.load());
    const auto expect = [sent](double chance, const auto& met, const char* what) {
      // With fewer expected faults, none may be an accident.
      constexpr double kSure = 20;
      EXPECT_TRUE(sent * chance < kSure || met.load() > 0) << "none were " << what;
    };
    expect(faults.loss, seen.lost, "lost");
    expect(faults.twice, seen.doubled, "doubled");
    expect(faults.swap, seen.swapped, "swapped");
    expect(faults.damage, seen.refused, "damaged and refused");
    EXPECT_EQ(seen.no_room.load(), 0U);
  }
};

[[maybe_unused]] const auto* const kReport = ::testing::AddGlobalTestEnvironment(new CableReport());

}  // namespace

namespace transport::verbs {

Result<Api*> system_api() {
  // Never destroyed, because sessions may end as late as the process.
  static Api* const adapter = new testing::SoftAdapter(testing::test_cable());
  return adapter;
}

}  // namespace transport::verbs
}  // namespace tally
