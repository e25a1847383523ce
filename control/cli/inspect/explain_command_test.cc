// tallyctl plan explain, from its command line to what it prints.
#include "control/cli/inspect/explain_command.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "base/lp/lp.h"
#include "tests/support/control/inspect_fixture.h"

namespace tally::control {
namespace {

using nlohmann::json;
using testing::HasSubstr;

class ExplainCommand : public InspectFixture {};

TEST_F(ExplainCommand, NamesWhatLimitsStarsAndWhatHelps) {
  const PlanAnswer answered = answer({"explain", stars("plan.json", 8, 0)});
  ASSERT_EQ(answered.status, 0) << answered.err;
  EXPECT_EQ(answered.out,
            "plan \"star\", domain \"all\": 8 workers, 0 helpers, 1 switch\n"
            "268435456 bytes: 470 ms; 1.75 ns per byte (571.4 MB/s)\n"
            "\n"
            "bottleneck: links of machines, 16 of 16 full; w0 -> switch 8 carries 1.75 bytes for "
            "each byte of an operation, at 1 GB/s\n"
            "places             all  full  busiest    mean  the busiest\n"
            "links of machines   16    16   100.0%  100.0%  w0 -> switch 8\n"
            "\n"
            "load            capacity  bytes/byte    busy\n"
            "w0 -> switch 8    1 GB/s      1.7500  100.0%\n"
            "switch 8 -> w0    1 GB/s      1.7500  100.0%\n"
            "w1 -> switch 8    1 GB/s      1.7500  100.0%\n"
            "switch 8 -> w1    1 GB/s      1.7500  100.0%\n"
            "w2 -> switch 8    1 GB/s      1.7500  100.0%\n"
            "switch 8 -> w2    1 GB/s      1.7500  100.0%\n"
            "w3 -> switch 8    1 GB/s      1.7500  100.0%\n"
            "switch 8 -> w3    1 GB/s      1.7500  100.0%\n"
            "w4 -> switch 8    1 GB/s      1.7500  100.0%\n"
            "switch 8 -> w4    1 GB/s      1.7500  100.0%\n"
            "and 6 more: --all\n"
            "\n"
            "lower bound, by a plan that was made anew: 1.75 ns per byte (571.4 MB/s); this plan "
            "takes 0.00% more\n"
            "it comes from: links of machines 100.0%\n"
            "of the bound  place\n"
            "        6.2%  w0 -> switch 8\n"
            "        6.2%  switch 8 -> w0\n"
            "        6.2%  w1 -> switch 8\n"
            "        6.2%  switch 8 -> w1\n"
            "        6.2%  w2 -> switch 8\n"
            "        6.2%  switch 8 -> w2\n"
            "        6.2%  w3 -> switch 8\n"
            "        6.2%  switch 8 -> w3\n"
            "        6.2%  w4 -> switch 8\n"
            "        6.2%  switch 8 -> w4\n"
            "and 6 more: --all\n"
            "\n"
            "planned anew, this network takes 1.75 ns per byte (571.4 MB/s)\n"
            "planned anew with one change, it takes\n"
            "less time  ns per byte  change                              from    to\n"
            "    50.0%        0.875  all 8 NICs: w0, w1, ...             1 GB/s  2 GB/s\n"
            "    11.1%        1.556  NIC of w0, or one of the 8 like it  1 GB/s  2 GB/s\n"
            "     8.6%          1.6  one more helper at switch 8         -       1 GB/s\n");
}

TEST_F(ExplainCommand, NamesTheLinksOfRacksAndTheirSpeed) {
  if (!lp::is_available()) GTEST_SKIP() << "this build has no Clp";
  const std::string plan = make("plan.json", {"--network", racks("network.json", 5e8)});
  const PlanAnswer answered = answer({"explain", plan}, true);
  ASSERT_EQ(answered.status, 0) << answered.err;
  const json report = json::parse(answered.out);
  EXPECT_NEAR(report["tau"].get<double>(), 2e-9, 0.05e-9);
  EXPECT_EQ(report["kinds"][0]["kind"], "links between switches");
  EXPECT_EQ(report["binds"], "r1 -> core") << "and not a NIC that is full too";
  EXPECT_EQ(report["bound"]["from"], "the plan");
  EXPECT_EQ(report["bound"]["kinds"][0]["kind"], "links between switches");
  EXPECT_NEAR(report["bound"]["kinds"][0]["share"].get<double>(), 1, 0.01);
  const json& best = report["changes"]["list"][0];
  EXPECT_EQ(best["change"], "links");
  EXPECT_EQ(best["places"], (json{"r1 - core", "r2 - core"}));
  EXPECT_EQ(best["from"], (json{5e8, 5e8}));
  EXPECT_EQ(best["to"], (json{6.25e8, 6.25e8}));
  EXPECT_NEAR(best["tau"].get<double>(), 1.75e-9, 0.004e-9);
  EXPECT_NEAR(best["gain"].get<double>(), 0.125, 0.003);
  EXPECT_THAT(answer({"explain", plan}).out,
              HasSubstr("    12.5%         1.75  both links: r1 - core, r2 - core  "));
}

TEST_F(ExplainCommand, ExplainsAPlanOnAnotherNetwork) {
  // Stars put 4 bytes on each link of a rack of half the speed of a NIC.
  const PlanAnswer answered = answer({"explain", stars("plan.json", 8, 0, "m"), "--network",
                                      racks("racks.json", 5e8), "--no-changes"},
                                     true);
  ASSERT_EQ(answered.status, 0) << answered.err;
  const json report = json::parse(answered.out);
  EXPECT_EQ(report["kinds"][0]["kind"], "links between switches");
  EXPECT_NEAR(report["tau"].get<double>(), 8e-9, 1e-12);
  EXPECT_TRUE(report["bound"].is_null()) << "the plan's bound is about its own network";
  EXPECT_FALSE(report.contains("changes"));
}

TEST_F(ExplainCommand, ReportsThatANewPlanIsFaster) {
  if (!lp::is_available()) GTEST_SKIP() << "this build has no Clp";
  // Trees that sum in racks first take a quarter of the time.
  const PlanAnswer answered =
      answer({"explain", stars("plan.json", 8, 0, "m"), "--network", racks("racks.json", 5e8)});
  ASSERT_EQ(answered.status, 0) << answered.err;
  EXPECT_THAT(answered.out,
              HasSubstr("bottleneck: links between switches, 4 of 4 full; r1 -> core carries 4 "
                        "bytes for each byte of an operation, at 500 MB/s\n"));
  EXPECT_THAT(answered.out, HasSubstr("that is 75.0% less time than this plan: make a new one\n"));
}

TEST_F(ExplainCommand, TakesTheSpeedsOfItsOptions) {
  const std::string plan = stars("plan.json", 8, 0);
  const auto changes = [&](std::vector<std::string> words) {
    words.insert(words.begin(), {"explain", plan});
    return json::parse(answer(words, true).out)["changes"]["list"];
  };
  // A helper of 2 GB/s: 14 / (8 + 0.75 x 2). NICs of 4 GB/s.
  const json list = changes({"--helper", "2GB", "--faster", "4"});
  EXPECT_EQ(list[0]["change"], "nics");
  EXPECT_EQ(list[0]["factor"], 4.0);
  EXPECT_NEAR(list[0]["tau"].get<double>(), 14.0 / 32e9, 1e-12);
  EXPECT_EQ(list[2]["change"], "helper");
  EXPECT_EQ(list[2]["to"], (json{2e9, 2e9}));
  EXPECT_NEAR(list[2]["tau"].get<double>(), 14 / 9.5e9, 2e-12);
}

// Else its changes would be compared with plans whose results go back the same way.
TEST_F(ExplainCommand, PlansAnewWithResultsThatGoAnotherWayWhereThoseOfThePlanDo) {
  if (!lp::is_available()) GTEST_SKIP() << "this build has no Clp";
  const std::string network =
      file("network.json", R"({"fmt":"tally-network/1","racks":[{"name":"r"}],
    "machines":[{"name":"a","role":"worker","rack":"r","out":1e9,"in":2e9},
                {"name":"b","role":"worker","rack":"r","out":2e9,"in":1e9},
                {"name":"c","role":"worker","rack":"r","out":2e9,"in":1e9},
                {"name":"d","role":"worker","rack":"r","out":2e9,"in":1e9}]})");
  const auto anew = [&](std::vector<std::string> more) {
    std::vector<std::string> words = {"--network", network};
    words.insert(words.end(), more.begin(), more.end());
    return answer({"explain", make("plan.json", words)}).out;
  };
  EXPECT_THAT(anew({"--any-way"}), HasSubstr("planned anew, this network takes 1.2 ns per byte"));
  EXPECT_THAT(anew({}), HasSubstr("planned anew, this network takes 1.5 ns per byte"));
}

TEST_F(ExplainCommand, TriesNoChangesForReduceScattersAndAllGathers) {
  if (!lp::is_available()) GTEST_SKIP() << "this build has no Clp";
  const std::string plan =
      make("plan.json", {"--network", racks("network.json", 1e9), "--objective", "rs-ag"});
  const PlanAnswer answered = answer({"explain", plan});
  ASSERT_EQ(answered.status, 0) << answered.err;
  EXPECT_THAT(answered.out, HasSubstr("plan \"rs-ag-cg\""));
  EXPECT_THAT(answered.out, HasSubstr("\ntimes are those of one reduce-scatter or all-gather, "));
  EXPECT_THAT(answered.out, HasSubstr("tried for all-reduces only"));
}

TEST_F(ExplainCommand, OneWorkerHasNoBottleneck) {
  const PlanAnswer answered = answer({"explain", stars("plan.json", 1, 1)});
  EXPECT_EQ(answered.status, 0) << answered.err;
  EXPECT_EQ(answered.out,
            "plan \"star\", domain \"all\": 1 worker, 1 helper, 1 switch\n"
            "268435456 bytes: 0 ms; 0: nothing travels\n");
}

TEST_F(ExplainCommand, RefusesWithFileAndReason) {
  const auto refusal_of = [&](std::vector<std::string> words) {
    words.insert(words.begin(), "explain");
    const PlanAnswer answered = answer(words);
    EXPECT_EQ(answered.status, 2);
    EXPECT_EQ(answered.out, "");
    return answered.err;
  };
  const std::string plan = stars("plan.json", 2, 0), none = directory_ / "none";
  EXPECT_EQ(refusal_of({none}), "tallyctl: " + none +
                                    ": cannot be read: No such file or directory; give a plan "
                                    "file\n");
  const std::string damaged = file("damaged.json", "{\"fmt\":\"gsplan/1\",");
  EXPECT_THAT(refusal_of({damaged}), HasSubstr("tallyctl: " + damaged + ": "));
  EXPECT_EQ(refusal_of({plan, "--network", none}),
            "tallyctl: --network " + none +
                ": cannot be read: No such file or directory; give a file of a network\n");
  const std::string other = racks("network.json", 1e9);
  EXPECT_EQ(refusal_of({plan, "--network", other}),
            "tallyctl: " + plan + " on --network " + other +
                ": nodes[0].addr = \"w0\": the network has no such machine; give the network of "
                "the plan's machines\n");
  EXPECT_EQ(
      refusal_of({plan, "--domain", "x"}),
      "tallyctl: " + plan + ": --domain x: the plan has no such domain; the first is \"all\"\n");
  EXPECT_EQ(refusal_of({plan, "--bytes", "0"}),
            "tallyctl: --bytes 0: must be a size like 256MiB\n");
  EXPECT_EQ(refusal_of({plan, "--helper", "fast"}),
            "tallyctl: --helper \"fast\" is not a speed like 100Gbit or 12.5GB\n");
  EXPECT_EQ(refusal_of({plan, "--helper", "1bit"}),
            "tallyctl: --helper 1bit: must be from 1 to 1e+15 bytes per second\n");
  EXPECT_THAT(refusal_of({plan, "--helper-sum", "1GB"}), HasSubstr("--helper"));
  EXPECT_THAT(refusal_of({plan, "--faster", "1"}), HasSubstr("--faster"));
  EXPECT_EQ(refusal_of({plan, "--no-changes", "--helper", "2GB"}),
            "--helper excludes --no-changes");
  EXPECT_EQ(refusal_of({plan, "--no-changes", "--faster", "4"}), "--faster excludes --no-changes");
}

}  // namespace
}  // namespace tally::control
