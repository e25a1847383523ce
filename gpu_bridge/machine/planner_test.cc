// The chosen strategy against all others, on small random machines and on those of the paper.
#include "gpu_bridge/machine/planner.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>

#include "base/lp/lp.h"
#include "gpu_bridge/machine/rings.h"
#include "gpu_bridge/machine/test_hosts.h"

namespace tally::host {
namespace {

constexpr int kShareSteps = 4;  // shares are multiples of 1 / kShareSteps

// Calls visit() for all ways to give each group's GPUs shares at this memory and NIC.
void every_share(std::vector<Group>& groups, std::size_t group, VertexId memory, VertexId nic,
                 const std::function<void()>& visit) {
  if (group == groups.size()) return visit();
  const auto& ring = groups[group].ring;
  std::vector<int> steps(ring.size());
  const std::function<void(std::size_t, int)> give = [&](std::size_t member, int left) {
    if (member + 1 < ring.size()) {
      for (steps[member] = 0; steps[member] <= left; ++steps[member]) {
        give(member + 1, left - steps[member]);
      }
      return;
    }
    steps[member] = left;
    groups[group].shares.clear();
    for (std::size_t i = 0; i < ring.size(); ++i) {
      if (steps[i] > 0) {
        groups[group].shares.push_back({ring[i], memory, nic, steps[i] / double{kShareSteps}});
      }
    }
    every_share(groups, group + 1, memory, nic, visit);
  };
  give(0, kShareSteps);
}

// Calls visit(groups) for every strategy of the grid. A GPU's label says which group it is in.
void every_strategy(const Routes& routes,
                    const std::function<void(const std::vector<Group>&)>& visit) {
  const Host& host = routes.host();
  const auto gpus = host.all(Kind::kGpu);
  Rings rings(routes);
  std::vector<std::size_t> label(gpus.size());
  const std::function<void(std::size_t, std::size_t)> assign = [&](std::size_t gpu,
                                                                   std::size_t labels) {
    if (gpu < gpus.size()) {
      for (label[gpu] = 0; label[gpu] <= labels; ++label[gpu]) {
        assign(gpu + 1, std::max(labels, label[gpu] + 1));
      }
      return;
    }
    std::vector<GpuSet> sets(labels);
    for (std::size_t i = 0; i < gpus.size(); ++i) sets[label[i]] |= GpuSet{1} << i;
    std::vector<Group> groups;
    for (const GpuSet set : sets) groups.push_back(group_of(routes, rings.ring(set)));
    for (const VertexId memory : host.all(Kind::kNuma)) {
      for (const VertexId nic : host.all(Kind::kNic)) {
        every_share(groups, 0, memory, nic, [&] { visit(groups); });
      }
    }
  };
  assign(0, 0);
}

TEST(HostPlanner, ChoosesTheOptimumOfSmallRandomMachines) {
  if (!lp::is_available()) GTEST_SKIP() << "this build has no Clp";
  std::mt19937 random(3);
  for (int trial = 0; trial < 150; ++trial) {
    SCOPED_TRACE(trial);
    const Host host = random_host(random, 4);
    ASSERT_TRUE(check(host).ok());
    const Routes routes(host);
    const HostPlan plan = plan_host(routes);
    EXPECT_TRUE(plan.every_division());
    double least = 1e9;
    every_strategy(routes, [&](const std::vector<Group>& groups) {
      const Cost cost = cost_of(routes, groups);
      least = std::min(least, cost.tau);
      const bool is_simple = cost.copies == groups.size();
      const bool beats = is_simple ? is_better(cost, plan.chosen.cost)
                                   : cost.tau < plan.chosen.cost.tau * (1 - kEqual);
      EXPECT_FALSE(beats) << describe(host, groups) << " is better than "
                          << describe(host, plan.chosen.groups);
    });
    EXPECT_LE(plan.chosen.cost.tau, least * (1 + kEqual));
    // A share changes by at most 1/8 to a multiple of 1/4, and so no load by more than a part.
    EXPECT_GE(plan.chosen.cost.tau, least * 0.6) << "the grid has something near";
  }
}

// Differences near the solver's tolerances are the hardest.
TEST(HostPlanner, ComparesEveryDivisionWhereSpeedsDifferByLittle) {
  if (!lp::is_available()) GTEST_SKIP() << "this build has no Clp";
  std::mt19937 random(1);
  for (int trial = 0; trial < 60; ++trial) {
    SCOPED_TRACE(trial);
    HostBuilder builder;
    const VertexId cpus[] = {builder.numa("cpu0"), builder.numa("cpu1")};
    builder.join(cpus[0], cpus[1], Bus::kSocket, kSocketsSpeed);
    VertexId switches[2];
    for (int i = 0; i < 2; ++i) {
      switches[i] = builder.device(Kind::kSwitch, "p" + std::to_string(i), cpus[i]);
      builder.port(builder.device(Kind::kNic, "nic" + std::to_string(i), switches[i]), kNicSpeed);
    }
    for (int i = 0; i < 4; ++i) {
      builder.device(Kind::kGpu, "gpu" + std::to_string(i), switches[i % 2]);
    }
    for (Link& link : builder.host.links) link.speed *= 1 + 1e-11 * (random() % 1000);
    const Routes routes(builder.host);
    const HostPlan plan = plan_host(routes);
    EXPECT_EQ(plan.divisions, 15u);
    EXPECT_TRUE(plan.every_division());
  }
}

// Speeds of 1 B/s to 1e15 B/s, as a file may have them.
TEST(HostPlanner, AllGroupsDivideTheBytesAlikeWhereSpeedsDifferALot) {
  std::mt19937 random(5);
  for (int trial = 0; trial < 600; ++trial) {
    SCOPED_TRACE(trial);
    HostBuilder builder;
    builder.host = random_host(random, 4);
    const VertexId numa = builder.host.all(Kind::kNuma).back();
    builder.port(builder.device(Kind::kNic, "nic1", numa), kNicSpeed);
    for (Link& link : builder.host.links) link.speed = std::pow(10, random() % 1500 / 100.0);
    const Routes routes(builder.host);
    HostPlan plan = plan_host(routes);
    EXPECT_TRUE(std::isfinite(plan.chosen.cost.tau));
    plan.named.push_back(plan.chosen);
    for (const Strategy& strategy : plan.named) {
      std::map<std::pair<VertexId, VertexId>, double> first;
      for (const Share& share : strategy.groups[0].shares) {
        first[{share.memory, share.nic}] += share.weight;
      }
      for (const Group& group : strategy.groups) {
        double whole = 0;
        auto rest = first;
        for (const Share& share : group.shares) {
          whole += share.weight;
          rest[{share.memory, share.nic}] -= share.weight;
        }
        EXPECT_NEAR(whole, 1, 1e-8) << strategy.name;
        for (const auto& [place, weight] : rest) EXPECT_NEAR(weight, 0, 1e-8) << strategy.name;
      }
    }
  }
}

TEST(HostPlanner, NvlinksOneWayMakeNoIsland) {
  HostBuilder builder;
  const VertexId cpu = builder.numa("cpu");
  const VertexId gpus[] = {builder.device(Kind::kGpu, "gpu0", cpu),
                           builder.device(Kind::kGpu, "gpu1", cpu),
                           builder.device(Kind::kGpu, "gpu2", cpu)};
  builder.host.links.push_back({gpus[1], gpus[0], Bus::kNvlink, kNvlinkSpeed});
  builder.join(gpus[1], gpus[2], Bus::kNvlink, kNvlinkSpeed);
  const Routes routes(builder.host);
  EXPECT_EQ(nvlink_islands(routes), (std::vector<GpuSet>{0b001, 0b110}));
}

TEST(HostPlanner, WithoutClpThePlanIsTheBestOfSimpleSharesAndNotCalledComplete) {
  if (lp::is_available()) GTEST_SKIP() << "this build has Clp";
  std::mt19937 random(3);
  for (int trial = 0; trial < 150; ++trial) {
    const Host host = random_host(random, 4);
    const Routes routes(host);
    const HostPlan plan = plan_host(routes);
    EXPECT_FALSE(plan.every_division());
    for (const Strategy& named : plan.named) EXPECT_FALSE(is_better(named.cost, plan.chosen.cost));
  }
}

TEST(HostPlanner, TheRingOfASetIsTheBestOfAllOrders) {
  std::mt19937 random(5);
  for (int trial = 0; trial < 40; ++trial) {
    const Host host = random_host(random, 6);
    const Routes routes(host);
    Rings rings(routes);
    const GpuSet all = (GpuSet{1} << rings.gpus()) - 1;
    const double chosen = cost_of(routes, {group_of(routes, rings.ring(all))}).tau;
    std::vector<VertexId> order = host.all(Kind::kGpu);
    do {
      EXPECT_GE(cost_of(routes, {group_of(routes, order)}).tau, chosen * (1 - kEqual));
    } while (std::next_permutation(order.begin(), order.end()));
  }
}

TEST(HostPlanner, GivesTheSamePlanAgain) {
  std::mt19937 random(7);
  for (int trial = 0; trial < 20; ++trial) {
    SCOPED_TRACE(trial);
    const Host host = random_host(random, 5), copy = host;
    const HostPlan plan = plan_host(Routes(host)), again = plan_host(Routes(copy));
    EXPECT_EQ(plan.divisions, again.divisions);
    EXPECT_EQ(describe(host, plan.chosen.groups), describe(host, again.chosen.groups));
    EXPECT_EQ(plan.chosen.cost.loads, again.chosen.cost.loads);
  }
}

TEST(HostPlanner, PcieSwitchesSumTheirGpusFirst) {
  const HostPlan& plan = plan_of(pcie_host());
  EXPECT_EQ(plan.divisions, 4140u) << "the ways to divide 8 GPUs";
  EXPECT_EQ(plan.chosen.name, "CPU-assisted");
  EXPECT_NEAR(plan.chosen.cost.tau, 1.75 / kPcieSpeed, 1e-20);
}

TEST(HostPlanner, NvlinksReduceToOneGpuAwayFromTheNic) {
  const HostPlan& plan = plan_of(nvlink_host());
  EXPECT_EQ(plan.chosen.name, "reduce");
  EXPECT_EQ(plan.chosen.cost.copies, 1u);
  EXPECT_NEAR(plan.chosen.cost.tau, 1 / kNicSpeed, 1e-20);
}

// With a NIC that is faster than PCIe, the link of the NIC's switch and those of the others must
// carry the same. The NIC's switch has a NIC alone, and the others share the copies.
TEST(HostPlanner, SharesKeepTheNicsLinkFreeWhenItBinds) {
  if (!lp::is_available()) GTEST_SKIP() << "this build has no Clp";
  Host host = nvlink_host();
  for (Link& link : host.links) {
    if (link.bus == Bus::kPort) link.speed = 1e12;
    // A GPU's own link at 0.4 of its switch's: no single GPU is enough.
    const bool of_gpu =
        host.vertices[link.from].kind == Kind::kGpu || host.vertices[link.to].kind == Kind::kGpu;
    if (link.bus == Bus::kPcie && of_gpu) link.speed = 0.4 * kPcieSpeed;
  }
  const Routes routes(host);
  const HostPlan plan = plan_host(routes);
  EXPECT_NEAR(plan.chosen.cost.tau, 1 / kPcieSpeed, 1e-19);
  ASSERT_EQ(plan.chosen.groups.size(), 1u);
  for (const Share& share : plan.chosen.groups[0].shares) {
    EXPECT_NE(host.vertices[host.vertices[share.gpu].under].name, "p0");
    EXPECT_LE(share.weight, 0.4 + 1e-9);
  }
}

TEST(HostPlanner, MixedMachinesSumOverNvlinksFirst) {
  const HostPlan& plan = plan_of(mixed_host(true));
  EXPECT_NEAR(plan.chosen.cost.tau, 1 / kNicSpeed, 1e-20);
  ASSERT_EQ(plan.chosen.groups.size(), 2u);
  // The pairs below a switch would load its link twice, so all four sum first.
  EXPECT_LT(plan_of(mixed_host(false)).chosen.cost.tau, 2 / kPcieSpeed);
}

TEST(HostPlanner, OneGpuCopiesAll) {
  HostBuilder builder;
  const VertexId cpu = builder.numa("cpu");
  builder.device(Kind::kGpu, "gpu0", cpu);
  builder.device(Kind::kNic, "nic0", cpu);
  const Routes routes(builder.host);
  const HostPlan plan = plan_host(routes);
  EXPECT_EQ(plan.chosen.name, "none");
  EXPECT_NEAR(plan.chosen.cost.tau, 1 / kPcieSpeed, 1e-20);
}

TEST(HostPlanner, SixteenGpusWithEightNics) {
  HostBuilder builder;
  const VertexId cpus[] = {builder.numa("cpu0"), builder.numa("cpu1")};
  builder.join(cpus[0], cpus[1], Bus::kSocket, kSocketsSpeed);
  const VertexId nvs = builder.nvswitch("nvs");
  for (int i = 0; i < 8; ++i) {
    const VertexId one =
        builder.device(Kind::kSwitch, "p" + std::to_string(i), cpus[i / 4], 2 * kPcieSpeed);
    builder.port(builder.device(Kind::kNic, "nic" + std::to_string(i), one), kNicSpeed);
    for (int gpu = 2 * i; gpu < 2 * i + 2; ++gpu) {
      builder.join(builder.device(Kind::kGpu, "gpu" + std::to_string(gpu), one), nvs, Bus::kNvlink,
                   10 * kNvlinkSpeed);
    }
  }
  const Routes routes(builder.host);
  const HostPlan plan = plan_host(routes);
  EXPECT_FALSE(plan.every_division());
  // Eight NICs each carry an eighth.
  EXPECT_NEAR(plan.chosen.cost.tau, 1 / (8 * kNicSpeed), 1e-3 / kNicSpeed);
  // Equal shares by the nearest NICs are as fast as any, and bytes do not cross the sockets.
  EXPECT_EQ(plan.chosen.name, "reduce-scatter");
  for (const Share& share : plan.chosen.groups[0].shares) {
    EXPECT_EQ(builder.host.vertices[share.gpu].under, builder.host.vertices[share.nic].under);
  }
}

}  // namespace
}  // namespace tally::host
