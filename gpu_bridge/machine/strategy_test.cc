// What strategies cost, against the formulas in strategy.h.
#include "gpu_bridge/machine/strategy.h"

#include <gtest/gtest.h>

#include "gpu_bridge/machine/planner.h"
#include "gpu_bridge/machine/rings.h"
#include "gpu_bridge/machine/test_hosts.h"

namespace tally::host {
namespace {

class Named {
 public:
  explicit Named(const Host& host) : routes_(host), plan_(plan_of(host)) {}

  const Strategy& named(std::string_view name) const {
    for (const Strategy& strategy : plan_.named) {
      if (strategy.name == name) return strategy;
    }
    ADD_FAILURE() << "there is no strategy " << name;
    return plan_.chosen;
  }
  const HostPlan& plan() const { return plan_; }
  const Routes& routes() const { return routes_; }

  double load(std::string_view strategy, std::string_view from, std::string_view to) const {
    const Host& host = routes_.host();
    for (ResourceId i = 0; i < host.links.size(); ++i) {
      const Link& link = host.links[i];
      if (host.vertices[link.from].name == from && host.vertices[link.to].name == to) {
        return named(strategy).cost.loads[i];
      }
    }
    ADD_FAILURE() << "no link from " << from << " to " << to;
    return 0;
  }

 private:
  Routes routes_;
  const HostPlan& plan_;
};

// BytePS, section 4.2.1: with l GPUs at a switch, (l-1)/l in step 1 and in step 6, and 1/l in steps
// 2 and 5; so each switch moves 1 to the CPU and 1 back.
TEST(StrategyCost, CpuAssistedAggregationOfPcieSwitches) {
  for (const int l : {1, 2, 3, 4}) {
    SCOPED_TRACE(l);
    const Host host = pcie_host(l);
    const Named machine(host);
    const std::string_view name = l == 1 ? "none" : "CPU-assisted";
    for (const auto& [from, to] : {std::pair{"gpu0", "p0"}, {"p0", "gpu0"}}) {
      EXPECT_NEAR(machine.load(name, from, to), 2.0 * (l - 1) / l + 1.0 / l, 1e-12);
    }
    for (const auto& [from, to] : {std::pair{"p0", "cpu0"},
                                   {"cpu0", "p0"},
                                   {"p1", "cpu1"},
                                   {"cpu1", "p1"},
                                   {"cpu1", "cpu0"},
                                   {"cpu0", "cpu1"},
                                   {"cpu0", "nic0"},
                                   {"nic0", "network"}}) {
      EXPECT_NEAR(machine.load(name, from, to), 1, 1e-12) << from << " -> " << to;
    }
    EXPECT_EQ(machine.named(name).cost.copies, static_cast<std::size_t>(2 * l));
  }
}

TEST(StrategyCost, WithoutGroupsASwitchMovesWhatAllItsGpusHave) {
  const Host host = pcie_host();
  const Named machine(host);
  EXPECT_NEAR(machine.load("none", "gpu0", "p0"), 1, 1e-12);
  EXPECT_NEAR(machine.load("none", "p0", "cpu0"), 4, 1e-12);
  EXPECT_NEAR(machine.load("none", "cpu0", "p0"), 4, 1e-12);
  EXPECT_NEAR(machine.named("none").cost.tau, 4 / kPcieSpeed, 1e-20);
}

// What all-reduce over all n GPUs costs: 2 (n-1)/n for each hop, and hops that cross.
TEST(StrategyCost, ReduceScatterOverPcieSwitchesCrossesTheCpu) {
  const Host host = pcie_host();
  const Named machine(host);
  const double ring = 2 * 7.0 / 8;
  EXPECT_NEAR(machine.load("reduce-scatter", "gpu0", "p0"), ring + 1.0 / 8, 1e-12);
  EXPECT_NEAR(machine.load("reduce-scatter", "p0", "cpu0"), ring + 4.0 / 8, 1e-12);
  EXPECT_NEAR(machine.load("reduce-scatter", "cpu0", "p0"), ring + 4.0 / 8, 1e-12);
  const Cost& cost = machine.named("reduce-scatter").cost;
  EXPECT_EQ(machine.routes().name(cost.binds), "copies from GPU to GPU through cpu0");
  // A hop of the ring passes each NUMA node each way, and so twice.
  EXPECT_NEAR(cost.tau, 2 * ring / kPeerSpeed, 1e-20);
}

// BytePS, section 4.2.2: reduce to a GPU whose switch has no NIC, so that the NIC has its switch's
// link for itself.
TEST(StrategyCost, ReduceOverNvlinksLeavesTheNicsSwitchAlone) {
  const Host host = nvlink_host();
  const Named machine(host);
  EXPECT_NEAR(machine.load("reduce", "p0", "cpu0"), 1, 1e-12) << "what the NIC receives";
  EXPECT_NEAR(machine.load("reduce", "cpu0", "p0"), 1, 1e-12) << "what the NIC sends";
  const Group& group = machine.named("reduce").groups[0];
  ASSERT_EQ(group.shares.size(), 1u);
  EXPECT_NE(host.vertices[host.vertices[group.shares[0].gpu].under].name, "p0");
  EXPECT_NEAR(machine.named("reduce").cost.tau, 1 / kNicSpeed, 1e-20)
      << "only the NIC's port binds";
  // Equal shares: the two GPUs at the NIC's switch add a quarter.
  EXPECT_NEAR(machine.load("reduce-scatter", "p0", "cpu0"), 1 + 2.0 / 8, 1e-12);
  EXPECT_NEAR(machine.load("reduce-scatter", "gpu0", "nvs"), 2 * 7.0 / 8, 1e-12);
  EXPECT_NEAR(machine.named("reduce-scatter").cost.tau, 1.25 / kPcieSpeed, 1e-20);
}

TEST(StrategyCost, GroupsOfAPairSendOnceEachWay) {
  const Host host = mixed_host(false);
  const Named machine(host);
  EXPECT_NEAR(machine.load("NVLink islands", "gpu0", "gpu1"), 1, 1e-12);
  EXPECT_NEAR(machine.load("NVLink islands", "gpu1", "gpu0"), 1, 1e-12);
  EXPECT_NEAR(machine.load("NVLink islands", "gpu0", "p0"), 0.5, 1e-12);
  EXPECT_NEAR(machine.load("NVLink islands", "p0", "cpu0"), 2, 1e-12);
}

TEST(StrategyCost, GroupsOfAQuadHaveRingsBothWays) {
  const Host host = mixed_host(true);
  const Named machine(host);
  // Four hops each way with half of 2 * 3/4.
  EXPECT_NEAR(machine.load("NVLink islands", "gpu0", "gpu1"), 0.75, 1e-12);
  EXPECT_NEAR(machine.load("NVLink islands", "gpu1", "gpu0"), 0.75, 1e-12);
  EXPECT_NEAR(machine.load("NVLink islands", "gpu0", "p0"), 0.25, 1e-12);
  EXPECT_NEAR(machine.load("NVLink islands", "p0", "cpu0"), 1, 1e-12);
}

TEST(StrategyCost, SumsCountWhatEachGroupBrings) {
  Host host = pcie_host();
  host.vertices[host.find("cpu0")].sum = host.vertices[host.find("cpu1")].sum = 20e9;
  const Named machine(host);
  const Cost& cost = machine.named("none").cost;
  double sums = 0;
  for (const char* cpu : {"cpu0", "cpu1"}) sums += cost.loads[machine.routes().sum(host.find(cpu))];
  EXPECT_NEAR(sums, 8, 1e-12) << "8 groups";
  for (const char* cpu : {"cpu0", "cpu1"}) {
    EXPECT_EQ(machine.named("reduce").cost.loads[machine.routes().sum(host.find(cpu))], 0);
  }
}

TEST(StrategyCost, TimeDecidesBeforeCopiesAndCopiesBeforeBytes) {
  const auto cost = [](double tau, std::size_t copies, double moved) {
    return Cost{{}, tau, 0, copies, moved};
  };
  EXPECT_TRUE(is_better(cost(1, 9, 9), cost(1.1, 1, 1)));
  EXPECT_FALSE(is_better(cost(1.1, 1, 1), cost(1, 9, 9)));
  EXPECT_TRUE(is_better(cost(1 + 1e-12, 1, 9), cost(1, 2, 1)));
  EXPECT_FALSE(is_better(cost(1, 2, 1), cost(1 + 1e-12, 1, 9)));
  EXPECT_TRUE(is_better(cost(1, 1, 1), cost(1, 1, 1.1)));
  EXPECT_FALSE(is_better(cost(1, 1, 1), cost(1, 1, 1 + 1e-12)));
}

TEST(StrategyDescribe, NamesGroupsAndShares) {
  const Host host = nvlink_host();
  const Named machine(host);
  EXPECT_EQ(describe(host, machine.named("reduce-scatter").groups),
            "gpu0 gpu1 gpu2 gpu3 gpu4 gpu5 gpu6 gpu7 (equal shares)");
  const VertexId gpu0 = host.find("gpu0"), gpu1 = host.find("gpu1"), gpu2 = host.find("gpu2");
  const Group pair{
      {gpu0, gpu1}, false, {{gpu0, 1, 2, 0.5}, {gpu1, 1, 2, 0.25}, {gpu0, 1, 3, 0.25}}};
  const Group single{{gpu2}, false, {{gpu2, 1, 2, 0.75}, {gpu2, 1, 3, 0.25}}};
  EXPECT_EQ(describe(host, {pair, single}), "gpu0 gpu1 (gpu0 75%, gpu1 25%) | gpu2");
}

}  // namespace
}  // namespace tally::host
