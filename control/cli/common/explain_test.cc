#include "control/cli/common/explain.h"

#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <string>
#include <vector>

namespace tally::control {
namespace {

// The message of a program with the commands status and plan {make, show} for these arguments.
std::string message_for(std::vector<std::string> words) {
  CLI::App app("A program.", "tool");
  double seconds = 1;
  std::string out;
  app.add_option("--timeout", seconds, "seconds");
  bool as_json = false;
  app.add_flag("--json", as_json, "as JSON");
  app.require_subcommand(1);
  app.fallthrough();
  app.add_subcommand("status", "what runs");
  auto* plan = app.add_subcommand("plan", "plans");
  plan->require_subcommand(1);
  plan->add_subcommand("make", "one")->add_option("--machines", out, "a file");
  plan->add_subcommand("show", "one");
  std::reverse(words.begin(), words.end());
  try {
    app.parse(std::move(words));
  } catch (const CLI::ParseError& error) {
    return explanation(app, error, "tool");
  }
  return "parsed";
}

TEST(Explain, SuggestsTheCommandThatWasMeant) {
  EXPECT_EQ(
      message_for({"statsu"}),
      "tool: tool has no command \"statsu\"; did you mean \"status\"?\ntool --help says more\n");
  EXPECT_EQ(message_for({"plan", "shwo"}),
            "tool: tool plan has no command \"shwo\"; did you mean \"show\"?\n"
            "tool plan --help says more\n");
  EXPECT_EQ(message_for({"everything"}),
            "tool: tool has no command \"everything\": give one of status, plan\n"
            "tool --help says more\n");
}

TEST(Explain, SuggestsTheFlagThatWasMeant) {
  EXPECT_EQ(message_for({"--jsn", "status"}),
            "tool: tool status has no flag --jsn; did you mean \"--json\"?\n"
            "tool status --help says more\n");
  EXPECT_EQ(message_for({"plan", "make", "--machine=x"}),
            "tool: tool plan make has no flag --machine; did you mean \"--machines\"?\n"
            "tool plan make --help says more\n");
  EXPECT_EQ(message_for({"status", "-x"}),
            "tool: tool status has no flag -x\ntool status --help says more\n");
}

TEST(Explain, ReportsOtherMistakes) {
  EXPECT_EQ(message_for({}), "tool: tool needs a command: status, plan\ntool --help says more\n");
  EXPECT_EQ(message_for({"status", "bert"}),
            "tool: tool status takes no \"bert\"\ntool status --help says more\n");
  EXPECT_NE(message_for({"status", "--timeout", "soon"}).find("--timeout"), std::string::npos);
  EXPECT_EQ(message_for({"status"}), "parsed");
}

}  // namespace
}  // namespace tally::control
