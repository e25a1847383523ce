// tallyctl plan compare, from its command line to what it prints.
#include "control/cli/inspect/compare_command.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "base/lp/lp.h"
#include "tests/support/control/inspect_fixture.h"

namespace tally::control {
namespace {

using nlohmann::json;
using testing::HasSubstr;

class CompareCommand : public InspectFixture {};

TEST_F(CompareCommand, ShowsTimesBottlenecksAndPlaces) {
  const std::string first = stars("first.json", 3, 0), second = stars("second.json", 3, 1);
  const PlanAnswer answered = answer({"compare", first, second});
  ASSERT_EQ(answered.status, 0) << answered.err;
  EXPECT_THAT(answered.out,
              HasSubstr("first: " + first +
                        ", plan \"star\", epoch 1: 1.333 ns per byte (750 MB/s); w0 -> switch 3 "
                        "binds\nsecond: " +
                        second + ", plan \"star\", epoch 1: 1.2 ns per byte (833.3 MB/s); "));
  EXPECT_THAT(answered.out, HasSubstr("bytes  first, ms  second, ms  second / first\n"));
  EXPECT_THAT(answered.out, HasSubstr("\n   1G       1432        1289           0.900\n"));
  // The switches of the two have different numbers, so their names differ.
  EXPECT_THAT(answered.out, HasSubstr("-1.3333  1.3333       -  100.0%       -  w0 -> switch 3\n"));
}

TEST_F(CompareCommand, FindsNoDifferenceBetweenEqualPlans) {
  const std::string plan = stars("plan.json", 3, 0);
  const PlanAnswer answered = answer({"compare", plan, plan});
  EXPECT_EQ(answered.status, 0) << answered.err;
  EXPECT_THAT(answered.out, HasSubstr("\nevery place carries the same bytes in both\n"));
}

TEST_F(CompareCommand, HasTheSameAsJson) {
  // Names of racks stay, so places are found again.
  const std::string first = make("first.json", {"--network", racks("slow.json", 5e8)});
  const std::string second = make("second.json", {"--network", racks("fast.json", 8e9)});
  const PlanAnswer answered = answer({"compare", first, second, "--bytes", "1MiB"}, true);
  ASSERT_EQ(answered.status, 0) << answered.err;
  const json report = json::parse(answered.out);
  EXPECT_EQ(report["bytes"], 1 << 20);
  EXPECT_EQ(report["first"]["file"], first);
  EXPECT_GT(report["first"]["tau"], report["second"]["tau"]);
  ASSERT_EQ(report["times"].size(), 10u);
  EXPECT_EQ(report["times"][0]["bytes"], 4096);
  EXPECT_EQ(report["times"][9]["bytes"], 1 << 30);
  ASSERT_EQ(report["places"].size(), 20u);
  for (const json& place : report["places"]) {
    EXPECT_TRUE(place["first"].is_object() && place["second"].is_object()) << place;
  }
}

TEST_F(CompareCommand, RefusesPlansForDifferentCollectives) {
  if (!lp::is_available()) GTEST_SKIP() << "this build has no Clp";
  const std::string network = racks("network.json", 2e9);
  const std::string first = make("first.json", {"--network", network});
  const std::string second = make("second.json", {"--network", network, "--objective", "rs-ag"});
  EXPECT_THAT(answer({"compare", first, second}).err,
              HasSubstr(first + " is for the objective \"allreduce\", and " + second +
                        " for \"rs-ag\"; compare plans of one objective"));
  EXPECT_EQ(answer({"compare", second, second}).status, 0);
}

TEST_F(CompareCommand, RefusesWithFilesAndReason) {
  const std::string three = stars("three.json", 3, 0), two = stars("two.json", 2, 0);
  const PlanAnswer answered = answer({"compare", three, two});
  EXPECT_EQ(answered.status, 2);
  EXPECT_EQ(answered.err, "tallyctl: " + three + " and " + two +
                              ": worker \"w2\" is only in the first plan; give plans for the same "
                              "workers\n");
  const std::string none = directory_ / "none";
  EXPECT_EQ(
      answer({"compare", three, none}).err,
      "tallyctl: " + none + ": cannot be read: No such file or directory; give a plan file\n");
  EXPECT_THAT(answer({"compare", three, two, "--domain", "x"}).err,
              HasSubstr(three + ": --domain x: the plan has no such domain"));
  EXPECT_EQ(answer({"compare", three}).status, 2);
}

}  // namespace
}  // namespace tally::control
