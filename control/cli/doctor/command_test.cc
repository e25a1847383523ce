// Which checks run, the content of a report, and the files below it all.
#include "control/cli/doctor/command.h"

#include <sys/stat.h>

#include "tests/support/control/fake_machine.h"

namespace tally::control::doctor {
namespace {

std::string names_of(const DoctorArguments& arguments) {
  const auto chosen = chosen_checks(arguments);
  if (!chosen) return "error: " + chosen.error().message;
  std::string names;
  for (const Check* check : *chosen) names += std::string(check->name) + " ";
  return names;
}

TEST(ChosenChecks, AllButThePathUnlessOneIsGiven) {
  EXPECT_EQ(chosen_checks({})->size(), all_checks().size() - 1);
  EXPECT_EQ(names_of({}).find("path"), std::string::npos);
  EXPECT_EQ(chosen_checks({.path_to = "h"})->size(), all_checks().size());
}

TEST(ChosenChecks, TheNamedOnesInTheOrderOfAReport) {
  EXPECT_EQ(names_of({.checks = {"tcp", "mtu", "mtu"}}), "mtu tcp ");
  EXPECT_EQ(names_of({.checks = {"mtu"}, .path_to = "h"}), "mtu path ");
  EXPECT_EQ(names_of({.checks = {"path"}, .path_to = "h"}), "path ");
}

TEST(ChosenChecks, AMistakeIsNamedWithItsRemedy) {
  EXPECT_EQ(names_of({.checks = {"hugepage"}}),
            "error: --check hugepage: there is no such check; did you mean \"hugepages\"?; "
            "tallyctl doctor --list shows them");
  EXPECT_EQ(names_of({.checks = {"path"}}), "error: --check path: needs --path HOST too");
}

TEST(Report, HasALineForEachFindingAndOneForItsRemedy) {
  const std::vector<Examined> report = {
      {"mtu", {ok("eth0", "9000 bytes"), problem("eth\x1b[1", "gone", "ip link")}}, {"tcp", {}}};
  EXPECT_EQ(render(report),
            "ok       mtu  eth0: 9000 bytes\n"
            "problem  mtu  eth?[1: gone\n"
            "         -> ip link\n"
            "1 problem, 0 warnings, 0 notes, 1 ok\n");
  const nlohmann::json json = to_json(report);
  EXPECT_EQ(json["problems"], 1);
  EXPECT_EQ(json["findings"].size(), 2u);
  EXPECT_EQ(json["findings"][1]["check"], "mtu");
  EXPECT_EQ(json["findings"][1]["level"], "problem");
  EXPECT_EQ(json["findings"][1]["remedy"], "ip link");
}

TEST(Examine, WhatACheckCannotDealWithIsAFinding) {
  FakeSystem system;
  const Machine machine{Files(), system, {}, {}, {}};
  const Check check{"bad", "", [](const Machine&) -> Findings { throw std::runtime_error("no"); }};
  const Examined examined = examine(check, machine);
  ASSERT_EQ(examined.findings.size(), 1u);
  expect(examined.findings[0], Level::kNote, "unknown (no)");
}

using EmptyMachineTest = MachineTest;

TEST_F(EmptyMachineTest, EveryCheckEndsWithAFindingOfItsOwn) {
  path_to_ = "h";
  system_.paths = std::vector<PathMtu>{{"10.0.0.1", 1500, 1500, ""}};
  for (const Check& check : all_checks()) {
    const Examined examined = examine(check, machine());
    EXPECT_FALSE(examined.findings.empty()) << check.name;
    for (const Finding& finding : examined.findings) {
      EXPECT_NE(finding.level, Level::kProblem) << check.name << ": " << finding.value;
      EXPECT_EQ(finding.what.find("this check"), std::string::npos) << finding.value;
    }
  }
}

TEST_F(EmptyMachineTest, TheRealMachineIsExaminedWithoutAnAccident) {
  ThisSystem system;
  const Machine real{Files(), system, {}, {}, "unix:/there/is/no/node"};
  for (const Check& check : all_checks()) {
    for (const Finding& finding : examine(check, real).findings) {
      EXPECT_NE(finding.what, "this check") << check.name << ": " << finding.value;
      EXPECT_EQ(finding.level != Level::kOk, !finding.remedy.empty()) << finding.what;
    }
  }
}

using FilesTest = MachineTest;

TEST_F(FilesTest, ReportsWhyAFileCannotBeRead) {
  const Files files(directory_.path());
  write("a", "  text \n\n");
  EXPECT_EQ(*files.read("/a"), "text");
  EXPECT_EQ(files.read("/b").status(), Status::kUnavailable);
  EXPECT_EQ(files.read("/b").error().message, "/b: No such file or directory");
  EXPECT_FALSE(files.read("/").ok());
  EXPECT_FALSE(files.number("/a").ok());
  write("n", "42 pages");
  EXPECT_EQ(*files.number("/n"), 42u);
  write("n", "99999999999999999999999");
  EXPECT_FALSE(files.number("/n").ok());
  if (::geteuid() == 0) return;  // who may read everything
  ::chmod((directory_ / "a").c_str(), 0);
  EXPECT_EQ(files.read("/a").status(), Status::kRefused);
}

TEST_F(FilesTest, ListsNumbersInOrder) {
  for (const char* name : {"d/10", "d/9", "d/node1"}) write(name, "");
  const Files files(directory_.path());
  EXPECT_EQ(joined(files.list("/d")), "9, 10, node1");
  EXPECT_TRUE(files.list("/none").empty());
}

TEST(ParseList, TakesRangesAndEndsAtNonsense) {
  EXPECT_EQ(parse_list("0-2,8"), (std::vector<int>{0, 1, 2, 8}));
  EXPECT_EQ(parse_list("3"), (std::vector<int>{3}));
  EXPECT_TRUE(parse_list("").empty());
  EXPECT_TRUE(parse_list("0-99999999").empty());
  EXPECT_EQ(parse_list("1,x"), (std::vector<int>{1}));
  EXPECT_TRUE(parse_list("5-").empty());
}

}  // namespace
}  // namespace tally::control::doctor
