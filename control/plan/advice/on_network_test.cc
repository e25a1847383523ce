#include "control/plan/advice/on_network.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "control/plan/model/load.h"
#include "tests/support/control/test_plans.h"

namespace tally::plan {
namespace {

// small_plan() with names: workers a, b, c and helper h.
Plan named_plan() {
  Plan plan = small_plan();
  const char* names[] = {"a", "b", "c", "h"};
  for (VertexId id = 0; id < 4; ++id) plan.network.vertices[id].name = names[id];
  return plan;
}

Network other_network() {
  return star_network({machine(Role::kHelper, 1e9, "new"), machine(Role::kHelper, 1e9, "h"),
                       machine(Role::kWorker, 1e9, "c"), machine(Role::kWorker, 1e9, "b"),
                       machine(Role::kWorker, 2e9, "a")});
}

TEST(OnNetwork, FindsMachinesByTheirNames) {
  const auto moved = on_network(named_plan(), other_network());
  ASSERT_TRUE(moved.ok()) << moved.error().message;
  const Domain& domain = moved->domains[0];
  EXPECT_EQ(domain.workers, (std::vector<VertexId>{2, 3, 4}));
  EXPECT_EQ(domain.classes[0].trees[0].up, (Parents{-2, -1, 1, 1, 1}));
  // The chain c -> b -> a, and back a -> c -> b.
  EXPECT_EQ(domain.classes[1].trees[1].up, (Parents{-2, -2, 3, 4, -1}));
  EXPECT_EQ(domain.classes[1].trees[1].down, (Parents{-2, -2, 4, 2, -1}));
  EXPECT_EQ(moved->epoch, 7u);
  EXPECT_FALSE(domain.certificate);
}

TEST(OnNetwork, HasTheLoadsOfThatNetwork) {
  Plan plan = named_plan();
  plan.network.vertices[3].sum.reset();
  Network network = plan.network;
  for (Link& link : network.links) link.capacity /= 2;
  const auto moved = on_network(plan, network);
  ASSERT_TRUE(moved.ok()) << moved.error().message;
  Routes before(plan.network), after(moved->network);
  EXPECT_DOUBLE_EQ(evaluate(after, moved->domains[0].classes[1]).tau,
                   2 * evaluate(before, plan.domains[0].classes[1]).tau);
}

TEST(OnNetwork, NamesWhatIsMissing) {
  Plan plan = named_plan();
  Network network = other_network();
  network.vertices[3].name = "d";
  EXPECT_EQ(on_network(plan, network).error().message,
            "nodes[1].addr = \"b\": the network has no such machine; give the network of the "
            "plan's machines");
  plan.network.vertices[1].name.clear();
  EXPECT_EQ(on_network(plan, network).error().message,
            "nodes[1]: the plan gives it no \"addr\", by which to find it in the network; give it "
            "one");
  Network roles = other_network();
  roles.vertices[2].role = Role::kHelper;
  EXPECT_EQ(on_network(named_plan(), roles).error().message,
            "machine \"c\": a worker of the plan, but a helper of the network; give it the role "
            "\"worker\" there");
  Network cut = other_network();
  std::erase_if(cut.links, [](const Link& link) { return link.from == 4; });  // out of "a"
  const auto moved = on_network(named_plan(), cut);
  ASSERT_FALSE(moved.ok());
  EXPECT_NE(moved.error().message.find("domains[0].classes[0].trees[0]"), std::string::npos)
      << moved.error().message;
}

TEST(OnNetwork, NamesAWorkerThatThePlanDoesNotHave) {
  Network network = other_network();
  network.vertices[0].role = Role::kWorker;
  EXPECT_EQ(on_network(named_plan(), network).error().message,
            "machine \"new\": a worker of the network that the plan does not have; leave it out "
            "there, or make a new plan");
  network = other_network();
  network.vertices[1].role = Role::kWorker;
  EXPECT_EQ(on_network(named_plan(), network).error().message,
            "machine \"h\": no worker of the plan, but one of the network; give it the role "
            "\"helper\" there, or make a new plan");
}

}  // namespace
}  // namespace tally::plan
