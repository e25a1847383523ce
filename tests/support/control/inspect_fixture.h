// For tests of tallyctl plan explain, compare and draw: files, and answers to command lines.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "control/cli/inspect/command.h"
#include "tests/support/control/plan_words.h"
#include "tests/support/net/rpc_test_support.h"

namespace tally::control {

class InspectFixture : public testing::Test {
 protected:
  std::string file(const std::string& name, const std::string& text) {
    std::string path = directory_ / name;
    std::ofstream(path) << text;
    return path;
  }

  // The answer to `tallyctl plan WORDS`.
  static PlanAnswer answer(std::vector<std::string> words, bool as_json = false) {
    CLI::App app("", "tallyctl");
    PlanArguments plan;
    InspectArguments arguments;
    add_inspect(*add_plan(app, plan), arguments);
    if (auto refused = parse_plan_words(app, std::move(words))) return *refused;
    return arguments.verb == InspectVerb::kNone ? answer_plan(plan, as_json)
                                                : answer_inspect(arguments, as_json);
  }

  // The path of a plan that `plan make` makes by these words.
  std::string make(const std::string& name, std::vector<std::string> words) {
    words.insert(words.begin(), "make");
    const PlanAnswer made = answer(std::move(words));
    EXPECT_EQ(made.status, 0) << made.err;
    return file(name, made.out);
  }

  // Stars of equal workers w0, w1, ... and helpers h0, h1, ..., all with NICs of 1 GB/s.
  std::string stars(const std::string& name, int workers, int helpers,
                    const std::string& worker = "w") {
    std::vector<std::string> words;
    for (int i = 0; i < workers; ++i) {
      words.insert(words.end(), {"--worker", fmt::format("{}{}=1GB", worker, i)});
    }
    for (int i = 0; i < helpers; ++i) {
      words.insert(words.end(), {"--helper", fmt::format("h{}=1GB", i)});
    }
    return make(name, words);
  }

  // A file of two racks r1 and r2 of four workers each, m0 to m7, with NICs of 1 GB/s.
  std::string racks(const std::string& name, double speed) {
    nlohmann::json machines = nlohmann::json::array();
    for (int i = 0; i < 8; ++i) {
      machines.push_back({{"name", fmt::format("m{}", i)},
                          {"role", "worker"},
                          {"rack", i < 4 ? "r1" : "r2"},
                          {"nic", 1e9}});
    }
    const nlohmann::json racks = {{{"name", "r1"}, {"speed", speed}},
                                  {{"name", "r2"}, {"speed", speed}}};
    return file(name,
                nlohmann::json{{"fmt", "tally-network/1"}, {"racks", racks}, {"machines", machines}}
                    .dump());
  }

  rpc::TemporaryDirectory directory_;
};

}  // namespace tally::control
