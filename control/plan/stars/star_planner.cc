#include "control/plan/stars/star_planner.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "control/plan/model/load.h"
#include "control/plan/model/tree.h"
#include "control/plan/model/validate.h"

namespace tally::plan {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

double nic(const Vertex& machine) {
  return std::min(machine.in, machine.out);
}

// The largest share m that a star at this machine may have. An operation takes t seconds per byte.
// m is the least of a few lines slope * t + offset.
struct Line {
  double slope = 0;
  double offset = 0;
  double at(double t) const { return slope * t + offset; }
};

// A worker's NIC carries 1 + (n - 2) m each way, and the worker sums (n - 1) m. A helper has n m of
// each.
Line cap(const Vertex& machine, double n, double t) {
  const double sum = machine.sum.value_or(kInfinity);
  if (machine.role == Role::kHelper) return {std::min(nic(machine), sum) / n, 0};
  const Line by_nic = n > 2 ? Line{nic(machine) / (n - 2), -1 / (n - 2)} : Line{0, 1};
  const Line by_sum = machine.sum ? Line{sum / (n - 1), 0} : Line{0, 1};
  return by_nic.at(t) <= by_sum.at(t) ? by_nic : by_sum;
}

// The least time from `t` on at which the caps sum to 1. Their sum is concave and grows. So
// Newton's steps from below never pass the time, and end when they reach the last piece.
double least_time(std::span<const Vertex> machines, double n, double t) {
  for (;;) {
    Line all;
    for (const Vertex& machine : machines) {
      const Line line = cap(machine, n, t);
      all.slope += line.slope;
      all.offset += line.offset;
    }
    if (all.slope <= 0 || all.at(t) >= 1) return t;
    const double next = (1 - all.offset) / all.slope;
    if (next <= t) return t;
    t = next;
  }
}

// docs/planning.md has the proof. For the bound, a machine's speed is the mean of its two
// directions.
double bound(std::span<const Vertex> machines, double n, double slowest) {
  double capacity = 0;
  for (const Vertex& machine : machines) {
    const double mean = (machine.in + machine.out) / 2;
    capacity += machine.role == Role::kWorker ? mean : (1 - 2 / n) * mean;
  }
  return std::max(1 / slowest, 2 * (n - 1) / capacity);
}

Outcome check_machines(std::span<const Vertex> machines) {
  std::size_t workers = 0;
  for (const Vertex& machine : machines) {
    if (machine.role == Role::kSwitch) {
      return Error{Status::kInvalidArgument,
                   "the star planner takes workers and helpers; it adds the switch itself"};
    }
    if (machine.role == Role::kWorker) ++workers;
  }
  if (workers == 0) {
    return Error{Status::kInvalidArgument, "no worker: a plan needs at least one"};
  }
  if (machines.size() <= kMaxStarMachines) return Unit{};
  return Error{Status::kInvalidArgument,
               fmt::format("{} machines: the star planner takes at most {}, it makes a tree for "
                           "each; leave out helpers",
                           machines.size(), kMaxStarMachines)};
}

}  // namespace

StarShares star_shares(std::span<const Vertex> machines) {
  StarShares result;
  result.shares.assign(machines.size(), 0);
  double n = 0, slowest = kInfinity;
  std::size_t a_worker = 0;
  for (std::size_t i = 0; i < machines.size(); ++i) {
    if (machines[i].role != Role::kWorker) continue;
    ++n;
    slowest = std::min(slowest, nic(machines[i]));
    a_worker = i;
  }
  if (n < 2) {  // no other worker to send to
    result.shares[a_worker] = 1;
    return result;
  }
  result.tau = least_time(machines, n, 1 / slowest);
  result.lower_bound = bound(machines, n, slowest);
  double total = 0;
  for (std::size_t i = 0; i < machines.size(); ++i) {
    result.shares[i] = std::max(0.0, cap(machines[i], n, result.tau).at(result.tau));
    total += result.shares[i];
  }
  // When the slowest worker binds, the caps exceed 1 in sum, so each is scaled down.
  for (double& share : result.shares) share /= total;
  return result;
}

StarShares uniform_shares(std::span<const Vertex> machines) {
  std::vector<Vertex> equal(machines.begin(), machines.end());
  for (Vertex& machine : equal) {
    machine.in = machine.out = 1;
    machine.sum.reset();
  }
  return star_shares(equal);
}

std::vector<std::uint32_t> round_weights(std::span<const double> shares) {
  std::vector<std::uint32_t> weights(shares.size());
  std::vector<double> remainders(shares.size());
  std::int64_t left = kWeightUnit;
  for (std::size_t i = 0; i < shares.size(); ++i) {
    const double exact = std::min(shares[i], 1.0) * kWeightUnit;
    weights[i] = static_cast<std::uint32_t>(exact);
    remainders[i] = exact - weights[i];
    left -= weights[i];
  }
  std::vector<std::size_t> order(shares.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return remainders[a] > remainders[b]; });
  // `left` is less than the number of shares. Each weight grows by at most one, except for rounding
  // errors of the shares' sum.
  for (std::size_t i = 0; left > 0; i = (i + 1) % order.size(), --left) ++weights[order[i]];
  return weights;
}

Result<Plan> plan_star(std::vector<Vertex> machines, const StarOptions& options) {
  if (auto outcome = check_machines(machines); !outcome) return outcome.error();
  Plan plan;
  plan.epoch = options.epoch;
  plan.method = "star";
  plan.network = star_network(std::move(machines));
  if (auto outcome = validate(plan.network); !outcome) return outcome.error();
  const std::size_t count = plan.network.machines();
  const auto members = std::span<const Vertex>(plan.network.vertices).first(count);

  Domain domain;
  domain.name = "all";
  for (VertexId id = 0; id < count; ++id) {
    if (members[id].role == Role::kWorker) domain.workers.push_back(id);
  }
  const StarShares star = star_shares(members);
  const auto weights = round_weights(star.shares);
  SizeClass size_class{std::nullopt, options.chunk, options.window, {}};
  for (VertexId id = 0; id < count; ++id) {
    if (weights[id] == 0) continue;
    size_class.trees.push_back({weights[id], star_parents(count, domain.workers, id), {}});
  }
  Routes routes(plan.network);
  domain.certificate = Certificate{evaluate(routes, size_class).tau, star.lower_bound};
  if (options.split_bytes > 0) {
    SizeClass& whole = domain.classes.emplace_back(size_class);
    whole.max_bytes = options.split_bytes - 1;
    whole.divided = false;
  }
  domain.classes.push_back(std::move(size_class));
  domain.tensors = options.tensors;
  plan.domains.push_back(std::move(domain));
  if (auto outcome = validate(plan, Limits{}); !outcome) return outcome.error();
  return plan;
}

}  // namespace tally::plan
