#include "control/plan/forestcoll/network_bound.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

#include "tests/support/control/test_plans.h"

namespace tally::plan::forestcoll {
namespace {

std::vector<VertexId> first(std::size_t count) {
  std::vector<VertexId> workers(count);
  std::iota(workers.begin(), workers.end(), VertexId{0});
  return workers;
}

// Whole units take at most this part from a time.
void expect_time(double found, double time) {
  EXPECT_LE(found, time * (1 + 1e-12));
  EXPECT_GE(found, time * (1 - 3e-5));
}

// The workers of a set over the capacity that leads out of it (or into it: `up`), the most of all
// sets that leave a worker out. A machine and the two sides of its NIC are in the set or not, each
// by itself.
double busiest_set(const Network& network, std::size_t workers, bool up) {
  const std::size_t machines = network.machines();
  const std::size_t bits = 2 * machines + network.vertices.size();
  double busiest = 0;
  for (std::uint32_t set = 0; set >> bits == 0; ++set) {
    const auto has = [&](std::size_t bit) { return (set >> bit & 1) != 0; };
    const auto in_side = [&](VertexId id) {
      return has(id < machines ? 2 * id : 2 * machines + id);
    };
    const auto out_side = [&](VertexId id) {
      return has(id < machines ? 2 * id + 1 : 2 * machines + id);
    };
    const auto machine = [&](VertexId id) { return has(2 * machines + id); };
    double capacity = 0;
    const auto edge = [&](bool from, bool to, double speed) {
      if (up ? !from && to : from && !to) capacity += speed;
    };
    std::size_t inside = 0;
    for (VertexId id = 0; id < machines; ++id) {
      edge(in_side(id), machine(id), network.vertices[id].in);
      edge(machine(id), out_side(id), network.vertices[id].out);
      if (id < workers && machine(id)) ++inside;
    }
    for (const Link& link : network.links)
      edge(out_side(link.from), in_side(link.to), link.capacity);
    if (inside == 0 || inside == workers) continue;
    busiest = std::max(busiest, static_cast<double>(inside) / capacity);
  }
  return busiest / static_cast<double>(workers);
}

TEST(NetworkBound, IsThatOfTheBusiestSetOfMachines) {
  std::mt19937_64 random(3);
  for (int trial = 0; trial < 100; ++trial) {
    std::uniform_real_distribution<double> speed(1e9, 5e9);
    Network network;
    const std::size_t machines = 2 + random() % 2, workers = 2 + random() % (machines - 1);
    for (std::size_t i = 0; i < machines; ++i) {
      Vertex& one =
          network.vertices.emplace_back(machine(i < workers ? Role::kWorker : Role::kHelper, 0));
      one.in = speed(random);
      one.out = speed(random);
    }
    network.vertices.push_back(Vertex{.role = Role::kSwitch});
    for (VertexId a = 0; a <= machines; ++a) {
      for (VertexId b = 0; b <= machines; ++b) {
        if (a == b || (a != machines && b != machines && random() % 2 == 0)) continue;
        network.links.push_back({a, b, speed(random) / 2});
      }
    }
    const auto found = least_seconds(network, first(workers));
    ASSERT_TRUE(found.ok()) << found.error().message;
    expect_time(found->up, busiest_set(network, workers, true));
    expect_time(found->down, busiest_set(network, workers, false));
  }
}

TEST(NetworkBound, OfNicsIsTheirShareOfTheBytes) {
  auto machines = equal_machines(4, 2, 11.7e9);
  machines[1].in = 11.6e9;  // no unit fits both
  const auto in = least_seconds(star_network(machines), first(4));
  ASSERT_TRUE(in.ok()) << in.error().message;
  expect_time(in->up, 0.75 / 11.7e9);  // one sum comes in for a worker, three leave it for others
  expect_time(in->down, 0.75 / 11.6e9);
  machines[1].in = 11.7e9;
  machines[1].out = 2e9;
  const auto out = least_seconds(star_network(machines), first(4));
  ASSERT_TRUE(out.ok()) << out.error().message;
  expect_time(out->up, 0.75 / 2e9);
  expect_time(out->down, 0.25 / 2e9);
}

TEST(NetworkBound, RefusesWithTheReason) {
  const Network network = star_network(equal_machines(3, 0, 1e9));
  EXPECT_EQ(least_seconds(network, first(1)).error().message,
            "1 workers: must be 2 to 256 for reduce-scatters and all-gathers");
  Network parted = network;
  std::erase_if(parted.links, [](const Link& link) { return link.from == 2; });
  EXPECT_EQ(least_seconds(parted, first(3)).error().message,
            "links do not lead from each worker to each other one; add links");
}

}  // namespace
}  // namespace tally::plan::forestcoll
