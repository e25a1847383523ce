#include "control/plan/groups/planner.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "control/plan/groups/candidates.h"
#include "control/plan/groups/throttle.h"

namespace tally::plan::groups {
namespace {

constexpr std::size_t kStarts = 8;

double staleness_of(const Limits& limits) {
  return limits.staleness ? *limits.staleness : std::numeric_limits<double>::infinity();
}

double most_exchanges(const Problem& problem) {
  return problem.bytes > 0 ? problem.server / problem.bytes
                           : std::numeric_limits<double>::infinity();
}

// Groups of consecutive workers of an order, and what they come to.
class Groupings {
 public:
  Groupings(const Problem& problem, const Limits& limits, std::vector<std::size_t> order)
      : problem_(problem), limits_(limits), order_(std::move(order)) {
    const std::size_t count = order_.size();
    sum_seconds_.assign((count + 1) * (count + 1), 0);
    slowest_.assign(sum_seconds_.size(), 0);
    for (std::size_t first = 0; first < count; ++first) {
      for (std::size_t end = first + 1; end <= count; ++end) {
        const std::size_t at = first * (count + 1) + end;
        slowest_[at] =
            std::max(end - first > 1 ? slowest_[at - 1] : 0, problem.workers[order_[end - 1]].step);
        if (end - first > 1) sum_seconds_[at] = problem.bytes * sum_time(first, end);
      }
    }
  }

  std::size_t workers() const { return order_.size(); }

  double period(std::size_t first, std::size_t end, std::uint32_t steps, bool is_alone) const {
    const std::size_t at = first * (order_.size() + 1) + end;
    const double exchange = is_alone ? 0 : problem_.bytes / problem_.nic;
    return steps * slowest_[at] + sum_seconds_[at] + exchange;
  }

  // Samples per second, or nothing when the staleness forbids the groups.
  std::optional<double> throughput(const Borders& borders) const {
    const std::vector<std::uint32_t> steps = local_steps(borders);
    const auto rates = throttled(borders, exchanges(borders, steps));
    return rates ? std::optional(rates->throughput) : std::nullopt;
  }

  // Precondition: throughput() has a value.
  GroupPlan plan(const Borders& borders) const {
    const std::vector<std::uint32_t> steps = local_steps(borders);
    const std::vector<Exchange> offered = exchanges(borders, steps);
    const auto rates = throttled(borders, offered);
    const double total = std::accumulate(rates->rates.begin(), rates->rates.end(), 0.0);
    GroupPlan made;
    made.throughput = rates->throughput;
    if (!borders.empty()) made.server_load = total * problem_.bytes / problem_.server;
    for (std::size_t g = 0; g <= borders.size(); ++g) {
      Group group;
      group.workers.assign(order_.begin() + static_cast<std::ptrdiff_t>(begin(borders, g)),
                           order_.begin() + static_cast<std::ptrdiff_t>(begin(borders, g + 1)));
      group.local_steps = steps[g];
      group.period = offered[g].period;
      group.rate = rates->rates[g];
      if (!borders.empty()) group.staleness = (total - group.rate) / group.rate;
      group.learning_rate = static_cast<double>(group.workers.size()) * steps[g];
      made.groups.push_back(std::move(group));
    }
    return made;
  }

 private:
  double sum_time(std::size_t first, std::size_t end) const {
    if (problem_.sum_time) return problem_.sum_time(std::span(order_).subspan(first, end - first));
    const auto n = static_cast<double>(end - first);
    return 2 * (n - 1) / (n * problem_.nic);
  }

  std::size_t begin(const Borders& borders, std::size_t group) const {
    if (group == 0) return 0;
    return group > borders.size() ? order_.size() : borders[group - 1];
  }

  std::vector<Exchange> exchanges(const Borders& borders,
                                  const std::vector<std::uint32_t>& steps) const {
    std::vector<Exchange> found;
    for (std::size_t g = 0; g <= borders.size(); ++g) {
      const std::size_t first = begin(borders, g), end = begin(borders, g + 1);
      found.push_back({period(first, end, steps[g], borders.empty()),
                       static_cast<double>(end - first) * problem_.batch * steps[g]});
    }
    return found;
  }

  // One group alone needs no server.
  std::optional<Rates> throttled(const Borders& borders,
                                 const std::vector<Exchange>& offered) const {
    if (!borders.empty()) return throttle(offered, most_exchanges(problem_), staleness_of(limits_));
    return throttle(offered, std::numeric_limits<double>::infinity(), 0);
  }

  std::vector<std::uint32_t> local_steps(const Borders& borders) const {
    std::vector<std::uint32_t> steps(borders.size() + 1, 1);
    if (borders.empty() || limits_.local_steps == 1) return steps;
    std::vector<double> periods;
    double total = 0;
    for (std::size_t g = 0; g < steps.size(); ++g) {
      periods.push_back(period(begin(borders, g), begin(borders, g + 1), 1, false));
      total += 1 / periods[g];
    }
    while (total > most_exchanges(problem_)) {
      std::size_t next = steps.size();
      for (std::size_t g = 0; g < steps.size(); ++g) {
        if (steps[g] == limits_.local_steps) continue;
        if (next == steps.size() || periods[g] < periods[next]) next = g;
      }
      if (next == steps.size()) break;
      ++steps[next];
      total -= 1 / periods[next];
      periods[next] = period(begin(borders, next), begin(borders, next + 1), steps[next], false);
      total += 1 / periods[next];
    }
    return steps;
  }

  const Problem& problem_;
  const Limits& limits_;
  std::vector<std::size_t> order_;
  // By first and end place of the order.
  std::vector<double> sum_seconds_;
  std::vector<double> slowest_;
};

// Keeps the first grouping of the highest throughput.
class Best {
 public:
  explicit Best(const Groupings& groupings) : groupings_(&groupings) {}

  const Borders& borders() const { return borders_; }
  double throughput() const { return throughput_; }

  // Returns whether it is better than all before. A gain by rounding alone does not count.
  bool try_grouping(const Borders& borders) {
    const auto throughput = groupings_->throughput(borders);
    if (!throughput || *throughput <= throughput_ * (1 + 1e-12)) return false;
    throughput_ = *throughput;
    borders_ = borders;
    return true;
  }

 private:
  const Groupings* groupings_;
  Borders borders_;
  double throughput_ = 0;
};

// A bit of the number says whether a group begins at a worker.
void try_all(std::size_t workers, Best& best) {
  for (std::uint32_t set = 1; set < 1u << (workers - 1); ++set) {
    Borders borders;
    for (std::size_t i = 1; i < workers; ++i) {
      if ((set >> (i - 1) & 1) != 0) borders.push_back(i);
    }
    best.try_grouping(borders);
  }
}

// Adds a border at this worker. Where there is a border already, removes it.
Borders toggled(Borders borders, std::size_t at) {
  const auto found = std::lower_bound(borders.begin(), borders.end(), at);
  if (found == borders.end() || *found != at) {
    borders.insert(found, at);
  } else {
    borders.erase(found);
  }
  return borders;
}

// Adds, removes or moves a border of the best grouping, as long as that helps.
void improve(std::size_t workers, Best& best) {
  for (bool is_better = true; is_better;) {
    is_better = false;
    for (std::size_t at = 1; at < workers; ++at) {
      is_better |= best.try_grouping(toggled(best.borders(), at));
    }
    for (std::size_t from = 1; from < workers; ++from) {
      for (std::size_t to = 1; to < workers; ++to) {
        if (from == to) continue;
        is_better |= best.try_grouping(toggled(toggled(best.borders(), from), to));
      }
    }
  }
}

void search_groupings(const Limits& limits, const Groupings& groupings, Best& best) {
  Candidates candidates;
  candidates.workers = groupings.workers();
  candidates.staleness = staleness_of(limits);
  candidates.most_groups = static_cast<std::size_t>(
      std::min(static_cast<double>(candidates.workers), 1 + candidates.staleness));
  candidates.period = [&](std::size_t first, std::size_t end) {
    return groupings.period(first, end, 1, false);
  };
  // Different numbers of groups lead to different ends, so several of them are improved.
  std::vector<Best> starts(candidates.most_groups + 1, Best(groupings));
  each_candidate(candidates,
                 [&](const Borders& borders) { starts[borders.size() + 1].try_grouping(borders); });
  std::stable_sort(starts.begin(), starts.end(),
                   [](const Best& a, const Best& b) { return a.throughput() > b.throughput(); });
  starts.resize(std::min(starts.size(), kStarts), Best(groupings));
  for (Best& start : starts) {
    improve(candidates.workers, start);
    best.try_grouping(start.borders());
  }
}

Borders every_worker_alone(std::size_t workers) {
  Borders borders(workers - 1);
  std::iota(borders.begin(), borders.end(), std::size_t{1});
  return borders;
}

void add_comparisons(const Problem& problem, const Groupings& groupings, GroupPlan& plan) {
  double sum = 0, slowest = 0;
  for (const Worker& worker : problem.workers) {
    sum += worker.step;
    slowest = std::max(slowest, worker.step);
  }
  plan.sync_throughput = *groupings.throughput({});
  plan.sync_idle = 1 - sum / static_cast<double>(problem.workers.size()) / slowest;
  plan.parameter_server_throughput =
      groupings.throughput(every_worker_alone(problem.workers.size())).value_or(0);
}

}  // namespace

Result<GroupPlan> plan_groups(const Problem& problem, const Limits& limits) {
  if (auto fine = check(problem, limits); !fine) return fine.error();
  std::vector<std::size_t> order(problem.workers.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return problem.workers[a].step < problem.workers[b].step;
  });
  const Groupings groupings(problem, limits, std::move(order));
  Best best(groupings);
  best.try_grouping({});
  if (groupings.workers() <= std::min(limits.enumerated, kEnumeratedWorkers)) {
    try_all(groupings.workers(), best);
  } else {
    search_groupings(limits, groupings, best);
  }
  GroupPlan plan = groupings.plan(best.borders());
  add_comparisons(problem, groupings, plan);
  return plan;
}

}  // namespace tally::plan::groups
