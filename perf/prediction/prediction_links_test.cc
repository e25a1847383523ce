// What a plan's links make of a prediction: racks with an parent connection, machines with several
// links, and what is said where the plan does not know where the job is.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "control/plan/json/plan_json.h"
#include "control/plan/model/load.h"
#include "control/plan/model/tree.h"
#include "perf/prediction/prediction.h"

namespace tally::perf {
namespace {

using nlohmann::json;
using plan::VertexId;

constexpr double kSpeed = 1e9;
constexpr VertexId kWorkers = 6;  // three in each rack
constexpr VertexId kRack0 = 6, kRack1 = 7, kCore = 8;

void join(plan::Network& network, VertexId a, VertexId b, double capacity) {
  network.links.push_back({a, b, capacity});
  network.links.push_back({b, a, capacity});
}

plan::Vertex machine(std::string name, double speed = kSpeed) {
  plan::Vertex vertex{.role = plan::Role::kWorker, .name = std::move(name), .rack = {}, .sum = {}};
  vertex.in = vertex.out = speed;
  return vertex;
}

// Two racks of workers m0 to m5, each with an parent connection of one NIC; trees of equal weight.
plan::Plan racks(std::vector<plan::Parents> trees, double parent_connection = kSpeed) {
  plan::Plan made;
  made.method = "by hand";
  for (VertexId i = 0; i < kWorkers; ++i) {
    made.network.vertices.push_back(machine("m" + std::to_string(i)));
    join(made.network, i, i < 3 ? kRack0 : kRack1, kSpeed);
  }
  for (int i = 0; i < 3; ++i) made.network.vertices.push_back({.role = plan::Role::kSwitch});
  join(made.network, kRack0, kCore, parent_connection);
  join(made.network, kRack1, kCore, parent_connection);
  plan::SizeClass all{.max_bytes = {}, .chunk = 256 << 10, .trees = {}};
  const auto count = static_cast<std::uint32_t>(trees.size());
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::uint32_t weight = plan::kWeightUnit / count + (i < plan::kWeightUnit % count);
    all.trees.push_back({weight, std::move(trees[i]), {}});
  }
  made.domains.push_back({"all", {0, 1, 2, 3, 4, 5}, {std::move(all)}, {}});
  return made;
}

std::vector<plan::Parents> stars() {
  std::vector<plan::Parents> trees;
  const std::vector<VertexId> all = {0, 1, 2, 3, 4, 5};
  for (VertexId root = 0; root < kWorkers; ++root) {
    trees.push_back(plan::star_parents(kWorkers, all, root));
  }
  return trees;
}

// The nodes of a rack sum what its workers have, and one sum of a rack crosses.
std::vector<plan::Parents> two_levels() {
  std::vector<plan::Parents> trees;
  for (std::int32_t place = 0; place < 3; ++place) {
    for (const std::int32_t root : {place, place + 3}) {
      plan::Parents up(kWorkers, place);
      std::fill(up.begin() + 3, up.end(), place + 3);
      up[static_cast<std::size_t>(place)] = up[static_cast<std::size_t>(place + 3)] = root;
      up[static_cast<std::size_t>(root)] = plan::kIsRoot;
      trees.push_back(std::move(up));
    }
  }
  return trees;
}

// A node's answer of its places in the trees of the last class, with a rank on each worker.
json job_at(const plan::Plan& plan, VertexId node) {
  const auto& all = plan.domains[0].classes.back().trees;
  json job = {{"name", "bert"}, {"epoch", 3}, {"split_bytes", 262144}};
  for (std::size_t tree = 0; tree < all.size(); ++tree) {
    job["weights"].push_back(all[tree].weight);
    const auto shape = plan::Shape::of(all[tree].up, "up").value();
    if (!shape.has(node) || shape.height(node) == 0) continue;
    json place = {{"height", shape.height(node)}, {"above", ""}, {"ranks", json::array()}};
    if (all[tree].up[node] >= 0) {
      place["above"] = plan.network.name_of(static_cast<VertexId>(all[tree].up[node]));
    }
    place["ranks"].push_back({node, 1U});  // its own
    for (const VertexId child : shape.children(node)) {
      if (shape.height(child) == 0) place["ranks"].push_back({child, 1U});
    }
    job["trees"].push_back(tree);
    job["vertices"].push_back(std::move(place));
  }
  return json::array({std::move(job)});
}

// Members declare speeds that are wrong, so that it shows whose are taken.
PlanFacts facts_of(const plan::Plan& plan) {
  PlanFacts facts;
  facts.job = "bert";
  facts.members = json::array();
  for (VertexId i = 0; i < plan.network.machines(); ++i) {
    const std::string name = plan.network.name_of(i);
    facts.members.push_back(
        {{"name", name}, {"role", "worker"}, {"host", "host-of-" + name}, {"speed", 7.0}});
    facts.jobs.push_back(job_at(plan, i));
    facts.rank_hosts.push_back("host-of-" + name);
  }
  facts.ranks = static_cast<std::uint32_t>(facts.rank_hosts.size());
  facts.shown = {{"source", "file"}, {"text", plan::write_plan(plan)}};
  return facts;
}

plan::ClassLoad checked(const plan::Plan& plan) {  // as plan check has it
  plan::Routes routes(plan.network);
  return plan::evaluate(routes, plan.domains[0].classes.back());
}

const LinkLoad* find(const Prediction& prediction, const std::string& what) {
  const auto found = std::find_if(prediction.links.begin(), prediction.links.end(),
                                  [&](const LinkLoad& link) { return link.what == what; });
  return found == prediction.links.end() ? nullptr : &*found;
}

void expect_as_checked(const plan::Plan& plan) {
  const Prediction prediction = predict(facts_of(plan));
  const plan::ClassLoad load = checked(plan);
  ASSERT_EQ(prediction.why_none, "");
  EXPECT_EQ(prediction.note, "");
  EXPECT_NEAR(prediction.load.tau / load.tau, 1, 1e-9);
  const double seconds = plan::predicted_seconds(
      load, 64e6, static_cast<double>(plan.domains[0].classes.back().chunk), 5e-6);
  EXPECT_NEAR(prediction.seconds(64'000'000) / seconds, 1, 1e-9);
  for (const plan::Load& one : load.loads) {
    if (one.passage != plan::Passage::kLink || one.bytes <= 0) continue;
    std::string what = plan::describe(one, plan.network);
    // The only link of a machine stands under its NIC.
    if (one.from < kWorkers) what = "out of " + plan.network.name_of(one.from);
    if (one.to < kWorkers) what = "into " + plan.network.name_of(one.to);
    const LinkLoad* link = find(prediction, what);
    ASSERT_NE(link, nullptr) << what;
    EXPECT_NEAR(link->bytes, one.bytes, 1e-9) << what;
    EXPECT_EQ(link->capacity, one.capacity) << what;
    EXPECT_NEAR(link->busy, one.seconds() / load.tau, 1e-9) << what;
  }
  EXPECT_EQ(prediction.links.size(), 2 * kWorkers + 4);
}

TEST(PredictionLinks, TheChunkIsThePlans) {
  plan::Plan plan = racks(stars());
  plan.domains[0].classes[0].chunk = 2 << 20;
  expect_as_checked(plan);
}

TEST(PredictionLinks, ARackLinkOfOneNicBindsStars) {
  const plan::Plan plan = racks(stars());
  expect_as_checked(plan);
  const Prediction prediction = predict(facts_of(plan));
  // Of each of the six stars three edges cross, by a sixth of the bytes, up and down.
  EXPECT_NEAR(prediction.load.tau * kSpeed, 3, 1e-3);
  EXPECT_NE(prediction.binds.find("switch"), std::string::npos) << prediction.binds;
  const LinkLoad* parent_connection = find(prediction, "switch 6 -> switch 8");
  ASSERT_NE(parent_connection, nullptr);
  EXPECT_NEAR(parent_connection->busy, 1, 1e-3);
  EXPECT_LT(find(prediction, "out of m0")->busy, 0.6);

  const json measured = links_in(prediction, 64'000'000, 2 * 64e6 * 3 / kSpeed);
  EXPECT_NEAR(measured[0]["rate"].get<double>() / kSpeed, 0.5, 1e-3) << "half as fast as promised";
  const std::string text = render(prediction);
  EXPECT_NE(text.find("#   switch 6 -> switch 8: 3.0000 bytes per byte at 1 GB/s, busy 100%\n"),
            std::string::npos)
      << text;
  EXPECT_NE(to_json(prediction).dump().find("switch 6 -> switch 8"), std::string::npos);
}

TEST(PredictionLinks, TreesThatSumWithinTheRackAreBoundByNics) {
  const plan::Plan plan = racks(two_levels());
  expect_as_checked(plan);
  EXPECT_NE(predict(facts_of(plan)).binds.find("m"), std::string::npos);
  expect_as_checked(racks(two_levels(), kSpeed / 10));
}

TEST(PredictionLinks, OfTheClosedFormNoneAreTaken) {
  PlanFacts facts = facts_of(racks(stars()));
  facts.shown["source"] = "closed form";
  const Prediction prediction = predict(facts);
  EXPECT_EQ(prediction.note, "");
  EXPECT_EQ(prediction.links.size(), 2 * kWorkers);
  EXPECT_NEAR(prediction.load.tau * 7, 10.0 / 6, 1e-3) << "of the speeds that members declare";
  EXPECT_EQ(prediction.binds.find("switch"), std::string::npos);
}

TEST(PredictionLinks, ThePlanOfAFileGoesBeforeThatInForce) {
  PlanFacts facts = facts_of(racks(stars()));
  facts.file.network = racks(stars(), kSpeed / 2).network;
  EXPECT_NEAR(predict(facts).load.tau * kSpeed, 6, 1e-3);
  facts.shown = nullptr;
  EXPECT_NEAR(predict(facts).load.tau * kSpeed, 6, 1e-3);
}

TEST(PredictionLinks, SpeedsOfAFileGoBeforeThePlans) {
  PlanFacts facts = facts_of(racks(stars()));
  facts.file.speeds.machines = {{.name = "m1", .in = kSpeed, .out = kSpeed / 10},
                                {.name = "host-of-m2", .nic = kSpeed / 2}};
  const Prediction prediction = predict(facts);
  EXPECT_EQ(prediction.binds, "out of m1");
  EXPECT_EQ(find(prediction, "out of m1")->capacity, kSpeed / 10);
  EXPECT_EQ(find(prediction, "into m2")->capacity, kSpeed / 2);
  EXPECT_EQ(find(prediction, "into m3")->capacity, kSpeed);
}

// Machine 0 has a link of its own to each of the others and a NIC that carries less than both.
TEST(PredictionLinks, OfAMachineWithSeveralLinksTheNicIsBesideThem) {
  plan::Plan plan;
  plan.method = "by hand";
  plan.network.vertices = {machine("m0", 1.5 * kSpeed), machine("m1"), machine("m2")};
  join(plan.network, 0, 1, kSpeed);
  join(plan.network, 0, 2, kSpeed);
  plan::SizeClass all{.max_bytes = {}, .chunk = 1 << 18, .trees = {{65536, {-1, 0, 0}, {}}}};
  plan.domains.push_back({"all", {0, 1, 2}, {all}, {}});
  const Prediction prediction = predict(facts_of(plan));
  ASSERT_EQ(prediction.why_none, "");
  EXPECT_NEAR(prediction.load.tau / checked(plan).tau, 1, 1e-9);
  EXPECT_EQ(prediction.binds, "out of m0");
  EXPECT_NEAR(find(prediction, "out of m0")->bytes, 2, 1e-9);
  EXPECT_NEAR(find(prediction, "m0 -> m1")->bytes, 1, 1e-9);
  EXPECT_NEAR(find(prediction, "m0 -> m1")->busy, 0.75, 1e-9);

  // Nothing goes over a machine: m1 and m2 have no way to each other.
  PlanFacts facts = facts_of(plan);
  plan.domains[0].classes[0].trees = {{65536, {1, -1, 1}, {}}};
  for (VertexId i = 0; i < 3; ++i) facts.jobs[i] = job_at(plan, i);
  EXPECT_NE(predict(facts).why_none.find("no way between"), std::string::npos)
      << predict(facts).why_none;
}

TEST(PredictionLinks, RanksOfOneMachineShareItsLinks) {
  plan::Plan plan = racks(stars());
  PlanFacts facts = facts_of(plan);
  facts.rank_hosts[1] = "m0";  // the machine's own name
  const Prediction prediction = predict(facts);
  ASSERT_EQ(prediction.why_none, "");
  // Its two ranks' stars elsewhere, and its own node's: 2 x 5/6, and 4 ranks of others by 1/6.
  EXPECT_NEAR(find(prediction, "out of m0")->bytes, 14.0 / 6, 1e-3);
}

TEST(PredictionLinks, NotesThatThePlanDoesNotPlaceTheJob) {
  PlanFacts facts = facts_of(racks(stars()));
  facts.rank_hosts[4] = "elsewhere";
  Prediction prediction = predict(facts);
  EXPECT_NE(prediction.note.find("without the links"), std::string::npos) << prediction.note;
  EXPECT_NE(prediction.note.find("rank 4"), std::string::npos) << prediction.note;
  EXPECT_NE(render(prediction).find("# by NICs alone"), std::string::npos);
  EXPECT_EQ(to_json(prediction).at("note"), prediction.note);
  EXPECT_EQ(find(prediction, "switch 6 -> switch 8"), nullptr);
  facts.file.network = racks(stars()).network;  // that somebody meant
  prediction = predict(facts);
  EXPECT_NE(prediction.why_none.find("--network: rank 4"), std::string::npos)
      << prediction.why_none;

  facts = facts_of(racks(stars()));
  facts.members[2]["name"] = "spare";  // it stands in for m2, and is on no machine of the plan
  facts.members[2]["host"] = "spare";
  facts.rank_hosts[2] = "m2";
  EXPECT_NE(predict(facts).note.find("node \"spare\""), std::string::npos) << predict(facts).note;
}

TEST(PredictionLinks, PlansOfAnyShapeAreTaken) {
  for (const json& shown :
       {json(7), json::array({7}), json{{"source", 7}}, json{{"source", "file"}},
        json{{"source", "file"}, {"text", "{}"}}, json{{"source", "file"}, {"text", {7}}}}) {
    PlanFacts facts = facts_of(racks(stars()));
    facts.shown = shown;
    const Prediction prediction = predict(facts);
    EXPECT_EQ(prediction.links.size(), 2 * kWorkers) << shown;
    const bool is_file = shown.is_object() && shown["source"] == "file";
    EXPECT_EQ(prediction.note.find("cannot be read") != std::string::npos, is_file) << shown;
  }
}

}  // namespace
}  // namespace tally::perf
