#include "control/sim/runs/simulate.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <memory>

#include "control/sim/core/ready_times.h"
#include "control/sim/core/repair.h"
#include "control/sim/runs/node_run.h"
#include "control/sim/runs/transfer_run.h"
#include "control/sim/runs/tree_run.h"

namespace tally::simulator {
namespace {

plan::Network slowed(const plan::Network& network, std::span<const SlowMachine> slow) {
  plan::Network result = network;
  for (const auto& [machine, factor] : slow) {
    result.vertices[machine].in /= factor;
    result.vertices[machine].out /= factor;
    for (plan::Link& link : result.links) {
      if (link.from == machine || link.to == machine) link.capacity /= factor;
    }
  }
  return result;
}

double bytes_of(const Work& work) {
  const auto* trees = std::get_if<TreeSet>(&work);
  return static_cast<double>(trees != nullptr ? trees->total() : std::get<Transfers>(work).bytes);
}

// The seconds of the busiest passage.
double bound_of(const plan::Network& network, const Work& work) {
  if (const auto* set = std::get_if<TreeSet>(&work)) {
    plan::Routes routes(network);
    return plan::evaluate(routes, set->trees, set->shares()).tau * bytes_of(work);
  }
  Passages passages(network);
  std::vector<double> bytes(passages.size());
  for (const Transfer& one : std::get<Transfers>(work).list) {
    if (one.from == one.to) continue;
    for (const std::uint32_t passage : passages.of(passages.way(one.from, one.to, one.sums))) {
      bytes[passage] += one.bytes;
    }
  }
  double longest = 0;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    longest = std::max(longest, bytes[i] / passages[i].capacity);
  }
  return longest;
}

// One try of the operation, with a network and a clock of its own.
class Try {
 public:
  Try(const plan::Network& network, std::span<const plan::VertexId> workers, const Work& work,
      const Scenario& scenario, const ReadyTimes& ready, double bound)
      : passages_(network), fabric_(passages_, scenario.fabric) {
    if (const auto* transfers = std::get_if<Transfers>(&work)) {
      run_ = std::make_unique<TransferRun>(fabric_, passages_, *transfers, ready);
      return;
    }
    const auto& set = std::get<TreeSet>(work);
    if (scenario.rules == Rules::kIdeal) {
      run_ = std::make_unique<TreeRun>(fabric_, passages_, set, workers, ready,
                                       scenario.tiles_in_flight, bound);
      return;
    }
    const double rate = bound > 0 ? static_cast<double>(set.total()) / bound : 1e18;
    run_ = std::make_unique<NodeRun>(fabric_, passages_, set, workers, ready, scenario.nodes, rate);
  }

  // Returns whether the operation has ended.
  bool run_until(double seconds) {
    run_->start();
    fabric_.run(*run_, seconds);
    return run_->done();
  }

  void add_to(Simulated& outcome) const {
    outcome.seconds += fabric_.now();
    outcome.events += fabric_.events();
    outcome.longest_queue = std::max(outcome.longest_queue, fabric_.longest_queue());
    const std::vector<double> bytes = fabric_.bytes();
    for (std::size_t i = 0; i < bytes.size(); ++i) outcome.loads[i].bytes += bytes[i];
  }

 private:
  Passages passages_;
  Fabric fabric_;
  std::unique_ptr<Run> run_;
};

Simulated begin_outcome(const plan::Network& network) {
  Simulated outcome;
  const Passages passages(network);
  for (std::size_t i = 0; i < passages.size(); ++i) outcome.loads.push_back(passages[i]);
  return outcome;
}

Outcome check(const Work& work, const Scenario& scenario) {
  const auto* set = std::get_if<TreeSet>(&work);
  if (set == nullptr && scenario.failure) {
    return invalid("an operation without trees has no repair; leave the failure out");
  }
  if (set == nullptr || scenario.rules == Rules::kIdeal) return Unit{};
  const auto has_down = [](const plan::Tree& tree) { return !tree.down.empty(); };
  if (std::any_of(set->trees.begin(), set->trees.end(), has_down)) {
    return invalid(
        "the rules of nodes are simulated for trees without \"down\"; take the ideal rules");
  }
  return Unit{};
}

}  // namespace

Result<Simulated> simulate(const plan::Network& network, std::span<const plan::VertexId> workers,
                           const Work& work, const Scenario& scenario) {
  if (const auto fits = check(work, scenario); !fits) return fits.error();
  Simulated outcome = begin_outcome(network);
  outcome.bound = bound_of(network, work);
  ReadyTimes ready =
      ready_times(network.machines(), workers, scenario.straggler_seconds, scenario.seed);
  outcome.last_ready = *std::max_element(ready.begin(), ready.end());
  const plan::Network real = slowed(network, scenario.slow);
  const double until =
      scenario.failure ? scenario.failure->at : std::numeric_limits<double>::infinity();
  Try first(real, workers, work, scenario, ready, outcome.bound);
  const bool done = first.run_until(until);
  first.add_to(outcome);
  if (!done) {
    if (!scenario.failure) return Error{Status::kInternal, "the operation has not ended"};
    auto repaired = without_node(std::get<TreeSet>(work), real, scenario.failure->machine);
    if (!repaired) return repaired.error();
    outcome.repaired = true;
    outcome.seconds = scenario.failure->at + scenario.failure->repair_seconds;
    for (double& time : ready) time = std::max(time - outcome.seconds, 0.0);
    Try second(real, workers, Work(std::move(*repaired)), scenario, ready, outcome.bound);
    if (!second.run_until(std::numeric_limits<double>::infinity())) {
      return Error{Status::kInternal, "the repaired operation has not ended"};
    }
    second.add_to(outcome);
  }
  outcome.tiers = tiers_of(network, workers, outcome.loads, bytes_of(work));
  return outcome;
}

}  // namespace tally::simulator
