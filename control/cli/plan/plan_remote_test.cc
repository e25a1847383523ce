// tallyctl plan set and show, with a coordinator that the test plays.
#include "control/cli/plan/plan_remote.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "control/plan/json/machines_json.h"
#include "control/plan/json/plan_json.h"
#include "control/plan/stars/star_planner.h"
#include "tests/support/client/scripted_node.h"
#include "tests/support/control/plan_words.h"
#include "tests/support/net/rpc_test_support.h"

namespace tally::control {
namespace {

using client::refusal;
using client::ScriptedNode;
using nlohmann::json;
using rpc::RpcChannel;
using ::testing::HasSubstr;

constexpr Nanos kTimeout = 5 * kSecond;

// A plan of so many workers, whose names begin so.
std::string plan_text(std::size_t workers, const std::string& name = "m") {
  std::vector<plan::Vertex> machines(workers);
  for (plan::Vertex& machine : machines) {
    machine.name = name + std::to_string(&machine - machines.data());
    machine.in = machine.out = 1e9;
  }
  return plan::write_plan(*plan::plan_star(machines, {.epoch = 12}));
}

class PlanRemote : public testing::Test {
 protected:
  PlanAnswer answer(ScriptedNode& node, std::vector<std::string> words, bool as_json = false) {
    PlanArguments arguments;
    if (auto refused = read_plan_words(std::move(words), arguments)) return *refused;
    auto channel = RpcChannel::connect(node.address(), monotonic_now() + kTimeout).value();
    return answer_remote_plan(channel, arguments, as_json, kTimeout);
  }
  std::string file(const std::string& text) {
    std::string path = directory_ / "plan.json";
    std::ofstream(path) << text;
    return path;
  }
  std::string path(const char* name) { return directory_ / name; }

  rpc::TemporaryDirectory directory_;
};

TEST_F(PlanRemote, SetSendsTheFileInPieces) {
  ScriptedNode node(path("c"), [](const auto&, const auto&) -> json {
    return {{"result", {{"domains", {"all"}}}}};
  });
  const std::string text = plan_text(120);
  ASSERT_GT(text.size(), 50'000U);
  const PlanAnswer set = answer(node, {"set", file(text), "--job", "bert"});
  EXPECT_EQ(set.status, 0) << set.err;
  EXPECT_EQ(set.out, "in force for jobs that form from now on, for job bert: epoch 12\n");
  std::string sent;
  const auto requests = node.requests();
  ASSERT_GT(requests.size(), 2U);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    EXPECT_EQ(requests[i].first, "plan.set");
    EXPECT_EQ(requests[i].second["job"], "bert");
    EXPECT_EQ(requests[i].second["more"], i + 1 < requests.size());
    sent += requests[i].second["text"].get<std::string>();
  }
  EXPECT_EQ(sent, text);
}

TEST_F(PlanRemote, CharactersOfSeveralBytesAreNotDivided) {
  ScriptedNode node(path("c"), [](const auto&, const auto&) -> json {
    return {{"result", {{"domains", {"all"}}}}};
  });
  std::string text, sent, name;
  for (int i = 0; i < 30; ++i) name += "ü";  // most of what there is
  for (const char* before : {"", "m"}) {
    text += plan_text(120, before + name);
    ASSERT_EQ(answer(node, {"set", file(plan_text(120, before + name))}).status, 0);
  }
  for (const auto& request : node.requests()) sent += request.second["text"].get<std::string>();
  EXPECT_EQ(sent, text);
}

TEST_F(PlanRemote, ReportsARefusalOfTheCoordinatorWithTheFile) {
  ScriptedNode node(path("c"), [](const auto&, const auto&) {
    return refusal(Status::kRefused, "no members: \"x\"");
  });
  const std::string plan = file(plan_text(2));
  const PlanAnswer set = answer(node, {"set", plan});
  EXPECT_EQ(set.status, 2);
  EXPECT_EQ(set.err, "tallyctl: " + plan + ": no members: \"x\"\n");
  EXPECT_THAT(answer(node, {"set", file("{}")}).err, HasSubstr("plan.json: fmt: missing"));
  EXPECT_THAT(answer(node, {"set", path("none")}).err, HasSubstr("cannot be read"));
  EXPECT_THAT(answer(node, {"set"}).err, HasSubstr("give a FILE, or --closed-form"));
  EXPECT_EQ(answer(node, {"set", plan, "--closed-form"}).status, 2) << "one or the other";
  EXPECT_EQ(node.requests().size(), 1U);
}

TEST_F(PlanRemote, ClosedFormTakesAPlanBack) {
  ScriptedNode node(path("c"), [](const auto&, const auto&) -> json {
    return {{"result", json::object()}};
  });
  EXPECT_EQ(answer(node, {"set", "--closed-form"}).out,
            "taken back: the plan for all jobs without a plan of their own\n");
  EXPECT_EQ(node.requests().at(0).second["closed_form"], true);
}

TEST_F(PlanRemote, ClosedFormForMeasuredSpeeds) {
  ScriptedNode node(path("c"), [](const auto&, const auto&) -> json {
    return {{"result", json::object()}};
  });
  plan::MachineFile measured;
  measured.machines = {{.name = "a", .in = 4e9, .out = 3e9}, {.name = "b", .in = 1e9, .out = 1e9}};
  measured.pairs = {{0, 1, 1e9}};
  const std::string machines = file(plan::write_machines(measured));
  EXPECT_EQ(answer(node, {"set", "--closed-form", "--machines", machines}).out,
            "in force for all jobs without a plan of their own: the closed form for 2 machines' "
            "measured speeds\n");
  const json sent = node.requests().at(0).second;
  EXPECT_EQ(sent["closed_form"], true);
  measured.pairs.clear();
  EXPECT_EQ(sent["text"], plan::write_machines(measured));
  EXPECT_EQ(answer(node, {"set", "--machines", machines}).status, 2) << "with --closed-form only";
  measured.racks = {{"r", "", 1e9, 1e9}};
  measured.machines[0].rack = "r";
  EXPECT_THAT(
      answer(node, {"set", "--closed-form", "--machines", file(plan::write_machines(measured))})
          .out,
      HasSubstr("the coordinator's own plan for 2 machines' measured speeds and racks"));
  EXPECT_THAT(answer(node, {"set", "--closed-form", "--machines", file("{}")}).err,
              HasSubstr("plan.json: fmt: missing"));
  EXPECT_EQ(node.requests().size(), 2U);
}

TEST_F(PlanRemote, ShowReportsThePlanInForceAndWritesIt) {
  json shown = {
      {"source", "file"},
      {"for", "bert"},
      {"domain", "all"},
      {"jobs_with_own", {"bert"}},
      {"running",
       {{"epoch", 3}, {"plan_epoch", 11}, {"substitutes", {{{"node", "c"}, {"for", {"a", "b"}}}}}}},
      {"text", plan_text(3)}};
  ScriptedNode node(path("c"), [&](const auto&, const auto&) -> json {
    return {{"result", shown}};
  });
  const std::string out = path("out.json");
  const PlanAnswer answered = answer(node, {"show", "--job", "bert", "--out", out});
  EXPECT_EQ(answered.status, 0) << answered.err;
  EXPECT_TRUE(
      answered.out.starts_with("set for job bert: domain all\n"
                               "job bert runs in epoch 3 by a plan of epoch 11\n"
                               "c stands in for a, b there\n"
                               "plan \"star\", epoch 12"))
      << answered.out;
  EXPECT_THAT(answered.out, HasSubstr("tau 1.333 ns per byte"));
  EXPECT_THAT(answered.out, HasSubstr("binds"));
  EXPECT_EQ(node.requests().at(0).second["job"], "bert");
  std::ifstream written(out);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(written), {}), plan_text(3));
  const json report = json::parse(answer(node, {"show"}, true).out);
  EXPECT_EQ(report["source"], "file");
  EXPECT_NEAR(report["domains"][0]["classes"][0]["tau"].get<double>(), 4.0 / 3e9, 1e-12);
  shown["running"]["shown"] = true;
  EXPECT_TRUE(answer(node, {"show", "--job", "bert"})
                  .out.starts_with(
                      "set for job bert: domain all\njob bert runs by it, in epoch 3\nc stands "));
  shown["newer"] = {{"source", "file"}, {"for", ""}, {"domain", "all"}, {"plan_epoch", 13}};
  EXPECT_THAT(answer(node, {"show", "--job", "bert"}).out,
              HasSubstr("c stands in for a, b there\na newer one is set for all jobs without a "
                        "plan of their own: "
                        "epoch 13 (--in-force shows it"));
  EXPECT_EQ(json::parse(answer(node, {"show"}, true).out)["newer"]["plan_epoch"], 13);
  shown["newer"] = {{"source", "closed form"}};
  EXPECT_THAT(answer(node, {"show", "--job", "bert"}).out,
              HasSubstr("in force is another: stars by the closed form"));
  EXPECT_FALSE(node.requests().back().second.contains("in_force"));
  answer(node, {"show", "--job", "bert", "--in-force"});
  EXPECT_EQ(node.requests().back().second["in_force"], true);
  shown["running"] = {{"epoch", 3}, {"source", "file"}, {"plan_epoch", 1ULL << 40}};
  EXPECT_THAT(answer(node, {"show", "--job", "bert", "--in-force"}).out,
              HasSubstr("in epoch 3 by a plan of epoch 1099511627776\n"));
  shown["running"]["plan_epoch"] = 0;
  EXPECT_THAT(answer(node, {"show", "--job", "bert", "--in-force"}).out,
              HasSubstr("in epoch 3 by a plan of epoch 0\n"));
  shown = {{"source", "closed form"}, {"text", plan_text(3)}};
  EXPECT_TRUE(answer(node, {"show"}).out.starts_with("stars by the closed form: nobody has set"));
  shown["source"] = "racks";
  EXPECT_TRUE(
      answer(node, {"show"})
          .out.starts_with("trees that the coordinator has planned for racks: nobody has set"));
  for (const json& wrong : {json(1), json("[]"), json()}) {
    shown["text"] = wrong;
    const PlanAnswer unread = answer(node, {"show"});
    EXPECT_EQ(unread.status, 1);
    EXPECT_THAT(unread.err, HasSubstr("cannot be read"));
  }
}

}  // namespace
}  // namespace tally::control
