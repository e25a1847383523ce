// Times that have a closed form, within 5 %. B is 1 GB/s, so M / B is 1 s for each GB.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <tuple>

#include "control/sim/runs/simulate.h"
#include "tests/support/control/test_plans.h"
#include "tests/support/perf/packed_trees.h"
#include "tests/support/tier.h"

namespace tally::simulator {
namespace {

constexpr std::uint64_t kOperation = 256 << 20;
constexpr double kSecondsOfBytes = static_cast<double>(kOperation) / 1e9;  // M / B

plan::Network full_bisection(std::size_t workers, std::size_t helpers) {
  return plan::star_network(plan::equal_machines(workers, helpers, 1e9));
}

Simulated run(std::string_view name, const plan::Network& network, std::uint64_t chunk = 256 << 10,
              std::uint64_t bytes = kOperation) {
  const Question question{network, plan::workers_of(network), bytes, chunk};
  const auto work = make_baseline(name, question);
  if (!work) throw std::runtime_error(work.error().message);
  const auto result = simulate(network, question.workers, *work, Scenario{});
  if (!result) throw std::runtime_error(result.error().message);
  EXPECT_GE(result->seconds, result->bound * (1 - 1e-9)) << name;
  return *result;
}

void expect_near(const Simulated& result, double closed_form, const std::string& what) {
  EXPECT_NEAR(result.seconds / closed_form, 1, 0.05) << what;
  EXPECT_NEAR(result.bound / closed_form, 1, 0.05) << what;
}

TEST(ClosedForms, Ring) {
  for (const double n : {2, 3, 5, 8, 16, 33}) {
    const auto network = full_bisection(static_cast<std::size_t>(n), 0);
    expect_near(run("ring", network), 2 * (n - 1) / n * kSecondsOfBytes, std::to_string(n));
  }
}

TEST(ClosedForms, RecursiveHalvingAndDoubling) {
  for (const double n : {2, 4, 8, 32}) {
    const auto network = full_bisection(static_cast<std::size_t>(n), 0);
    expect_near(run("halving-doubling", network), 2 * (n - 1) / n * kSecondsOfBytes,
                std::to_string(n));
  }
}

// The workers above the power of two send all bytes first and get all at the end. Their partners
// carry that besides their own 2 (p - 1) / p.
TEST(ClosedForms, HalvingAndDoublingOfOtherNumbersOfWorkers) {
  for (const double n : {3, 6, 13}) {
    const double p = std::bit_floor(static_cast<unsigned>(n));
    const Simulated result =
        run("halving-doubling", full_bisection(static_cast<std::size_t>(n), 0));
    const double partner = (1 + 2 * (p - 1) / p) * kSecondsOfBytes;
    EXPECT_NEAR(result.bound, partner, 0.01 * partner) << n;
    EXPECT_LE(result.seconds, (2 + 2 * (p - 1) / p) * kSecondsOfBytes * 1.05) << n;
  }
}

TEST(ClosedForms, DoubleBinaryTreesCarryTwiceTheBytes) {
  for (const std::size_t n : {4U, 8U, 15U, 16U, 32U, 100U}) {
    expect_near(run("double-binary-tree", full_bisection(n, 0)), 2 * kSecondsOfBytes,
                std::to_string(n));
  }
}

TEST(ClosedForms, ParameterServers) {
  for (const auto& [n, k] : {std::pair{4.0, 1.0}, {8, 2}, {8, 8}, {3, 5}}) {
    const auto network = full_bisection(static_cast<std::size_t>(n), static_cast<std::size_t>(k));
    expect_near(run("ps", network), n * kSecondsOfBytes, "one server");
    expect_near(run("ps-sharded", network), std::max(n / k, 1.0) * kSecondsOfBytes, "sharded");
    expect_near(run("ps-colocated", network), 2 * (n - 1) / n * kSecondsOfBytes, "colocated");
  }
}

TEST(ClosedForms, BytePsShares) {
  std::vector<std::pair<double, double>> cases = {{3, 1}, {3, 2}, {4, 1}, {4, 2}, {5, 2}, {2, 1}};
  for (double k = 0; k <= 8; ++k) cases.emplace_back(8, k);
  for (const auto& [n, k] : cases) {
    const double d = n * n + k * n - 2 * k;
    const auto network = full_bisection(static_cast<std::size_t>(n), static_cast<std::size_t>(k));
    expect_near(run("byteps", network), 2 * n * (n - 1) / d * kSecondsOfBytes,
                std::to_string(n) + ", " + std::to_string(k));
  }
}

TEST(ClosedForms, BytePsHashesAreUneven) {
  const auto network = full_bisection(32, 8);
  const Simulated even = run("byteps", network, 4096000);
  const Simulated hashed = run("byteps-hash", network, 4096000);
  EXPECT_GT(hashed.seconds / even.seconds, 1.1);
  EXPECT_LT(hashed.seconds / even.seconds, 10);
}

// Three phases one after the other: 2 (w - 1) / w in the racks, 2 (R - 1) / R of each w-th share
// across, by the NIC or by the rack's link.
TEST(ClosedForms, HierarchicalRing) {
  for (const auto& [r, w, u] : {std::tuple{2.0, 4.0, 2.0}, {2, 4, 0.5}, {4, 4, 8}, {8, 2, 1}}) {
    const auto network =
        plan::racks(static_cast<std::uint32_t>(r), static_cast<std::uint32_t>(w), 0, u);
    const double across = 2 * (r - 1) / r * std::max(1 / w, 1 / u);
    const Simulated result = run("hierarchical-ring", network, 64 << 10);
    EXPECT_NEAR(result.seconds / ((2 * (w - 1) / w + across) * kSecondsOfBytes), 1, 0.05)
        << r << w << u;
  }
}

TEST(ClosedForms, ARingOverRacksIsBoundByItsOneFlowAcross) {
  expect_near(run("ring", plan::racks(2, 4, 0, 0.5)), 3.5 * kSecondsOfBytes, "8:1");
  expect_near(run("ring", plan::racks(2, 4, 0, 1)), 1.75 * kSecondsOfBytes, "4:1");
}

// 2 (n - 1) / n over NICs, 2 (R - 1) / R over the racks' links. Helpers do not help, and one slow
// NIC holds up both phases.
TEST(ClosedForms, ReduceScatterAndAllGatherOfForestColl) {
  for (const std::size_t helpers : {0U, 4U}) {
    expect_near(run("forestcoll", full_bisection(8, helpers), 64 << 10), 1.75 * kSecondsOfBytes,
                std::to_string(helpers));
  }
  expect_near(run("forestcoll", plan::racks(2, 4, 1, 1), 64 << 10), 1.75 * kSecondsOfBytes, "4:1");
  expect_near(run("forestcoll", plan::racks(2, 4, 2, 0.5), 64 << 10), 2 * kSecondsOfBytes, "8:1");
  auto machines = plan::equal_machines(8, 0, 4e9);
  machines[1].in = machines[1].out = 1e9;
  const Simulated slow = run("forestcoll", plan::star_network(machines), 64 << 10);
  EXPECT_NEAR(slow.seconds / (1.75 * kSecondsOfBytes), 1, 0.05);
}

TEST(ClosedForms, RacksOfUnequalSizeHaveNoHierarchicalRing) {
  plan::Network network = plan::racks(2, 2, 0, 1);
  network.vertices[0].rack = 1;
  const auto work = make_baseline(
      "hierarchical-ring", Question{network, plan::workers_of(network), kOperation, 1 << 20});
  ASSERT_FALSE(work.ok());
  EXPECT_EQ(work.error().message,
            "hierarchical-ring: a rack has 1 workers and another has 3; it needs racks of equal "
            "size");
}

TEST(ClosedForms, ABaselineThatDoesNotExistIsRefused) {
  const plan::Network network = full_bisection(2, 0);
  const Question question{network, {0, 1}, kOperation, 1 << 20};
  EXPECT_NE(make_baseline("rong", question).error().message.find("there are ring"),
            std::string::npos);
  EXPECT_NE(make_baseline("ps-sharded", question).error().message.find("no helpers"),
            std::string::npos);
}

TEST(ClosedForms, AWorkerAloneHasNothingToSend) {
  for (const Baseline& baseline : baselines()) {
    if (baseline.name == "ps-sharded") continue;
    EXPECT_EQ(run(baseline.name, full_bisection(1, 0), 1 << 20).seconds, 0) << baseline.name;
  }
}

// 1024 workers and 1 GiB in chunks of 1 MiB: 2 million transfers.
TEST(ClosedForms, HoldForManyWorkers) {
  const std::size_t n = testing::test_tier() == "soak" ? 1024 : 128;
  const std::uint64_t bytes = std::uint64_t{n} << 20;
  const auto network = full_bisection(n, 0);
  const double closed_form =
      2 * static_cast<double>(n - 1) / static_cast<double>(n) * static_cast<double>(bytes) / 1e9;
  for (const char* name : {"ring", "halving-doubling"}) {
    EXPECT_NEAR(run(name, network, 1 << 20, bytes).seconds / closed_form, 1, 0.05) << name;
  }
  const double star = static_cast<double>(n - 1) * static_cast<double>(bytes) / 1e9;
  EXPECT_NEAR(run("ps", network, 1 << 20, bytes).seconds / star, 1, 0.05);
}

}  // namespace
}  // namespace tally::simulator
