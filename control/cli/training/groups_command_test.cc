// tallyctl plan groups, from its command line to what it prints and writes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "control/cli/plan/plan_files.h"
#include "control/cli/training/command.h"
#include "control/plan/json/plan_json.h"
#include "control/plan/json/served.h"
#include "control/plan/model/validate.h"
#include "tests/support/control/training_words.h"
#include "tests/support/net/rpc_test_support.h"

namespace tally::control {
namespace {

using ::testing::HasSubstr;

// The example of docs/pipelines.md: four fast workers and four of half their speed.
constexpr const char* kExampleSteps =
    R"({"fmt":"tally-steps/1","bytes":100e6,"batch":32,"nic":400e6,
 "server":{"name":"s","speed":100e6},
 "workers":[{"name":"f0","step":1},{"name":"f1","step":1},{"name":"f2","step":1},{"name":"f3","step":1},
  {"name":"s0","step":2},{"name":"s1","step":2},{"name":"s2","step":2},{"name":"s3","step":2}]})";

class PlanGroups : public ::testing::Test {
 protected:
  std::string file(const std::string& text) {
    std::string path = directory_ / "steps.json";
    std::ofstream(path) << text;
    return path;
  }

  PlanAnswer answer(std::vector<std::string> more = {}, bool as_json = false) {
    std::vector<std::string> words = {"groups", "--steps", file(steps_)};
    words.insert(words.end(), more.begin(), more.end());
    TrainingArguments arguments;
    if (auto refused = read_training_words(words, arguments)) return *refused;
    return answer_training(arguments, as_json);
  }

  std::string steps_ = kExampleSteps;
  rpc::TemporaryDirectory directory_;
};

TEST_F(PlanGroups, PrintsGroupsAndHowTheyCompare) {
  const PlanAnswer shown = answer();
  ASSERT_EQ(shown.status, 0) << shown.err;
  EXPECT_EQ(shown.err, "");
  EXPECT_THAT(shown.out, HasSubstr("f0 f1"));
  EXPECT_THAT(
      shown.out,
      HasSubstr("synchronous training: 105 samples/s, its workers wait for 25% of the time"));
  EXPECT_THAT(shown.out, HasSubstr("times as fast as synchronous"));
}

TEST_F(PlanGroups, AsJson) {
  const PlanAnswer shown = answer({"--max-staleness", "2", "--max-local-steps", "2"}, true);
  ASSERT_EQ(shown.status, 0) << shown.err;
  const auto report = nlohmann::json::parse(shown.out, nullptr, false);
  ASSERT_TRUE(report.is_object());
  EXPECT_GE(report["groups"].size(), 2u);
  EXPECT_LE(report["groups"].size(), 3u);
  EXPECT_EQ(report["mean_staleness"], report["groups"].size() - 1);
  EXPECT_EQ(report["groups"][0]["group"], "dp0");
  EXPECT_EQ(report["groups"][0]["workers"][0], "f0");
  EXPECT_GT(report["throughput"].get<double>(), report["synchronous"].get<double>());
  EXPECT_LE(report["server_load"].get<double>(), 1 + 1e-9);
}

TEST_F(PlanGroups, WritesAPlanWithADomainForEachGroup) {
  const std::string path = directory_ / "plan.json";
  const PlanAnswer shown = answer({"--out", path, "--max-staleness", "3"});
  ASSERT_EQ(shown.status, 0) << shown.err;
  const auto plan = plan::read_plan(*read_file(path, "a plan"));
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  ASSERT_TRUE(plan::validate(*plan, {}).ok());
  EXPECT_TRUE(plan::check_served(*plan).ok());
  ASSERT_TRUE(plan->async.has_value());
  EXPECT_EQ(plan->async->root, 8u);
  EXPECT_EQ(plan->async->max_staleness, 3u);
  EXPECT_EQ(plan->async->groups.size(), plan->domains.size());
  EXPECT_EQ(plan->async->local_steps.size(), plan->domains.size());
  EXPECT_EQ(plan->network.vertices[8].name, "s");
}

TEST_F(PlanGroups, DomainsHaveTheNamesOfTheJobs) {
  const std::string path = directory_ / "plan.json";
  const PlanAnswer shown = answer({"--out", path, "--job-prefix", "torch-"}, true);
  ASSERT_EQ(shown.status, 0) << shown.err;
  EXPECT_EQ(nlohmann::json::parse(shown.out)["groups"][0]["group"], "torch-dp0");
  const auto plan = plan::read_plan(*read_file(path, "a plan"));
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  EXPECT_EQ(plan->domains[0].name, "torch-dp0");
  EXPECT_EQ(plan->async->groups[0], "torch-dp0");
}

TEST_F(PlanGroups, RefusesDamagedFilesWithPlaceAndRemedy) {
  steps_.replace(steps_.find("\"f1\""), 4, "\"f0\"");
  const PlanAnswer shown = answer();
  EXPECT_EQ(shown.status, 2);
  EXPECT_EQ(shown.out, "");
  EXPECT_THAT(
      shown.err,
      HasSubstr("steps.json: workers[1].name = \"f0\": must be a name that no other machine "
                "has"));
  steps_ = "{";
  EXPECT_THAT(answer().err, HasSubstr("steps.json: ends early, at line 1, column 1"));
}

TEST_F(PlanGroups, RefusesWrongOptions) {
  EXPECT_EQ(answer({"--max-local-steps", "0"}).status, 2);
  EXPECT_EQ(answer({"--max-staleness", "-1"}).status, 2);
  EXPECT_EQ(answer({"--out", "/nowhere/plan.json"}).status, kFailed);
}

TEST_F(PlanGroups, RefusesToReplaceItsFile) {
  const std::string steps = file(steps_);
  const PlanAnswer shown = answer({"--out", steps});
  EXPECT_EQ(shown.status, 2);
  EXPECT_EQ(shown.err, "tallyctl: --out " + steps +
                           ": is the file of --steps, which would be lost; give another\n");
}

}  // namespace
}  // namespace tally::control
