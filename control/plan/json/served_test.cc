#include "control/plan/json/served.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "control/plan/model/validate.h"
#include "tests/support/control/test_plans.h"

namespace tally::plan {
namespace {

// One domain of so many workers, and helpers; each tree has a weight of its own.
Plan plan_of(std::size_t workers, std::size_t helpers, std::vector<Parents> trees) {
  Plan plan;
  plan.network = star_network(equal_machines(workers, helpers, 1e9));
  Domain& domain = plan.domains.emplace_back();
  domain.name = "all";
  for (VertexId id = 0; id < workers; ++id) domain.workers.push_back(id);
  SizeClass& one = domain.classes.emplace_back();
  one.chunk = 65536;
  auto rest = kWeightUnit;
  for (Parents& up : trees) {
    one.trees.push_back({1, std::move(up), {}});
    --rest;
  }
  one.trees.back().weight += rest;
  return plan;
}

std::string refusal_by_nodes(const Plan& plan) {
  const auto valid = validate(plan, {});
  EXPECT_TRUE(valid.ok()) << valid.error().message;
  const auto served = check_served(plan);
  return served ? "" : served.error().message;
}

// Stars at so many of 300 machines.
Plan stars(std::size_t count) {
  std::vector<VertexId> workers(300);
  for (VertexId id = 0; id < workers.size(); ++id) workers[id] = id;
  std::vector<Parents> trees;
  for (VertexId root = 0; root < count; ++root) {
    trees.push_back(star_parents(300, workers, root));
  }
  return plan_of(300, 0, std::move(trees));
}

// Worker 0 is the root with `direct` leaves, and worker 1 below it with one of its own.
Plan two_levels(std::size_t direct) {
  Parents up(direct + 3, 0);
  up[0] = kIsRoot;
  up[2] = 1;
  return plan_of(up.size(), 0, {up});
}

TEST(Served, LimitsTheNumberOfDifferentTrees) {
  EXPECT_EQ(refusal_by_nodes(stars(kServedTrees)), "");
  EXPECT_EQ(refusal_by_nodes(stars(kServedTrees + 1)),
            "domain \"all\" has 257 trees, and nodes take 256: make a plan of fewer, with tallyctl "
            "plan make --network");
  Plan shared = stars(kServedTrees);
  shared.domains[0].classes.insert(shared.domains[0].classes.begin(),
                                   shared.domains[0].classes.front());
  shared.domains[0].classes.front().max_bytes = 1000;
  EXPECT_EQ(refusal_by_nodes(shared), "") << "classes share their trees";
}

TEST(Served, LimitsTheNumberOfClasses) {
  Plan plan = stars(1);
  auto& classes = plan.domains[0].classes;
  while (classes.size() < kServedClasses) {
    classes.insert(classes.end() - 1, classes.back());
    (classes.end() - 2)->max_bytes = classes.size();
  }
  EXPECT_EQ(refusal_by_nodes(plan), "");
  classes.insert(classes.end() - 1, classes.back());
  (classes.end() - 2)->max_bytes = classes.size();
  EXPECT_EQ(refusal_by_nodes(plan),
            "domain \"all\" has 64 classes, and nodes take 63: leave some out");
}

TEST(Served, AnotherWayForResultsIsATreeOfItsOwn) {
  EXPECT_EQ(refusal_by_nodes(small_plan()), "");
  Plan plan = stars(kServedTrees - 1);
  std::vector<Tree>& trees = plan.domains[0].classes[0].trees;
  trees[0].down = trees[0].up;
  EXPECT_EQ(refusal_by_nodes(plan), "") << "the way of the sums";
  // Down a path from the same root.
  Parents& down = trees[0].down;
  const auto root =
      static_cast<std::size_t>(std::find(down.begin(), down.end(), kIsRoot) - down.begin());
  std::size_t first = down.size();
  for (std::size_t id = 0; id < down.size(); ++id) {
    if (id == root || down[id] == kIsAbsent) continue;
    if (first == down.size())
      first = id;
    else
      down[id] = static_cast<std::int32_t>(first);
  }
  EXPECT_EQ(refusal_by_nodes(plan), "");
  trees.push_back(trees[0]);
  --trees[trees.size() - 2].weight;
  EXPECT_EQ(refusal_by_nodes(plan), "") << "the same ways again";
  trees.back().down = {};
  EXPECT_EQ(refusal_by_nodes(plan),
            "domain \"all\" has 257 trees, and nodes take 256: make a plan of fewer, with tallyctl "
            "plan make --network");
}

TEST(Served, LimitsTheChildrenOfNodesAboveOtherNodes) {
  // Its own gradient, a child node, and leaves.
  EXPECT_EQ(refusal_by_nodes(two_levels(kServedChildren - 2)), "");
  EXPECT_EQ(refusal_by_nodes(two_levels(kServedChildren - 1)),
            "domain \"all\": worker 0 has 257 children in a tree of several levels, its own "
            "gradient included, and nodes take 256: put some below others");
}

TEST(Served, LimitsTheChunksInFlightBetweenNodes) {
  Plan deep = two_levels(1);
  deep.domains[0].classes[0].window = 64;
  EXPECT_EQ(refusal_by_nodes(deep), "");
  deep.domains[0].classes[0].window = 65;
  EXPECT_EQ(refusal_by_nodes(deep),
            "domain \"all\", classes[0].window = 65: nodes keep memory for at most 64 chunks each "
            "way between two of them; lower it, or leave it out");
  Plan flat = stars(1);
  flat.domains[0].classes[0].window = 65;
  EXPECT_EQ(refusal_by_nodes(flat), "") << "stars have none";
}

TEST(Served, MachinesThatSumHaveNamesOfTheirOwn) {
  Plan plan = plan_of(2, 2, {{-1, 0, -2, -2}, {2, 2, -1, -2}});
  const auto name = [&](std::initializer_list<const char*> names) {
    VertexId id = 0;
    for (const char* one : names) plan.network.vertices[id++].name = one;
    return refusal_by_nodes(plan);
  };
  EXPECT_EQ(name({"a", "b", "h", "i"}), "");
  EXPECT_EQ(name({"a", "b", "a", "i"}),
            "nodes[0] and nodes[2] both sum, and both have \"addr\": \"a\"; a node is one machine "
            "of a plan: give each its own");
  EXPECT_EQ(name({"a", "a", "h", "h"}), "") << "only one of each two sums";
  EXPECT_EQ(name({"", "", "", ""}), "");
}

TEST(Served, LimitsTheBytesOfAPlan) {
  Plan plan = stars(200);
  std::size_t number = 0;
  for (Vertex& vertex : plan.network.vertices) {
    vertex.name = std::string(200, 'x') + std::to_string(number++);
  }
  plan.domains[0].classes.insert(plan.domains[0].classes.begin(), 20,
                                 plan.domains[0].classes.front());
  for (std::uint64_t i = 0; i < 20; ++i) plan.domains[0].classes[i].max_bytes = i + 1;
  EXPECT_THAT(refusal_by_nodes(plan), testing::HasSubstr("bytes, and a coordinator keeps 2097152"));
}

TEST(Served, LimitsTheHeightOfTreesToFourLevels) {
  const auto path = [](std::size_t machines) {
    Parents up;
    for (std::size_t id = 0; id < machines; ++id) up.push_back(static_cast<std::int32_t>(id) - 1);
    return plan_of(machines, 0, {up});
  };
  EXPECT_TRUE(validate(path(5), {}).ok());
  EXPECT_FALSE(validate(path(6), {}).ok());
}

}  // namespace
}  // namespace tally::plan
