#include "control/plan/advice/changes.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "control/plan/model/validate.h"
#include "tests/support/control/test_networks.h"

namespace tally::plan {
namespace {

std::vector<bool> marks_of(const Network& network) {
  std::vector<bool> is_worker(network.machines(), false);
  for (const VertexId id : workers_of(network)) is_worker[id] = true;
  return is_worker;
}

double capacity_of(const Network& network, VertexId from, VertexId to) {
  for (const Link& link : network.links) {
    if (link.from == from && link.to == to) return link.capacity;
  }
  return 0;
}

TEST(HelperPlaces, AreOneForRacksThatAreAlike) {
  Network network = rack_network(3, 2, 1, 1e3, 2e3);
  const auto places_of = [](const Network& of) {
    Routes routes(of);
    return helper_places(routes, marks_of(of));
  };
  auto places = places_of(network);
  ASSERT_EQ(places.size(), 2u);
  EXPECT_EQ(places[0].at, 9u);
  EXPECT_EQ(places[0].alike, 3u);
  EXPECT_EQ(places[1].at, 12u) << "the switch above the racks";
  EXPECT_EQ(places[1].alike, 1u);

  for (Link& link : network.links) {
    if (link.from == 10 && link.to == 12) link.capacity = 1e3;
  }
  places = places_of(network);
  ASSERT_EQ(places.size(), 3u);
  EXPECT_EQ(places[0].alike, 2u);
  EXPECT_EQ(places[1].at, 10u);
}

TEST(HelperPlaces, AreNoneWithoutSwitches) {
  Network network = overlay_network(2, 0);
  join(network, 0, 1, 1e3);
  Routes routes(network);
  EXPECT_TRUE(helper_places(routes, marks_of(network)).empty());
}

TEST(WithHelper, KeepsTheOthersAndJoinsTheNewOne) {
  Network network = rack_network(2, 2, 0, 1e3, 2e3);
  network.vertices[4].rack = 7;
  const Network more = with_helper(network, 4, machine(Role::kHelper, 3e3));
  EXPECT_TRUE(validate(more).ok());
  ASSERT_EQ(more.machines(), 5u);
  EXPECT_EQ(more.vertices[4].role, Role::kHelper);
  EXPECT_EQ(more.vertices[4].rack, 7u);
  EXPECT_EQ(capacity_of(more, 4, 5), 3e3);
  EXPECT_EQ(capacity_of(more, 5, 4), 3e3);
  EXPECT_EQ(capacity_of(more, 0, 5), 1e3) << "switches have the next ids";
  EXPECT_EQ(capacity_of(more, 6, 7), 2e3);
}

TEST(PossibleUpgrades, AreAllOfAKindAndOneOfIt) {
  const Network network = rack_network(2, 4, 2, 1e3, 2e3);
  const auto upgrades = possible_upgrades(network, marks_of(network));
  ASSERT_EQ(upgrades.size(), 6u);
  EXPECT_EQ(upgrades[0].kind, UpgradeKind::kLinks);
  EXPECT_EQ(upgrades[0].links.size(), 4u);
  EXPECT_EQ(upgrades[0].count, 2u);
  EXPECT_EQ(upgrades[1].links.size(), 2u);
  EXPECT_EQ(upgrades[1].count, 1u);
  EXPECT_EQ(upgrades[1].alike, 2u);
  EXPECT_EQ(upgrades[2].kind, UpgradeKind::kNics);
  EXPECT_EQ(upgrades[2].machines, (std::vector<VertexId>{4, 5, 10, 11})) << "helpers";
  EXPECT_EQ(upgrades[3].machines, std::vector<VertexId>{4});
  EXPECT_EQ(upgrades[3].alike, 4u);
  EXPECT_EQ(upgrades[4].machines.size(), 8u);
  EXPECT_EQ(upgrades[5].alike, 8u);
}

// What is measured at equal places is never quite equal.
TEST(PossibleUpgrades, TakePlacesTogetherWhoseSpeedsAreNearlyEqual) {
  Network network = rack_network(2, 4, 2, 1e3, 8.9e2);
  double noise = 0.96;
  for (Vertex& vertex : network.vertices) {
    vertex.in *= noise;
    vertex.out *= noise += 0.005;
  }
  for (Link& link : network.links) link.capacity *= 2 - (noise -= 0.002);
  const auto upgrades = possible_upgrades(network, marks_of(network));
  ASSERT_EQ(upgrades.size(), 6u);
  EXPECT_EQ(upgrades[0].count, 2u) << "links between racks";
  EXPECT_EQ(upgrades[2].count, 4u) << "NICs of helpers";
  EXPECT_EQ(upgrades[4].count, 8u) << "NICs of workers";
}

TEST(PossibleUpgrades, KeepPlacesApartThatDiffer) {
  Network network = rack_network(2, 2, 0, 1e3, 2e3);
  network.vertices[0].sum = 500;
  network.links[8].capacity = 1e3;  // up from the first rack
  const auto upgrades = possible_upgrades(network, marks_of(network));
  const auto count = [&](UpgradeKind kind) {
    return std::count_if(upgrades.begin(), upgrades.end(),
                         [kind](const Upgrade& one) { return one.kind == kind; });
  };
  EXPECT_EQ(count(UpgradeKind::kLinks), 2) << "one for each rack";
  // All four, and one each of: worker 0, worker 1, and the two of the other rack.
  EXPECT_EQ(count(UpgradeKind::kNics), 4);
  EXPECT_EQ(count(UpgradeKind::kSums), 1);
}

TEST(Upgraded, LinksOfSwitchesAreFasterBothWays) {
  const Network network = rack_network(2, 2, 0, 1e3, 2e3);
  const Upgrade upgrade{UpgradeKind::kLinks, {8, 9}, {}, 1, 2};
  const Network faster = upgraded(network, upgrade, 1.5);
  EXPECT_EQ(capacity_of(faster, 4, 6), 3e3);
  EXPECT_EQ(capacity_of(faster, 6, 4), 3e3);
  EXPECT_EQ(capacity_of(faster, 5, 6), 2e3);
  EXPECT_EQ(faster.vertices[0].in, 1e3);
  Routes routes(network);
  EXPECT_EQ(passages_of(upgrade, Passages(routes)), (std::vector<std::size_t>{8, 9}));
}

TEST(Upgraded, NicsTakeTheirLinksAlong) {
  Network network = star_network(equal_machines(2, 0, 10));
  const Upgrade upgrade{UpgradeKind::kNics, {}, {0}, 1, 2};
  const Network faster = upgraded(network, upgrade, 2);
  EXPECT_EQ(faster.vertices[0].in, 20);
  EXPECT_EQ(faster.vertices[0].out, 20);
  EXPECT_EQ(capacity_of(faster, 0, 2), 20);
  EXPECT_EQ(capacity_of(faster, 2, 0), 20);
  EXPECT_EQ(capacity_of(faster, 1, 2), 10);
  Routes routes(network);
  const Passages passages(routes);
  EXPECT_EQ(passages_of(upgrade, passages),
            (std::vector<std::size_t>{0, 1, passages.in(0), passages.out(0)}));
}

TEST(Upgraded, ALinkIsNotFasterThanTheMachineAtItsOtherEnd) {
  Network network{equal_machines(2, 0, 10), {}};
  join(network, 0, 1, 10);
  const Network one = upgraded(network, {UpgradeKind::kNics, {}, {0}, 1, 2}, 2);
  EXPECT_EQ(capacity_of(one, 0, 1), 10);
  EXPECT_TRUE(validate(one).ok());
  const Network both = upgraded(network, {UpgradeKind::kNics, {}, {0, 1}, 2, 2}, 2);
  EXPECT_EQ(capacity_of(both, 0, 1), 20);
  EXPECT_EQ(capacity_of(both, 1, 0), 20);
}

TEST(Upgraded, SumsAloneAreFaster) {
  Network network = star_network(equal_machines(2, 0, 10));
  network.vertices[1].sum = 4;
  const Upgrade upgrade{UpgradeKind::kSums, {}, {1}, 1, 1};
  const Network faster = upgraded(network, upgrade, 3);
  EXPECT_EQ(faster.vertices[1].sum, 12);
  EXPECT_EQ(faster.vertices[1].in, 10);
  Routes routes(network);
  const Passages passages(routes);
  EXPECT_EQ(passages_of(upgrade, passages), std::vector<std::size_t>{*passages.sum(1)});
}

}  // namespace
}  // namespace tally::plan
