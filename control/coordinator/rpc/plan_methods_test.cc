// plan.set and plan.show, asked as a server would ask them.
#include "control/coordinator/rpc/plan_methods.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "control/plan/json/machines_json.h"
#include "control/plan/json/plan_json.h"
#include "control/plan/model/validate.h"
#include "control/plan/stars/star_planner.h"
#include "tests/support/control/service_fixture.h"
#include "tests/support/control/test_plans.h"

namespace tally::control {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

// Worker "w" and helper "a"; a star at the helper. Domains with these names.
std::string plan_file(std::vector<std::string> domains = {"all"}, const char* helper = "a") {
  plan::Plan made;
  made.epoch = 9;
  made.method = "by hand";
  made.network = plan::star_network({plan::machine(plan::Role::kWorker, 1e9, "w"),
                                     plan::machine(plan::Role::kHelper, 1e9, helper)});
  for (const std::string& name : domains) {
    plan::Domain domain;
    domain.name = name;
    domain.workers = {0};
    domain.classes = {{{}, 65536, 0, {{65536, {1, -1}, {}}}}};
    made.domains.push_back(domain);
  }
  return plan::write_plan(made);
}

class PlanMethodsTest : public ServiceTest {
 protected:
  PlanMethodsTest() { ask(1, "cluster.join", node("a")); }
  std::shared_ptr<Answer> set(json params) { return ask(7, "plan.set", std::move(params)); }
  json show(const char* job = "") { return ask(8, "plan.show", {{"job", job}})->result(); }
};

TEST_F(PlanMethodsTest, ShowsTheClosedFormWithoutAPlan) {
  const json shown = show();
  EXPECT_EQ(shown["source"], "closed form");
  EXPECT_FALSE(shown.contains("running"));
  const auto plan = plan::read_plan(shown["text"].get<std::string>());
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  EXPECT_TRUE(plan::validate(*plan, {}).ok());
  service_.closed(1);
  EXPECT_THAT(ask(8, "plan.show")->error(), HasSubstr("ask the coordinator of a cluster"));
}

TEST_F(PlanMethodsTest, ShowsAndUsesThePlanThatIsSet) {
  ASSERT_EQ(set({{"text", plan_file()}})->error(), "");
  EXPECT_EQ(show()["source"], "file");
  EXPECT_EQ(show()["for"], "");
  EXPECT_EQ(show()["text"], plan_file());
  const auto news = ask(1, "cluster.next");
  ask(2, "job.open", rank(0));
  const json placement = news->result()["placements"][0];
  EXPECT_EQ(placement["plan_epoch"], 9);
  EXPECT_FALSE(placement.contains("vertices")) << "stars need no words";
  EXPECT_EQ(show("train")["running"]["plan_epoch"], 9);
  ASSERT_EQ(set({{"closed_form", true}})->error(), "");
  EXPECT_EQ(show()["source"], "closed form");
}

TEST_F(PlanMethodsTest, ShowsAJobsPlanToItsOwnerAlone) {
  others_[8] = tally::testing::local_peer(1000);
  others_[9] = tally::testing::local_peer(1001);
  ask(8, "job.open", rank(0));
  EXPECT_EQ(ask(8, "plan.show", {{"job", "train"}})->error(), "");
  for (const char* job : {"train", "none", ""}) {
    EXPECT_EQ(ask(9, "plan.show", {{"job", job}})->error(),
              "plan.show is for operators and for the owner of the job");
  }
  EXPECT_EQ(ask(10, "plan.show", {{"job", "train"}})->error(), "") << "an operator";
}

TEST_F(PlanMethodsTest, ReportsWhichNodesReplaceWhich) {
  ask(3, "cluster.join", node("b"));
  ASSERT_EQ(set({{"text", plan_file()}})->error(), "");
  ASSERT_EQ(ask(7, "cluster.drain", {{"node", "a"}})->error(), "");
  const auto news = ask(3, "cluster.next");
  ask(2, "job.open", rank(0));
  EXPECT_EQ(news->result()["placements"][0]["stands_in_for"], json::array({"a"}));
  EXPECT_EQ(show("train")["running"]["substitutes"],
            json::parse(R"([{"node": "b", "for": ["a"]}])"));
  const json nodes = ask(8, "cluster.nodes")->result();
  EXPECT_EQ(nodes[0]["stands_in_for"], json::array());
  EXPECT_EQ(nodes[1]["stands_in_for"], json::array({"a"}));
}

TEST_F(PlanMethodsTest, ShowsTheRunningPlanOfAJobAndWhetherANewerOneIsSet) {
  ask(2, "job.open", rank(0));
  json shown = show("train");
  EXPECT_EQ(shown["source"], "closed form");
  EXPECT_EQ(shown["running"]["shown"], true);
  EXPECT_FALSE(shown.contains("newer"));
  const std::string stars = shown["text"];
  ASSERT_EQ(set({{"text", plan_file()}})->error(), "");
  shown = show("train");
  EXPECT_EQ(shown["text"], stars);
  EXPECT_EQ(shown["source"], "closed form");
  EXPECT_EQ(shown["newer"],
            (json{{"source", "file"}, {"for", ""}, {"domain", "all"}, {"plan_epoch", 9}}));
  shown = ask(8, "plan.show", {{"job", "train"}, {"in_force", true}})->result();
  EXPECT_EQ(shown["text"], plan_file());
  EXPECT_FALSE(shown["running"].contains("shown"));
  EXPECT_EQ(show("other")["text"], plan_file());

  ask(3, "job.open", changed(rank(0), "job", "later"));
  ASSERT_EQ(set({{"closed_form", true}})->error(), "");
  shown = show("later");
  EXPECT_EQ(shown["text"], plan_file());
  EXPECT_EQ(shown["for"], "");
  EXPECT_EQ(shown["newer"], (json{{"source", "closed form"}}));
  EXPECT_FALSE(show("train").contains("newer")) << "it is what the job runs by";
  ask(4, "cluster.join", node("b"));
  EXPECT_EQ(show("train")["newer"]["source"], "closed form") << "for the nodes that there are now";
}

TEST_F(PlanMethodsTest, TheClosedFormUsesMeasuredSpeeds) {
  ask(2, "cluster.join", node("b"));
  plan::MachineFile file;
  file.machines = {{.name = "a", .role = plan::Role::kHelper, .in = 4e9, .out = 3e9},
                   {.name = "b", .role = plan::Role::kHelper, .in = 1e9, .out = 1e9}};
  const auto weights = [&] {
    const auto plan = plan::read_plan(show()["text"].get<std::string>()).value();
    std::vector<std::uint32_t> of_trees;
    for (const auto& tree : plan.domains[0].classes[0].trees) of_trees.push_back(tree.weight);
    return of_trees;
  };
  const auto use = [&] {
    return set({{"closed_form", true}, {"text", plan::write_machines(file)}})->error();
  };
  ASSERT_EQ(use(), "");
  EXPECT_THAT(weights(), ElementsAre(49152, 16384)) << "the slower of each one's directions";
  service_.closed(1);
  ask(1, "cluster.join", node("a"));
  EXPECT_THAT(weights(), UnorderedElementsAre(49152, 16384)) << "it has left, and come again";
  file.machines[1].name = "c";
  EXPECT_THAT(use(), HasSubstr("no member \"c\""));
  EXPECT_THAT(set({{"closed_form", true}, {"text", "{}"}})->error(), HasSubstr("fmt"));
  EXPECT_THAT(weights(), UnorderedElementsAre(49152, 16384)) << "as it was";
  ASSERT_EQ(set({{"closed_form", true}})->error(), "");
  EXPECT_THAT(weights(), ElementsAre(32768, 32768));
}

TEST_F(PlanMethodsTest, AFileOfMachinesGivesTheirRacks) {
  plan::MachineFile file;
  file.machines = {{.name = "a", .role = plan::Role::kHelper, .in = 1e9, .out = 1e9, .rack = "r"}};
  file.racks = {{"r", "", 2e9, 3e9}};
  const auto use = [&] {
    return set({{"closed_form", true}, {"text", plan::write_machines(file)}})->error();
  };
  ASSERT_EQ(use(), "");
  const Rack& known = store_.members().begin()->second.known_rack();
  EXPECT_EQ(known.name, "r");
  EXPECT_EQ(known.down, 3'000'000'000U);
  EXPECT_EQ(ask(8, "cluster.nodes")->result()[0]["rack"], "r");
  file.switches = {{"top", "", 0, 0}};
  file.racks[0].to = "top";
  EXPECT_THAT(use(), HasSubstr("rack \"r\" is below \"top\""));
  ASSERT_EQ(set({{"closed_form", true}})->error(), "");
  EXPECT_EQ(ask(8, "cluster.nodes")->result()[0]["rack"], "");
}

TEST_F(PlanMethodsTest, ALongFileMayBeSentInPieces) {
  const std::string text = plan_file();
  ASSERT_EQ(set({{"text", text.substr(0, 100)}, {"more", true}})->result()["bytes"], 100);
  EXPECT_EQ(show()["source"], "closed form");
  ASSERT_EQ(set({{"text", text.substr(100)}, {"job", "bert"}})->error(), "");
  EXPECT_EQ(show()["source"], "closed form");
  EXPECT_EQ(show()["jobs_with_own"], json::array({"bert"}));
  EXPECT_EQ(show("bert")["text"], text);
  // What was left unfinished is forgotten with its connection.
  set({{"text", text.substr(0, 100)}, {"more", true}});
  service_.closed(7);
  EXPECT_THAT(set({{"text", text.substr(100)}})->error(), HasSubstr("not JSON"));
  std::string error;
  for (std::size_t sent = 0; sent <= plan::kServedBytes && error.empty(); sent += 60 << 10) {
    error = set({{"text", std::string(60 << 10, ' ')}, {"more", true}})->error();
  }
  EXPECT_THAT(error, HasSubstr("more than 2097152 bytes"));
}

TEST_F(PlanMethodsTest, ADomainGoesToTheJobOfItsNameOrIsChosen) {
  ASSERT_EQ(set({{"text", plan_file({"x", "y"})}})->error(), "");
  EXPECT_EQ(show()["source"], "closed form");
  EXPECT_EQ(show("x")["domain"], "x");
  EXPECT_EQ(show("y")["domain"], "y");
  EXPECT_THAT(set({{"text", plan_file({"x", "y"})}, {"job", "z"}})->error(),
              HasSubstr("has 2 domains: say which one job \"z\" shall have"));
  ASSERT_EQ(set({{"text", plan_file({"x", "y"})}, {"job", "z"}, {"domain", "y"}})->error(), "");
  EXPECT_EQ(show("z")["domain"], "y");
  EXPECT_THAT(set({{"closed_form", true}, {"job", "zz"}})->error(),
              HasSubstr("no job \"zz\" runs here"));
  EXPECT_THAT(set({{"closed_form", true}, {"job", "zz"}})->error(),
              HasSubstr("with plans of their own: \"x\", \"y\", \"z\""));
  EXPECT_EQ(set({{"closed_form", true}, {"job", "z"}})->error(), "");
  EXPECT_EQ(show("z")["source"], "closed form");
  EXPECT_THAT(set({{"text", plan_file()}, {"domain", "other"}})->error(),
              HasSubstr("no domain \"other\""));
}

TEST_F(PlanMethodsTest, RefusesAFileWithMoreDomainsThanFit) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i <= kMaxPlans; ++i) names.push_back("job" + std::to_string(i));
  EXPECT_THAT(set({{"text", plan_file(names)}})->error(),
              HasSubstr("0 plans are set, and 64 at most are kept"));
  EXPECT_EQ(show()["jobs_with_own"], json::array());
  names.pop_back();
  EXPECT_EQ(set({{"text", plan_file(names)}})->error(), "");
  EXPECT_EQ(set({{"text", plan_file(names)}})->error(), "") << "in place of those";
  EXPECT_THAT(set({{"text", plan_file()}})->error(), HasSubstr("64 plans are set"));
}

TEST_F(PlanMethodsTest, ReportsWhatIsWrong) {
  EXPECT_THAT(set({{"text", "[]"}})->error(), HasSubstr("must be an object"));
  EXPECT_THAT(set({{"text", plan_file({"all"}, "b")}})->error(), HasSubstr("no members: \"b\""));
  std::string bad = plan_file();
  bad.replace(bad.find("[1,-1]"), 6, "[1,-2]");
  EXPECT_NE(set({{"text", bad}})->error(), "");
  EXPECT_THAT(set({{"colour", 1}})->error(), HasSubstr("unknown"));
  EXPECT_THAT(ask(7, "plan.bake")->error(), HasSubstr("no method \"plan.bake\""));
  EXPECT_EQ(show()["source"], "closed form");
}

}  // namespace
}  // namespace tally::control
