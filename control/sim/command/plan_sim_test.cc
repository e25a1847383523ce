// tallyctl plan sim, from its command line to what it prints.
#include "control/sim/command/plan_sim.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "control/plan/json/plan_json.h"
#include "control/sim/command/sim_command.h"
#include "tests/support/control/plan_words.h"
#include "tests/support/control/test_plans.h"
#include "tests/support/temporary_directory.h"

namespace tally::simulator {
namespace {

using nlohmann::json;

class PlanSim : public ::testing::Test {
 protected:
  std::string file(const std::string& text) {
    std::string path = directory_ / "plan.json";
    std::ofstream(path) << text;
    return path;
  }

  static control::PlanAnswer answer(std::vector<std::string> words, bool as_json = false) {
    CLI::App app("", "tallyctl");
    control::PlanArguments plan;
    PlanSimArguments arguments;
    add_plan_sim(*control::add_plan(app, plan), arguments);
    words.insert(words.begin(), "sim");
    if (auto refused = control::parse_plan_words(app, std::move(words))) return *refused;
    EXPECT_TRUE(arguments.is_chosen);
    return answer_plan_sim(arguments.options, as_json);
  }

  test::TemporaryDirectory directory_;
};

TEST_F(PlanSim, PrintsTheTableOfTallyPerf) {
  const std::string path = file(plan::write_plan(plan::small_plan()));
  const control::PlanAnswer answered =
      answer({path, "--bytes", "4M,16M", "--baseline", "ring", "--order", "fifo"});
  ASSERT_EQ(answered.status, 0) << answered.err;
  EXPECT_EQ(answered.err, "");
  SimOptions options;
  options.plan = path;
  options.bytes = {4 << 20, 16 << 20};
  options.baselines = {"ring"};
  options.order = "fifo";
  const auto report = simulate_file(options);
  ASSERT_TRUE(report.ok()) << report.error().message;
  EXPECT_EQ(answered.out, render(*report));
  const control::PlanAnswer as_json =
      answer({path, "--bytes", "4M,16M", "--baseline", "ring", "--order", "fifo"}, true);
  EXPECT_EQ(json::parse(as_json.out), *report);
}

TEST_F(PlanSim, NamesTheBaselinesThatItLeavesOut) {
  plan::Plan plan = plan::small_plan();
  plan.network = plan::star_network(plan::equal_machines(3, 0, 1e9));
  plan.domains[0].classes = {
      {std::nullopt, 65536, 0, {{plan::kWeightUnit, {plan::kIsRoot, 0, 0}, {}}}}};
  const control::PlanAnswer answered =
      answer({file(plan::write_plan(plan)), "--bytes", "1M", "--baseline", "all"});
  EXPECT_EQ(answered.status, 0);
  EXPECT_NE(answered.err.find("tallyctl: left out: "), std::string::npos) << answered.err;
}

TEST_F(PlanSim, RefusesPlansForReduceScatters) {
  plan::Plan plan = plan::small_plan();
  plan.domains[0].classes.erase(plan.domains[0].classes.begin());
  plan.domains[0].classes[0].rs_ag = true;
  const std::string path = file(plan::write_plan(plan));
  const control::PlanAnswer refused = answer({path});
  EXPECT_EQ(refused.status, 2);
  EXPECT_NE(refused.err.find("all-reduces are simulated: take a plan for these, or --no-plan"),
            std::string::npos)
      << refused.err;
  EXPECT_EQ(answer({path, "--no-plan", "--baseline", "ring"}).status, 0);
}

TEST_F(PlanSim, RefusesWithFileAndReason) {
  const std::string none = directory_ / "none";
  const control::PlanAnswer missing = answer({none});
  EXPECT_EQ(missing.status, 2);
  EXPECT_EQ(missing.err, "tallyctl: " + none +
                             ": cannot be read: No such file or directory; give a plan file\n");
  const std::string damaged = file("{}");
  EXPECT_EQ(answer({damaged}).err, "tallyctl: " + damaged + ": fmt: missing; must be given\n");
  const std::string path = file(plan::write_plan(plan::small_plan()));
  EXPECT_EQ(answer({path, "--pace", "0.8"}).err, "--pace requires --rules nodes");
  EXPECT_EQ(answer({path, "--slow", "x=2"}).err,
            "tallyctl: --slow x: the plan has no such machine; give a name, or a number from 0 to "
            "3\n");
}

}  // namespace
}  // namespace tally::simulator
