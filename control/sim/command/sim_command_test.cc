#include "control/sim/command/sim_command.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "control/plan/json/plan_json.h"
#include "tests/support/control/test_plans.h"
#include "tests/support/full_stdout.h"
#include "tests/support/temporary_directory.h"

namespace tally::simulator {
namespace {

using nlohmann::json;

// The result of `call` with the arguments of `tally-perf sim WORDS`.
template <class Call>
auto with_words(std::vector<std::string> words, Call call) {
  words.insert(words.begin(), {"tally-perf", "sim"});
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  return call(static_cast<int>(argv.size()), argv.data());
}

std::variant<SimOptions, int> parse(std::vector<std::string> words) {
  return with_words(std::move(words), parse_sim_options);
}

using Ended = std::pair<int, std::string>;  // of a run: the exit status, and stderr

Ended run(std::vector<std::string> words) {
  ::testing::internal::CaptureStderr();
  const int status = with_words(std::move(words), run_sim);
  return {status, ::testing::internal::GetCapturedStderr()};
}

json report_of(const SimOptions& options) {
  auto report = simulate_all(plan::small_plan(), options);
  if (!report) throw std::runtime_error(report.error().message);
  return *report;
}

std::string message_of(const SimOptions& options) {
  const auto report = simulate_all(plan::small_plan(), options);
  return report ? "" : report.error().message;
}

TEST(SimCommand, ReadsItsFlags) {
  const auto parsed = parse({"--plan", "p.json", "--bytes", "1M,2G", "--baseline", "ring,ps",
                             "--slow", "a=b=2.5", "--slow", "c=3", "--fail", "d@0.5", "--order",
                             "fifo", "--rules", "nodes", "--shard-window", "8M"});
  ASSERT_TRUE(std::holds_alternative<SimOptions>(parsed));
  const auto& options = std::get<SimOptions>(parsed);
  EXPECT_EQ(options.bytes, (std::vector<std::uint64_t>{1 << 20, std::uint64_t{2} << 30}));
  EXPECT_EQ(options.baselines, (std::vector<std::string>{"ring", "ps"}));
  ASSERT_EQ(options.slow.size(), 2);
  EXPECT_EQ(options.slow[0].machine, "a=b");
  EXPECT_EQ(options.slow[0].factor, 2.5);
  EXPECT_EQ(options.failures[0].machine, "d");
  EXPECT_EQ(options.failures[0].at, 0.5);
  EXPECT_EQ(options.shard_window, 8 << 20);
}

TEST(SimCommand, RefusesWrongFlags) {
  for (const std::vector<std::string>& words :
       std::vector<std::vector<std::string>>{{},
                                             {"--plan", "p", "--bytes", "0"},
                                             {"--plan", "p", "--bytes", "4MB"},
                                             {"--plan", "p", "--slow", "a"},
                                             {"--plan", "p", "--slow", "a=nan"},
                                             {"--plan", "p", "--slow", "a=0"},
                                             {"--plan", "p", "--fail", "@1"},
                                             {"--plan", "p", "--fail", "a@-1"},
                                             {"--plan", "p", "--hop-us", "nan"},
                                             {"--plan", "p", "--order", "lifo"},
                                             {"--plan", "p", "--chunk", "0"},
                                             {"--plan", "p", "--seed", "-1"},
                                             {"--plan", "p", "--seed", "18446744073709551616"},
                                             {"--plan", "p", "--window", "65"}}) {
    ::testing::internal::CaptureStderr();
    const auto parsed = parse(words);
    EXPECT_NE(::testing::internal::GetCapturedStderr(), "");
    ASSERT_TRUE(std::holds_alternative<int>(parsed)) << words.size();
    EXPECT_EQ(std::get<int>(parsed), 2);
  }
}

TEST(SimCommand, RefusesFlagsOfNodesForIdealRules) {
  for (const std::string flag : {"--window", "--shard-window", "--pace"}) {
    EXPECT_EQ(run({"--plan", "p", flag, "1"}),
              (Ended{2, "tally-perf sim: " + flag +
                            " requires --rules nodes\ntally-perf sim --help says more\n"}));
    EXPECT_TRUE(
        std::holds_alternative<SimOptions>(parse({"--plan", "p", flag, "1", "--rules", "nodes"})));
  }
}

TEST(SimCommand, HelpNamesEachBaseline) {
  ::testing::internal::CaptureStdout();
  const auto parsed = parse({"--help"});
  const std::string help = ::testing::internal::GetCapturedStdout();
  EXPECT_EQ(std::get<int>(parsed), 0);
  for (const Baseline& one : baselines()) {
    EXPECT_NE(help.find(one.name), std::string::npos) << one.name;
  }
}

TEST(SimCommand, HasARowForEachWorkAndSize) {
  SimOptions options;
  options.bytes = {4 << 20, 16 << 20};
  options.baselines = {"all"};
  const json report = report_of(options);
  ASSERT_EQ(report.at("rows").size(), 2 * (1 + baselines().size()));
  for (const json& row : report.at("rows")) {
    EXPECT_GE(row.at("ratio").get<double>(), 1 - 1e-9) << row.at("work");
    EXPECT_GT(row.at("loads").size(), 0U) << row.at("work");
  }
  EXPECT_EQ(report.at("rows")[0].at("trees"), 2);
  const std::string table = render(report);
  EXPECT_EQ(std::count(table.begin(), table.end(), '\n'), 1 + 2 * (1 + baselines().size()));
  EXPECT_NE(table.find("helper 3"), std::string::npos);
}

TEST(SimCommand, EachOrderGivesOtherTimes) {
  std::set<double> times;
  for (const char* order : {"oldest", "fifo", "fair"}) {
    SimOptions options;
    options.bytes = {4 << 20};
    options.chunk = 64 << 10;
    options.order = order;
    times.insert(report_of(options)["rows"][0]["seconds"].get<double>());
  }
  EXPECT_EQ(times.size(), 3U);
}

TEST(SimCommand, ErrorsNameTheFlagAndTheRemedy) {
  SimOptions options;
  options.slow = {{"nobody", 2}};
  EXPECT_EQ(message_of(options),
            "--slow nobody: the plan has no such machine; give a name, or a number from 0 to 3");
  options.slow = {{"switch 4", 2}};
  EXPECT_EQ(message_of(options),
            "--slow switch 4: is a switch, and no machine; give a name, or a number from 0 to 3");
  options.slow = {{"10.0.0.1:7000", 2}, {"3", 2}};
  EXPECT_EQ(message_of(options), "");
  options.slow = {{"helper 3", 2}, {"3", 3}};
  EXPECT_EQ(message_of(options), "--slow 3: the machine has a factor already; give one");
  options.slow.clear();
  options.domain = "other";
  EXPECT_EQ(message_of(options),
            "--domain other: the plan has no such domain; the first is \"all\"");
  options.domain.clear();
  options.baselines = {"rong"};
  EXPECT_EQ(message_of(options),
            "--baseline rong: there is no such baseline; give some of ring, halving-doubling, "
            "double-binary-tree, hierarchical-ring, forestcoll, ps, ps-sharded, ps-colocated, "
            "byteps, byteps-hash, or all");
  options.baselines.clear();
  options.plan_left_out = true;
  EXPECT_NE(message_of(options).find("nothing to simulate"), std::string::npos);
  options.plan_left_out = false;
  options.chunk = 1;
  EXPECT_NE(message_of(options).find("give a larger --chunk"), std::string::npos);
  options.chunk = std::uint64_t{2} << 30;
  EXPECT_EQ(message_of(options), "--chunk 2GiB: at most 1GiB");
}

TEST(SimCommand, RefusesToReplaceThePlan) {
  test::TemporaryDirectory directory;
  const std::string plan = directory / "plan.json";
  std::ofstream(plan) << plan::write_plan(plan::small_plan());
  EXPECT_EQ(run({"--plan", plan, "--json", plan}),
            (Ended{2, "tally-perf sim: --json " + plan +
                          ": is the file of --plan, which would be lost; give another\n"}));
}

TEST(SimCommand, ReportsAFullDiskUnderStdout) {
  test::TemporaryDirectory directory;
  const std::string plan = directory / "plan.json";
  std::ofstream(plan) << plan::write_plan(plan::small_plan());
  const Ended full{1, "tally-perf sim: stdout: cannot be written: No space left on device\n"};
  const test::StdoutTo stdout_of_the_test = test::full_stdout();
  EXPECT_EQ(run({"--plan", plan}), full);
  EXPECT_EQ(run({"--plan", plan, "--json", "-"}), full);
}

TEST(SimCommand, AFailureIsMarkedInTheTable) {
  SimOptions options;
  options.failures = {{"helper 3", 0.01}};
  options.repair_s = 0.5;
  const json report = report_of(options);
  EXPECT_TRUE(report.at("rows")[0].at("repaired").get<bool>());
  EXPECT_GT(report.at("rows")[0].at("seconds").get<double>(), 0.51);
  EXPECT_NE(render(report).find('*'), std::string::npos);
}

}  // namespace
}  // namespace tally::simulator
