#include "control/plan/model/validate.h"

#include <gtest/gtest.h>

#include <limits>

#include "control/plan/model/load.h"
#include "tests/support/control/test_plans.h"

namespace tally::plan {
namespace {

std::string refusal_of(const Plan& plan, std::uint32_t max_height = 3) {
  const auto outcome = validate(plan, {.max_height = max_height});
  if (!outcome) {
    EXPECT_EQ(outcome.status(), Status::kInvalidArgument);
  }
  return outcome ? "" : outcome.error().message;
}

// The refusal of small_plan() after this change.
template <typename Change>
std::string after(Change change) {
  Plan plan = small_plan();
  change(plan);
  return refusal_of(plan);
}

std::vector<Tree>& large_trees(Plan& plan) {
  return plan.domains[0].classes[1].trees;
}

TEST(Validate, AcceptsAValidPlan) {
  EXPECT_EQ(refusal_of(small_plan()), "");
}

TEST(Validate, RefusesTagsThatDoNotAscend) {
  EXPECT_EQ(after([](Plan& plan) { plan.domains[0].tensors = {{3, 10}, {4, 0}}; }), "");
  EXPECT_EQ(after([](Plan& plan) {
              plan.domains[0].tensors = {{3, 10}, {3, 20}};
            }),
            "domains[0].tensors[1][0] = 3: must be above 3, the tag before it");
}

TEST(Validate, RefusesImpossibleVertices) {
  EXPECT_EQ(after([](Plan& plan) { plan.network.vertices.clear(); }),
            "nodes: must begin with a worker or helper; list the switches last");
  EXPECT_EQ(after([](Plan& plan) { plan.network.vertices[2].out = 0; }),
            "nodes[2].out = 0: must be from 1 to 1e+15 bytes per second");
  EXPECT_EQ(after([](Plan& plan) {
              plan.network.vertices[2].in = std::numeric_limits<double>::infinity();
            }),
            "nodes[2].in = inf: must be from 1 to 1e+15 bytes per second");
  EXPECT_EQ(after([](Plan& plan) { plan.network.vertices[3].sum = -1; }),
            "nodes[3].sum = -1: must be from 1 to 1e+15 bytes per second");
  EXPECT_EQ(after([](Plan& plan) { plan.network.vertices[4].in = 1e9; }),
            "nodes[4]: a switch has no in, out or sum; give its links their capacities");
  EXPECT_EQ(after([](Plan& plan) { plan.network.vertices.push_back(machine(Role::kHelper, 1e9)); }),
            "nodes[5].role = \"helper\": nodes[4] is a switch; list the switches last");
  EXPECT_EQ(after([](Plan& plan) { plan.network.vertices.resize(4097, Vertex{Role::kSwitch}); }),
            "nodes: 4097 of them; at most 4096");
}

TEST(Validate, RefusesImpossibleLinks) {
  const auto with_link = [](const Link& link) {
    return after([&](Plan& plan) { plan.network.links.push_back(link); });
  };
  EXPECT_EQ(with_link({0, 9, 1}), "links[8] = [0, 9]: there is no node 9; ids go from 0 to 4");
  EXPECT_EQ(with_link({2, 2, 1}), "links[8] = [2, 2]: joins a node to itself; leave it out");
  EXPECT_EQ(with_link({0, 1, 0}), "links[8][2] = 0: must be from 1 to 1e+15 bytes per second");
  EXPECT_EQ(with_link({0, 4, 1e9}),
            "links[8] = [0, 4]: given twice; add their capacities into one");
  EXPECT_EQ(
      with_link({0, 1, 2e9}),
      "links[8][2] = 2000000000: more than nodes[0].out = 1000000000; correct one of the two");
  EXPECT_EQ(after([](Plan& plan) { plan.network.links[3].capacity = 2e9; }),
            "links[3][2] = 2000000000: more than nodes[1].in = 1000000000; correct one of the two");
}

TEST(Validate, RefusesDomainsWithoutTheirWorkers) {
  EXPECT_EQ(after([](Plan& plan) { plan.domains.clear(); }), "domains: must have at least one");
  EXPECT_EQ(after([](Plan& plan) { plan.domains.push_back(plan.domains[0]); }),
            "domains[1].name = \"all\": another domain has it; give it its own");
  EXPECT_EQ(after([](Plan& plan) { plan.domains[0].workers.clear(); }),
            "domains[0].workers: must name at least one");
  EXPECT_EQ(after([](Plan& plan) {
              plan.domains[0].workers = {0, 1, 3};
            }),
            "domains[0].workers[2] = 3: must be the id of a node whose role is worker");
  EXPECT_EQ(after([](Plan& plan) {
              plan.domains[0].workers = {0, 1, 77};
            }),
            "domains[0].workers[2] = 77: must be the id of a node whose role is worker");
  EXPECT_EQ(after([](Plan& plan) {
              plan.domains[0].workers = {0, 2, 1};
            }),
            "domains[0].workers[2] = 1: comes after 2; list the workers ascending, each once");
}

TEST(Validate, RefusesClassesOutOfOrder) {
  EXPECT_EQ(after([](Plan& plan) { plan.domains[0].classes.clear(); }),
            "domains[0].classes: must have at least one");
  EXPECT_EQ(
      after([](Plan& plan) { plan.domains[0].classes.pop_back(); }),
      "domains[0].classes[0].max_bytes = 65536: must be null, the last class is for any size");
  EXPECT_EQ(after([](Plan& plan) { plan.domains[0].classes[0].max_bytes.reset(); }),
            "domains[0].classes[0].max_bytes = null: only the last class is for any size");
  EXPECT_EQ(after([](Plan& plan) {
              auto& classes = plan.domains[0].classes;
              classes.insert(classes.begin(), classes[0]);
            }),
            "domains[0].classes[1].max_bytes = 65536: must be more than the 65536 of the class "
            "before it");
  EXPECT_EQ(after([](Plan& plan) { plan.domains[0].classes[1].chunk = 0; }),
            "domains[0].classes[1].chunk = 0: must be at least 1 byte");
}

TEST(Validate, RefusesWeightsThatDoNotAddUp) {
  EXPECT_EQ(after([](Plan& plan) { large_trees(plan).clear(); }),
            "domains[0].classes[1].trees: must have at least one");
  EXPECT_EQ(after([](Plan& plan) { large_trees(plan)[1].weight = 1; }),
            "domains[0].classes[1].trees: their weights sum to 40001; must be 65536");
  EXPECT_EQ(after([](Plan& plan) { large_trees(plan)[1].weight = 0; }),
            "domains[0].classes[1].trees[1].w = 0: must be from 1 to 65536; leave out a tree "
            "without weight");
}

TEST(Validate, RefusesParentsThatFormNoTree) {
  const std::string place = "domains[0].classes[1].trees[1].";
  const auto with_up = [&](Parents up) {
    return after([&](Plan& plan) { large_trees(plan)[1].up = std::move(up); });
  };
  EXPECT_EQ(with_up({-1, 0}),
            place + "up: 2 entries; must be 4, one for each worker and helper of the network");
  EXPECT_EQ(with_up({2, 0, 1, -2}), place + "up: no root; one of its entries must be -1");
  EXPECT_EQ(with_up({-1, -1, 0, -2}), place + "up[1] = -1: 0 is the root already; a tree has one");
  EXPECT_EQ(with_up({-1, 2, 1, -2}),
            place + "up[1] = 2: goes in a circle and never reaches the root");
  EXPECT_EQ(with_up({-1, 4, 0, -2}),  // a switch
            place +
                "up[1] = 4: must be a worker or helper, 0 to 3, or -1 for the root, or -2 where "
                "it is not in the tree");
  EXPECT_EQ(with_up({-1, 3, 0, -2}), place + "up[1] = 3: its parent is not in the tree");
}

TEST(Validate, RefusesTreesThatLeaveWorkersOut) {
  const std::string place = "domains[0].classes[1].trees[1].";
  EXPECT_EQ(after([](Plan& plan) {
              large_trees(plan)[1].up = {-1, 0, -2, -2};
            }),
            place + "up[2] = -2: worker 2 of the domain is missing; every tree has all of them");
  EXPECT_EQ(after([](Plan& plan) {
              large_trees(plan)[1].down = {-1, -2, 0, -2};
            }),
            place + "down[1] = -2: worker 1 of the domain is missing; every tree has all of them");
  EXPECT_EQ(after([](Plan& plan) {
              large_trees(plan)[1].up = {-1, 0, 1, 0};
            }),
            place + "up[3] = 0: a leaf that is no worker of the domain; leave it out (-2)");
  // A worker of nobody's domain may sum, but has no gradient to give.
  EXPECT_EQ(after([](Plan& plan) {
              plan.domains[0].workers = {0, 1};
            }),
            "domains[0].classes[0].trees[0].up[2] = 3: a leaf that is no worker of the domain; "
            "leave it out (-2)");
  EXPECT_EQ(after([](Plan& plan) {
              large_trees(plan)[1].down = {1, -1, 0, -2};
            }),
            place + "down[1] = -1: the root must be that of up, 0");
}

TEST(Validate, RefusesEdgesWithoutARoute) {
  EXPECT_EQ(after([](Plan& plan) { plan.network.links.erase(plan.network.links.begin() + 2); }),
            "domains[0].classes[0].trees[0].up[1] = 3: the network has no route from 1 to 3; add "
            "links, or take another parent");
  EXPECT_EQ(after([](Plan& plan) { plan.network.links.erase(plan.network.links.begin() + 3); }),
            "domains[0].classes[0].trees[0].up[1] = 3: the network has no route from 3 to 1; add "
            "links, or take another parent");
  // Where down is a tree of its own, its edges need their own direction alone.
  Plan chain = small_plan();
  chain.domains[0].classes.erase(chain.domains[0].classes.begin());
  chain.domains[0].classes[0].trees = {Tree{65536, {-1, 0, 1, -2}, {-1, 2, 0, -2}}};
  chain.network.links = {{2, 1, 1e9}, {1, 0, 1e9}, {0, 2, 1e9}};
  EXPECT_EQ(refusal_of(chain), "");
  chain.network.links.pop_back();
  EXPECT_EQ(refusal_of(chain),
            "domains[0].classes[0].trees[0].down[2] = 0: the network has no route from 0 to 2; add "
            "links, or take another parent");
}

TEST(Validate, RefusesTreesThatAreTooHigh) {
  EXPECT_EQ(refusal_of(small_plan(), 2), "");
  EXPECT_EQ(
      refusal_of(small_plan(), 1),
      "domains[0].classes[1].trees[1].up: 2 levels; the limit here is 1 (--max-height): raise "
      "it, or make the tree flatter");
  Plan path = small_plan();
  path.network = star_network(equal_machines(6, 0, 1e9));
  path.domains[0].workers = {0, 1, 2, 3, 4, 5};
  path.domains[0].classes = {{{}, 65536, 0, {Tree{65536, {-1, 0, 1, 2, 3, 4}, {}}}}};
  EXPECT_EQ(
      refusal_of(path, 1),
      "domains[0].classes[0].trees[0].up: 5 levels; nodes have buffers for 4: make it flatter");
  EXPECT_EQ(refusal_of(path, 5), "");
}

TEST(Validate, RefusesOtherTreesOrOrdersForReduceScatters) {
  Plan plan = small_plan();
  for (SizeClass& one : plan.domains[0].classes) one.rs_ag = true;
  EXPECT_NE(refusal_of(plan).find("domains[0].classes[0].trees: must be those of the last class"),
            std::string::npos)
      << refusal_of(plan);
  SizeClass& last = plan.domains[0].classes.back();
  plan.domains[0].classes[0].trees = last.trees;
  EXPECT_EQ(refusal_of(plan), "");
  last.trees[0].weight = last.trees[1].weight = kWeightUnit / 2;
  std::swap(last.trees[0], last.trees[1]);
  EXPECT_NE(refusal_of(plan).find("in the same order"), std::string::npos);
  last.trees[1] = last.trees[0];
  plan.domains[0].classes[0].trees = last.trees;
  EXPECT_NE(refusal_of(plan).find("trees[1]: is there twice"), std::string::npos)
      << refusal_of(plan);
  last.rs_ag = false;
  EXPECT_NE(refusal_of(plan).find("for other collectives"), std::string::npos) << refusal_of(plan);
}

TEST(Validate, RefusesACertificateThatIsNotTrue) {
  const auto with = [](double factor, double lower_bound) {
    return after([&](Plan& plan) {
      Routes routes(plan.network);
      const double tau = evaluate(routes, plan.domains[0].classes[1]).tau;
      plan.domains[0].certificate = Certificate{tau * factor, lower_bound * tau};
    });
  };
  EXPECT_EQ(with(1, 1), "");
  EXPECT_EQ(with(1, 0.5), "");
  EXPECT_NE(with(0.9, 0.5).find("cert.tau = "), std::string::npos);
  EXPECT_NE(with(0.9, 0.5).find("the loads of the last class give"), std::string::npos);
  EXPECT_NE(with(1, 1.1).find("must be 0 <= lb <= tau"), std::string::npos);
  EXPECT_NE(with(1, -1).find("must be 0 <= lb <= tau"), std::string::npos);
}

}  // namespace
}  // namespace tally::plan
