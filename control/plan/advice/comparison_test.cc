#include "control/plan/advice/comparison.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "control/plan/model/tree.h"
#include "tests/support/control/test_networks.h"

namespace tally::plan {
namespace {

// A plan with a star at each of these machines, with equal shares.
Plan stars_at(Network network, const std::vector<VertexId>& roots) {
  Plan plan;
  plan.method = "test";
  plan.network = std::move(network);
  Domain domain{"all", workers_of(plan.network), {}, {}, {}};
  SizeClass stars{std::nullopt, 1000, 0, {}};
  for (const VertexId root : roots) {
    stars.trees.push_back({kWeightUnit / static_cast<std::uint32_t>(roots.size()),
                           star_parents(plan.network.machines(), domain.workers, root),
                           {}});
  }
  domain.classes.push_back(std::move(stars));
  plan.domains.push_back(std::move(domain));
  return plan;
}

Network named_star(double speed) {
  auto machines = equal_machines(2, 1, speed);
  const char* names[] = {"a", "b", "h"};
  for (std::size_t id = 0; id < 3; ++id) machines[id].name = names[id];
  Network network = star_network(machines);
  network.vertices.back().name = "s";
  return network;
}

Result<Comparison> compared(const Plan& first, const Plan& second) {
  static constexpr std::uint64_t kSizes[] = {1000, 1000'000};
  return compare(first, first.domains[0], second, second.domains[0], {kSizes, 1000'000, 0});
}

TEST(Comparison, HasTheTimesOfBothBySize) {
  // The helper's NIC carries 2 bytes each way, those of the workers 1.
  const auto result = compared(stars_at(named_star(1e3), {2}), stars_at(named_star(1e3), {0, 1}));
  ASSERT_TRUE(result.ok()) << result.error().message;
  EXPECT_DOUBLE_EQ(result->first_tau, 2e-3);
  EXPECT_DOUBLE_EQ(result->second_tau, 1e-3);
  ASSERT_EQ(result->times.size(), 2u);
  EXPECT_EQ(result->times[0].bytes, 1000u);
  EXPECT_DOUBLE_EQ(result->times[0].first, 2 + 1) << "with one chunk of 1000 bytes to fill";
  EXPECT_DOUBLE_EQ(result->times[0].second, 1 + 1);
  EXPECT_DOUBLE_EQ(result->times[1].first, 2001);
  EXPECT_EQ(result->first_binds, "h -> s");
  EXPECT_EQ(result->second_binds, "a -> s");
}

TEST(Comparison, NamesThePlacesThatCarryMore) {
  const auto result = compared(stars_at(named_star(1e3), {2}), stars_at(named_star(2e3), {0, 1}));
  ASSERT_TRUE(result.ok()) << result.error().message;
  ASSERT_EQ(result->places.size(), 6u);
  EXPECT_EQ(result->places[0].name, "h -> s");
  EXPECT_DOUBLE_EQ(result->places[0].more(), -2);
  EXPECT_EQ(result->places[0].first->busy, 1);
  EXPECT_EQ(result->places[0].second->bytes, 0);
  EXPECT_EQ(result->places[0].second->capacity, 2e3);
  EXPECT_EQ(result->places[5].more(), 0);
}

TEST(Comparison, KnowsPlacesThatOnlyOneNetworkHas) {
  Network smaller = named_star(1e3);
  Network larger = smaller;
  larger.vertices[0].sum = 500;
  const auto result = compared(stars_at(smaller, {0, 1}), stars_at(larger, {0, 1}));
  ASSERT_TRUE(result.ok()) << result.error().message;
  EXPECT_EQ(result->places[0].name, "sums of a");
  EXPECT_FALSE(result->places[0].first);
  EXPECT_DOUBLE_EQ(result->places[0].second->bytes, 0.5);
  EXPECT_DOUBLE_EQ(result->places[0].more(), 0.5);
}

TEST(Comparison, IsOfPlansForTheSameWorkers) {
  Network other = named_star(1e3);
  other.vertices[1].name = "c";
  const Plan first = stars_at(named_star(1e3), {2});
  EXPECT_EQ(compared(first, stars_at(other, {2})).error().message,
            "worker \"b\" is only in the first plan; give plans for the same workers");
  Plan second = stars_at(named_star(1e3), {2});
  Plan fewer = first;
  fewer.domains[0].workers = {0};
  EXPECT_EQ(compared(fewer, second).error().message,
            "worker \"b\" is only in the second plan; give plans for the same workers");
}

}  // namespace
}  // namespace tally::plan
