#include "control/plan/advice/bottleneck.h"

#include <gtest/gtest.h>

#include <string>

#include "control/plan/model/tree.h"
#include "control/plan/packing/packed_planner.h"
#include "tests/support/control/test_networks.h"

namespace tally::plan {
namespace {

// A star at each worker, with equal shares.
SizeClass stars_of(const Network& network) {
  const auto workers = workers_of(network);
  SizeClass stars{std::nullopt, 1024, 0, {}};
  for (const VertexId root : workers) {
    stars.trees.push_back({kWeightUnit / static_cast<std::uint32_t>(workers.size()),
                           star_parents(network.machines(), workers, root),
                           {}});
  }
  return stars;
}

TEST(Bottleneck, OfStarsOverTwoRacksIsTheLinkBetweenThem) {
  // The links of racks carry half of the stars, four workers each, up and down: 4 bytes at 2. A
  // NIC carries 1.75 at 1.
  const Network network = rack_network(2, 4, 0, 1, 2);
  Routes routes(network);
  const Bottleneck found = find_bottleneck(routes, stars_of(network));
  EXPECT_DOUBLE_EQ(found.load.tau, 2);
  ASSERT_EQ(found.kinds.size(), 2u);
  EXPECT_EQ(found.kinds[0].kind, PlaceKind::kSwitchLink);
  EXPECT_EQ(found.kinds[0].places, 4u);
  EXPECT_EQ(found.kinds[0].full, 4u);
  EXPECT_DOUBLE_EQ(found.kinds[0].mean_busy, 1);
  EXPECT_EQ(found.kinds[1].kind, PlaceKind::kMachineLink);
  EXPECT_EQ(found.kinds[1].places, 16u);
  EXPECT_EQ(found.kinds[1].full, 0u);
  EXPECT_DOUBLE_EQ(found.kinds[1].mean_busy, 0.875);
  ASSERT_EQ(found.places.size(), 20u) << "a NIC with one link is this link";
  EXPECT_EQ(found.places[0], found.kinds[0].busiest);
  EXPECT_EQ(found.busy(found.places[19]), 0.875);
}

TEST(Bottleneck, IsFirstTheKindThatIsFullAsAWhole) {
  // A star at worker 0. Its NIC carries 3 bytes each way at 1, the links of racks 2 at 2.
  Network network = rack_network(2, 2, 0, 1, 2);
  SizeClass star{std::nullopt, 1024, 0, {{kWeightUnit, {kIsRoot, 0, 0, 0}, {}}}};
  Routes routes(network);
  Bottleneck found = find_bottleneck(routes, star);
  EXPECT_EQ(found.kinds[0].kind, PlaceKind::kMachineLink);
  EXPECT_EQ(found.kinds[0].full, 2u);

  // With links of racks of 2/3, these are as full: 2 bytes each way, and all of them.
  for (Link& link : network.links) {
    if (link.capacity == 2) link.capacity = 2.0 / 3;
  }
  Routes slower(network);
  found = find_bottleneck(slower, star);
  EXPECT_EQ(found.kinds[0].kind, PlaceKind::kSwitchLink);
  EXPECT_EQ(found.kinds[0].full, 4u);
  EXPECT_EQ(found.kinds[1].full, 2u);
}

TEST(Bottleneck, CountsNicsAndSumsThatHaveLoadsOfTheirOwn) {
  Network network = overlay_network(3, 0);
  for (VertexId id = 0; id < 3; ++id) join(network, id, (id + 1) % 3, 1);
  network.vertices[0].sum = 0.5;
  Routes routes(network);
  const Bottleneck found = find_bottleneck(routes, stars_of(network));
  ASSERT_EQ(found.kinds.size(), 3u);
  EXPECT_EQ(found.kinds[0].kind, PlaceKind::kSum) << "2/3 of a byte at 0.5";
  EXPECT_EQ(found.kinds[1].kind, PlaceKind::kMachinePair);
  EXPECT_EQ(found.kinds[1].places, 6u);
  EXPECT_EQ(found.kinds[2].kind, PlaceKind::kNic);
  EXPECT_EQ(found.kinds[2].places, 6u);
  EXPECT_EQ(plural_name(found.kinds[2].kind), "NICs");
}

TEST(Bottleneck, OfOneWorkerIsNothing) {
  const Network network = star_network(equal_machines(1, 0, 1));
  Routes routes(network);
  const Bottleneck found = find_bottleneck(routes, stars_of(network));
  EXPECT_EQ(found.load.tau, 0);
  EXPECT_EQ(found.busy(0), 0);
  EXPECT_EQ(found.kinds[0].full, 0u);
}

TEST(BoundShares, OfFullBisectionAreThoseOfTheClosedForm) {
  // Workers' NICs have the price 1, and the helper's 1 - 2/n.
  const Network network = star_network(equal_machines(4, 1, 1e3));
  const auto plan = plan_packed(network, workers_of(network), {});
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  Routes routes(network);
  const Passages passages(routes);
  const auto shares = bound_shares(passages, plan->domains[0].certificate->dual);
  ASSERT_EQ(shares.size(), passages.size());
  for (std::size_t i = 0; i < 8; ++i) EXPECT_NEAR(shares[i], 1.0 / 9, 1e-12);
  EXPECT_NEAR(shares[8], 1.0 / 18, 1e-12);
  EXPECT_NEAR(shares[9], 1.0 / 18, 1e-12);
  EXPECT_EQ(shares[passages.in(0)], 0) << "the link has the price";
}

}  // namespace
}  // namespace tally::plan
