#include "control/plan/groups/candidates.h"

#include <algorithm>
#include <limits>

namespace tally::plan::groups {
namespace {

constexpr std::size_t kPeriods = 16;
constexpr std::size_t kPrices = 12;
constexpr double kNone = -std::numeric_limits<double>::infinity();

// The best groups for each number of workers and of groups.
class PricedGroups {
 public:
  PricedGroups(const Candidates& candidates, const std::vector<double>& periods)
      : workers_(candidates.workers), most_(candidates.most_groups), periods_(periods) {}

  void run(double price, double longest) {
    best_.assign((workers_ + 1) * (most_ + 1), kNone);
    begin_.assign(best_.size(), 0);
    best_[0] = 0;
    for (std::size_t end = 1; end <= workers_; ++end) {
      for (std::size_t first = 0; first < end; ++first) {
        const double period = periods_[first * (workers_ + 1) + end];
        if (period > longest) continue;
        const double value = std::max(0.0, (static_cast<double>(end - first) - price) / period);
        for (std::size_t groups = 1; groups <= most_; ++groups) {
          const double before = best_[first * (most_ + 1) + groups - 1];
          if (before + value <= best_[end * (most_ + 1) + groups]) continue;
          best_[end * (most_ + 1) + groups] = before + value;
          begin_[end * (most_ + 1) + groups] = first;
        }
      }
    }
  }

  bool has(std::size_t groups) const { return best_[workers_ * (most_ + 1) + groups] > kNone; }

  Borders borders(std::size_t groups) const {
    Borders found;
    for (std::size_t end = workers_; groups > 1; --groups) {
      end = begin_[end * (most_ + 1) + groups];
      found.push_back(end);
    }
    std::reverse(found.begin(), found.end());
    return found;
  }

 private:
  std::size_t workers_;
  std::size_t most_;
  const std::vector<double>& periods_;
  std::vector<double> best_;        // by workers and groups
  std::vector<std::size_t> begin_;  // of the last group
};

// Some of the values, evenly spaced in their order, and the largest.
std::vector<double> sample(std::vector<double> values, std::size_t most) {
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
  if (values.size() <= most) return values;
  std::vector<double> found;
  for (std::size_t i = 1; i <= most; ++i) found.push_back(values[i * values.size() / most - 1]);
  return found;
}

}  // namespace

void each_candidate(const Candidates& candidates,
                    const std::function<void(const Borders&)>& visit) {
  const std::size_t workers = candidates.workers;
  std::vector<double> periods((workers + 1) * (workers + 1), 0);
  std::vector<double> longest;
  for (std::size_t first = 0; first < workers; ++first) {
    for (std::size_t end = first + 1; end <= workers; ++end) {
      const double period = candidates.period(first, end);
      periods[first * (workers + 1) + end] = period;
      // Every grouping has a group with the last worker.
      if (end == workers) longest.push_back(period);
    }
  }
  const bool is_unbounded = candidates.staleness == std::numeric_limits<double>::infinity();
  longest = is_unbounded ? std::vector{*std::max_element(periods.begin(), periods.end())}
                         : sample(std::move(longest), kPeriods);
  PricedGroups search(candidates, periods);
  for (const double period : longest) {
    for (std::size_t step = 0; step < kPrices; ++step) {
      const double share = static_cast<double>(step) / kPrices;
      search.run(share * share * static_cast<double>(workers), period);
      for (std::size_t groups = 2; groups <= candidates.most_groups; ++groups) {
        if (search.has(groups)) visit(search.borders(groups));
      }
    }
  }
}

}  // namespace tally::plan::groups
