#include "control/plan/pipeline/iteration.h"

#include <fmt/format.h>

#include <algorithm>

namespace tally::plan::pipeline {
namespace {

struct StageTimes {
  double compute = kUnlimited;
  double sync = 0;
};

// The times of all stages. A state of the search is a block and the GPUs of the first stage.
class StageTable {
 public:
  explicit StageTable(const StageCosts& costs)
      : blocks_(costs.blocks()), gpus_(costs.gpus()), times_(blocks_ * blocks_ * gpus_ * gpus_) {
    for (std::size_t block = 0; block < blocks_; ++block) {
      for (std::size_t end = block + 1; end <= blocks_; ++end) {
        for (std::size_t first = 0; first < gpus_; ++first) {
          for (std::size_t last = first + 1; last <= gpus_; ++last) {
            // Only a stage with the first block has the first GPU, and so with the last ones.
            if ((block == 0) != (first == 0) || (end == blocks_) != (last == gpus_)) continue;
            const StageCost cost = costs.cost({block, end, first, last});
            times_[index(block, end, first, last)] = {cost.compute, cost.sync};
          }
        }
      }
    }
  }

  const StageTimes& at(std::size_t block, std::size_t end, std::size_t first,
                       std::size_t last) const {
    return times_[index(block, end, first, last)];
  }
  const std::vector<StageTimes>& all() const { return times_; }

 private:
  std::size_t index(std::size_t block, std::size_t end, std::size_t first, std::size_t last) const {
    return ((block * blocks_ + end - 1) * gpus_ + first) * gpus_ + last - 1;
  }

  std::size_t blocks_;
  std::size_t gpus_;
  std::vector<StageTimes> times_;
};

// The least sums of times when no stage or transfer is slower than a pace.
class PacedSearch {
 public:
  PacedSearch(const StageCosts& costs, const StageTable& table)
      : costs_(costs), table_(table), blocks_(costs.blocks()), gpus_(costs.gpus()) {}

  // Returns the least sum + sync below `limit`, or kUnlimited.
  double run(double pace, double limit) {
    pace_ = pace;
    limit_ = limit;
    states_.assign(blocks_ * (gpus_ + 1) * (gpus_ + 1), {});
    for (std::size_t first = gpus_; first-- > 0;) {
      for (std::size_t end = first + 1; end <= gpus_; ++end) {
        if (first == 0) {
          solve(0, first, end);
        } else {
          for (std::size_t block = 1; block < blocks_; ++block) solve(block, first, end);
        }
      }
    }
    best_ = {};
    double least = limit;
    for (std::size_t end = 1; end <= gpus_; ++end) {
      const auto& pairs = state(0, 0, end);
      for (std::size_t i = 0; i < pairs.size(); ++i) {
        if (pairs[i].sum + pairs[i].sync >= least) continue;
        least = pairs[i].sum + pairs[i].sync;
        best_ = {end, i};
      }
    }
    return best_.end == 0 ? kUnlimited : least;
  }

  // Of the last run, which found one.
  std::vector<Cut> cuts() const {
    std::vector<Cut> found;
    std::size_t block = 0, first = 0;
    for (Place at = best_;;) {
      const Pair& pair = states_[index(block, first, at.end)][at.pair];
      found.push_back({pair.end_block, at.end});
      if (at.end == gpus_) return found;
      block = pair.end_block;
      first = at.end;
      at = pair.next;
    }
  }

 private:
  struct Place {
    std::size_t end = 0;   // of the GPUs of the first stage
    std::size_t pair = 0;  // index in the state's pairs
  };
  struct Pair {
    double sum = 0;
    double sync = 0;
    std::size_t end_block = 0;  // of the first stage
    Place next{};               // the state after it
  };
  using Pairs = std::vector<Pair>;  // by ascending sum and descending sync

  std::size_t index(std::size_t block, std::size_t first, std::size_t end) const {
    return (block * (gpus_ + 1) + first) * (gpus_ + 1) + end;
  }
  Pairs& state(std::size_t block, std::size_t first, std::size_t end) {
    return states_[index(block, first, end)];
  }

  void solve(std::size_t block, std::size_t first, std::size_t end) {
    Pairs& own = state(block, first, end);
    if (end == gpus_) {
      const StageTimes& stage = table_.at(block, blocks_, first, end);
      if (stage.compute <= pace_) add(own, {stage.compute, stage.sync, blocks_, {}});
      return;
    }
    for (std::size_t cut = block + 1; cut < blocks_; ++cut) {
      const StageTimes& stage = table_.at(block, cut, first, end);
      if (stage.compute > pace_) continue;
      for (std::size_t next = end + 1; next <= gpus_; ++next) {
        const Pairs& after = state(cut, end, next);
        if (after.empty()) continue;
        const double sent = costs_.transfer(cut, first, end, next);
        if (sent > pace_) continue;
        for (std::size_t i = 0; i < after.size(); ++i) {
          add(own, {stage.compute + sent + after[i].sum,
                    std::max(stage.sync, after[i].sync),
                    cut,
                    {next, i}});
        }
      }
    }
  }

  // Adds a pair, unless another is as good, and removes those that it beats.
  void add(Pairs& pairs, const Pair& added) const {
    if (added.sum + added.sync >= limit_) return;
    auto at = std::upper_bound(pairs.begin(), pairs.end(), added.sum,
                               [](double sum, const Pair& pair) { return sum < pair.sum; });
    if (at != pairs.begin() && (at - 1)->sync <= added.sync) return;
    // One with the same sum has a longer sync, so it goes.
    while (at != pairs.begin() && (at - 1)->sum == added.sum) --at;
    auto end = at;
    while (end != pairs.end() && end->sync >= added.sync) ++end;
    at = pairs.erase(at, end);
    pairs.insert(at, added);
  }

  const StageCosts& costs_;
  const StageTable& table_;
  const std::size_t blocks_;
  const std::size_t gpus_;
  double pace_ = 0;
  double limit_ = 0;
  std::vector<Pairs> states_;
  Place best_{};
};

// All times that the slowest stage or transfer can have, ascending.
std::vector<double> paces(const StageCosts& costs, const StageTable& table) {
  std::vector<double> found;
  for (const StageTimes& stage : table.all()) {
    if (stage.compute < kUnlimited) found.push_back(stage.compute);
  }
  const std::size_t gpus = costs.gpus();
  for (std::size_t first = 0; first < gpus; ++first) {
    for (std::size_t middle = first + 1; middle < gpus; ++middle) {
      for (std::size_t end = middle + 1; end <= gpus; ++end) {
        for (std::size_t cut = 1; cut < costs.blocks(); ++cut) {
          found.push_back(costs.transfer(cut, first, middle, end));
        }
      }
    }
  }
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

}  // namespace

Result<std::optional<std::vector<Cut>>> least_iteration(const StageCosts& costs, double limit) {
  const std::size_t pairs = costs.blocks() * costs.gpus();
  if (pairs * pairs > kMostStages) {
    return invalid(
        fmt::format("{} blocks on {} GPUs: the iteration time is planned for up to {} of "
                    "blocks x GPUs; merge blocks, or plan for the bottleneck",
                    costs.blocks(), costs.gpus(), 2828));
  }
  const StageTable table(costs);
  const std::vector<double> found = paces(costs, table);
  const double others = static_cast<double>(costs.options().microbatches) - 1;
  PacedSearch search(costs, table);
  // The paces below the first at which a division exists need no search one by one.
  std::size_t at = 0;
  for (std::size_t high = found.size(); at < high;) {
    const std::size_t middle = at + (high - at) / 2;
    if (search.run(found[middle], kUnlimited) < kUnlimited) {
      high = middle;
    } else {
      at = middle + 1;
    }
  }
  // No division has a smaller sum, whatever its pace is.
  const double least_sum = search.run(kUnlimited, kUnlimited);
  double best = limit;
  std::optional<std::vector<Cut>> cuts;
  while (at < found.size() && least_sum + others * found[at] < best) {
    const double pace = found[at];
    // The last pace of those that are taken together.
    while (at + 1 < found.size() && found[at + 1] <= pace * (1 + costs.options().gap)) ++at;
    const double rest = search.run(found[at], best - others * pace);
    if (rest < kUnlimited) {
      std::vector<Cut> now = search.cuts();
      const auto partition = evaluate(costs, now);
      if (partition && partition->iteration < best) {
        best = partition->iteration;
        cuts = std::move(now);
      }
    }
    ++at;
  }
  return cuts;
}

}  // namespace tally::plan::pipeline
