// tallyctl plan pipeline, from its command line to what it prints and writes.
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

// The example of docs/pipelines.md: four blocks with large outputs and two with large weights, on
// two servers, of which the second has the faster GPUs.
constexpr const char* kExampleProfile =
    R"({"fmt":"tally-profile/1","model":"tapering","microbatch":8,"types":["t4"],
 "blocks":[
  {"name":"conv0","forward":[0.01],"backward":[0.02],"output":64e6,"stash":64e6,"weights":0.5e6},
  {"name":"conv1","forward":[0.01],"backward":[0.02],"output":32e6,"stash":32e6,"weights":1e6},
  {"name":"conv2","forward":[0.01],"backward":[0.02],"output":16e6,"stash":16e6,"weights":2e6},
  {"name":"conv3","forward":[0.01],"backward":[0.02],"output":8e6,"stash":8e6,"weights":4e6},
  {"name":"fc0","forward":[0.003],"backward":[0.006],"output":0.5e6,"stash":0.5e6,"weights":64e6},
  {"name":"fc1","forward":[0.003],"backward":[0.006],"output":0.1e6,"stash":0.1e6,"weights":16e6}]})";

constexpr const char* kExampleGpus = R"({"fmt":"tally-gpus/1",
 "servers":[
  {"name":"slow","nic":100e6,"inside":1.6e9,"gpus":[{"type":"t4","count":2,"memory":16e9}]},
  {"name":"fast","nic":100e6,"inside":1.6e9,"gpus":[{"type":"t4","speed":2,"count":2,"memory":16e9}]}]})";

class PlanPipeline : public ::testing::Test {
 protected:
  std::string file(const std::string& text, const std::string& name) {
    std::string path = directory_ / name;
    std::ofstream(path) << text;
    return path;
  }

  PlanAnswer answer(std::vector<std::string> more = {}, bool as_json = false) {
    std::vector<std::string> words = {"pipeline", "--profile", file(profile_, "profile.json"),
                                      "--gpus", file(gpus_, "gpus.json")};
    words.insert(words.end(), more.begin(), more.end());
    TrainingArguments arguments;
    if (auto refused = read_training_words(words, arguments)) return *refused;
    return answer_training(arguments, as_json);
  }

  std::string profile_ = kExampleProfile;
  std::string gpus_ = kExampleGpus;
  rpc::TemporaryDirectory directory_;
};

TEST_F(PlanPipeline, PrintsStagesAndHowTheyCompare) {
  const PlanAnswer shown = answer();
  ASSERT_EQ(shown.status, 0) << shown.err;
  EXPECT_EQ(shown.err, "");
  EXPECT_THAT(shown.out, HasSubstr("model tapering: 3 stages, 34.5 ms for each microbatch"));
  EXPECT_THAT(shown.out, HasSubstr("fast/0"));
  EXPECT_THAT(shown.out, HasSubstr("slow/0 slow/1"));
  EXPECT_THAT(shown.out, HasSubstr("one stage of all GPUs takes"));
  EXPECT_THAT(shown.out, HasSubstr("the NIC of slow is busy for 5 ms of each microbatch\n"));
  EXPECT_THAT(shown.out, HasSubstr("orders of the servers tried: 2 (all)"));
}

TEST_F(PlanPipeline, AsJson) {
  const PlanAnswer shown = answer({"--microbatches", "16"}, true);
  ASSERT_EQ(shown.status, 0) << shown.err;
  const auto report = nlohmann::json::parse(shown.out, nullptr, false);
  ASSERT_TRUE(report.is_object());
  EXPECT_NEAR(report["bottleneck"].get<double>(), 0.0345, 1e-9);
  EXPECT_EQ(report["objective"], "bottleneck");
  EXPECT_EQ(report["order"], nlohmann::json({2, 3, 0, 1}));
  ASSERT_EQ(report["stages"].size(), 3u);
  const auto& first = report["stages"][0];
  EXPECT_EQ(first["blocks"], nlohmann::json({0, 2}));
  EXPECT_EQ(first["first_block"], "conv0");
  EXPECT_EQ(first["last_block"], "conv1");
  EXPECT_EQ(first["gpus"][0]["name"], "fast/0");
  EXPECT_EQ(first["in_flight"], 4);
  EXPECT_EQ(first["domain"], "st0");
  EXPECT_EQ(report["busiest_nic"]["server"], "slow");
  EXPECT_NEAR(report["busiest_nic"]["out"].get<double>(), 0.5e6, 1e-3);
  EXPECT_NEAR(report["samples_per_second"].get<double>(), 8 / 0.0345, 1e-6);
}

TEST_F(PlanPipeline, WritesAPlanWithADomainForEachStage) {
  const std::string path = directory_ / "plan.json";
  const PlanAnswer shown = answer({"--out", path, "--epoch", "7"});
  ASSERT_EQ(shown.status, 0) << shown.err;
  const auto plan = plan::read_plan(*read_file(path, "a plan"));
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  ASSERT_TRUE(plan::validate(*plan, {}).ok());
  EXPECT_TRUE(plan::check_served(*plan).ok());
  EXPECT_EQ(plan->epoch, 7u);
  ASSERT_EQ(plan->domains.size(), 3u);
  EXPECT_EQ(plan->domains[0].name, "st0");
  EXPECT_THAT(plan->domains[0].workers, ::testing::ElementsAre(1));
  EXPECT_THAT(plan->domains[2].workers, ::testing::ElementsAre(0));
  ASSERT_TRUE(plan->pipeline.has_value());
  EXPECT_THAT(plan->pipeline->order, ::testing::ElementsAre(2, 3, 0, 1));
  EXPECT_NEAR(plan->pipeline->bottleneck, 0.0345, 1e-9);
}

TEST_F(PlanPipeline, DomainsHaveTheNamesOfTheJobs) {
  const std::string path = directory_ / "plan.json";
  const PlanAnswer shown = answer({"--out", path, "--job-prefix", "torch-gpt-"}, true);
  ASSERT_EQ(shown.status, 0) << shown.err;
  const auto report = nlohmann::json::parse(shown.out);
  EXPECT_EQ(report["stages"][1]["domain"], "torch-gpt-st1");
  const auto plan = plan::read_plan(*read_file(path, "a plan"));
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  EXPECT_EQ(plan->domains[1].name, "torch-gpt-st1");
  EXPECT_EQ(plan->pipeline->stages[1].domain, "torch-gpt-st1");
  const PlanAnswer refused = answer({"--job-prefix", std::string(129, 'a')});
  EXPECT_EQ(refused.status, 2);
  EXPECT_THAT(refused.err, HasSubstr("must have at most 128 bytes"));
}

TEST_F(PlanPipeline, TakesTheObjectiveAndTheCostModelFromOptions) {
  const PlanAnswer iteration =
      answer({"--objective", "iteration", "--microbatches", "32", "--overlap"}, true);
  ASSERT_EQ(iteration.status, 0) << iteration.err;
  const auto report = nlohmann::json::parse(iteration.out);
  const auto steady =
      nlohmann::json::parse(answer({"--microbatches", "32", "--overlap"}, true).out);
  EXPECT_EQ(report["objective"], "iteration");
  EXPECT_LE(report["iteration"].get<double>(), steady["iteration"].get<double>() * 1.001);
  EXPECT_EQ(answer({"--versions", "all", "--copies", "3", "--accumulate", "4", "--round-robin",
                    "--no-recompute", "--merge-blocks", "4"})
                .status,
            0);
}

TEST_F(PlanPipeline, MakesStagesOfEqualReplicas) {
  const PlanAnswer shown = answer({"--replicas", "2"}, true);
  ASSERT_EQ(shown.status, 0) << shown.err;
  const auto report = nlohmann::json::parse(shown.out);
  ASSERT_EQ(report["stages"].size(), 2u);
  EXPECT_EQ(report["stages"][0]["gpus"].size(), 2u);
  const PlanAnswer refused = answer({"--replicas", "3"});
  EXPECT_EQ(refused.status, 2);
  EXPECT_THAT(refused.err, HasSubstr("replicas = 3: must divide the number of GPUs"));
  EXPECT_EQ(answer({"--replicas", "0"}).status, 2);
}

TEST_F(PlanPipeline, RefusesDamagedFilesWithPlaceAndRemedy) {
  profile_.replace(profile_.find("0.003"), 5, "-1");
  const PlanAnswer profile = answer();
  EXPECT_EQ(profile.status, 2);
  EXPECT_EQ(profile.out, "");
  EXPECT_THAT(profile.err, HasSubstr("profile.json: blocks[4].forward[0] = -1: must be seconds"));
  profile_ = kExampleProfile;
  gpus_.replace(gpus_.find("\"t4\""), 4, "\"a\\u001b\"");
  const PlanAnswer gpus = answer();
  EXPECT_EQ(gpus.status, 2);
  EXPECT_THAT(gpus.err, HasSubstr("gpus.json: servers[0].gpus[0].type = "));
  EXPECT_EQ(gpus.err.find('\x1b'), std::string::npos);
  gpus_ = "[";
  EXPECT_THAT(answer().err, HasSubstr("gpus.json: ends early, at line 1, column 1"));
}

TEST_F(PlanPipeline, RefusesAModelThatDoesNotFit) {
  gpus_ = kExampleGpus;
  for (std::size_t at = 0; (at = gpus_.find("16e9", at)) != std::string::npos;) {
    gpus_.replace(at, 4, "32e6");
  }
  const PlanAnswer shown = answer();
  EXPECT_EQ(shown.status, 2);
  EXPECT_THAT(shown.err, HasSubstr("no division fits the memories of the GPUs"));
}

TEST_F(PlanPipeline, RefusesWrongOptions) {
  EXPECT_EQ(answer({"--objective", "speed"}).status, 2);
  EXPECT_EQ(answer({"--microbatches", "0"}).status, 2);
  EXPECT_EQ(answer({"--copies", "nan"}).status, 2);
  EXPECT_EQ(answer({"--versions", "3"}).status, 2);
  EXPECT_EQ(answer({"--out", "/nowhere/plan.json"}).status, kFailed);
}

TEST_F(PlanPipeline, RefusesToReplaceItsFiles) {
  for (const std::string input : {"profile", "gpus"}) {
    const std::string path = directory_ / (input + ".json");
    const PlanAnswer shown = answer({"--out", path});
    EXPECT_EQ(shown.status, 2);
    EXPECT_EQ(shown.err, "tallyctl: --out " + path + ": is the file of --" + input +
                             ", which would be lost; give another\n");
  }
}

}  // namespace
}  // namespace tally::control
