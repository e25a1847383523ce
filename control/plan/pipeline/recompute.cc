#include "control/plan/pipeline/recompute.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tally::plan::pipeline {
namespace {

constexpr double kBuckets = 4096;
constexpr std::uint32_t kNoNode = UINT32_MAX;
constexpr double kInfinite = std::numeric_limits<double>::infinity();

// A pair of a list. Its items are the chain of nodes from `node`.
struct Pair {
  double seconds = 0;
  double saved = 0;
  std::uint32_t node = kNoNode;
};

// The pairs over the items so far. The caller adds the items by ascending peak, so that the peak of
// a choice is the peak of its last item.
class ParetoList {
 public:
  explicit ParetoList(std::span<const Item> items) : items_(items) {
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (items[i].saved > 0) order_.push_back(static_cast<std::uint32_t>(i));
    }
    std::stable_sort(order_.begin(), order_.end(), [&](std::uint32_t a, std::uint32_t b) {
      return items[a].peak < items[b].peak;
    });
    rest_.assign(order_.size() + 1, 0);
    rest_ratio_.assign(order_.size() + 1, kInfinite);
    for (std::size_t k = order_.size(); k > 0; --k) {
      const Item& one = items[order_[k - 1]];
      rest_[k - 1] = rest_[k] + one.saved;
      rest_ratio_[k - 1] = std::min(rest_ratio_[k], one.seconds / one.saved);
    }
    list_.push_back({});
  }

  std::size_t size() const { return order_.size(); }
  const Item& item(std::size_t k) const { return items_[order_[k]]; }
  // Of items k and later: what they save, and the least seconds for what one saves.
  double rest(std::size_t k) const { return rest_[k]; }
  double rest_ratio(std::size_t k) const { return rest_ratio_[k]; }

  // Adds item k. keep(pair) says whether a pair with the item stays, and may note it as a choice.
  // is_of_use(pair) says the same of a pair without it. Pairs closer than `width` are thinned.
  template <typename Keep, typename IsOfUse>
  void add(std::size_t k, double width, Keep keep, IsOfUse is_of_use) {
    const Item& added = item(k);
    next_.clear();
    const auto append = [&](const Pair& pair) {
      if (!next_.empty() && !(pair.saved > next_.back().saved)) return;
      if (width > 0 && !next_.empty() &&
          std::floor(pair.saved / width) <= std::floor(next_.back().saved / width)) {
        return;
      }
      next_.push_back(pair);
    };
    std::size_t old = 0;
    for (const Pair& base : list_) {
      Pair with{base.seconds + added.seconds, base.saved + added.saved,
                static_cast<std::uint32_t>(nodes_.size())};
      nodes_.push_back({base.node, order_[k]});
      if (!keep(with)) continue;
      for (; old < list_.size() && comes_first(list_[old], with); ++old) {
        if (is_of_use(list_[old])) append(list_[old]);
      }
      append(with);
    }
    for (; old < list_.size(); ++old) {
      if (is_of_use(list_[old])) append(list_[old]);
    }
    std::swap(list_, next_);
  }

  std::size_t length() const { return list_.size(); }

  // The items of a pair, as indices in the caller's list.
  std::vector<std::size_t> items_of(std::uint32_t node) const {
    std::vector<std::size_t> found;
    for (; node != kNoNode; node = nodes_[node].before) found.push_back(nodes_[node].item);
    std::sort(found.begin(), found.end());
    return found;
  }

 private:
  struct Node {
    std::uint32_t before = kNoNode;
    std::uint32_t item = 0;
  };

  static bool comes_first(const Pair& a, const Pair& b) {
    return a.seconds < b.seconds || (a.seconds == b.seconds && a.saved >= b.saved);
  }

  std::span<const Item> items_;
  std::vector<std::uint32_t> order_;  // items that save memory, by ascending peak
  std::vector<double> rest_;
  std::vector<double> rest_ratio_;
  std::vector<Pair> list_;  // by ascending seconds and ascending saved
  std::vector<Pair> next_;
  std::vector<Node> nodes_;
};

Choice choice_of(std::span<const Item> items, std::vector<std::size_t> chosen) {
  Choice choice{std::move(chosen), 0, 0};
  double peak = 0;
  for (const std::size_t i : choice.items) {
    choice.seconds += items[i].seconds;
    choice.saved += items[i].saved;
    peak = std::max(peak, items[i].peak);
  }
  choice.saved -= peak;
  return choice;
}

double width_of(const ParetoList& list, double need) {
  const bool is_long = list.size() > kExactItems || list.length() > kLongestList;
  return is_long ? need / kBuckets : 0;
}

// The fewest first items that together save enough, or 0. No set of items does when these do not:
// the items up to a set's largest peak save at least as much.
std::size_t fewest_first(const ParetoList& list, double need) {
  for (std::size_t k = 0; k < list.size(); ++k) {
    if (list.rest(0) - list.rest(k + 1) - list.item(k).peak >= need) return k + 1;
  }
  return 0;
}

// Bounds from the items by ascending seconds for what they save.
class ByRatio {
 public:
  explicit ByRatio(std::span<const Item> items) : items_(items) {
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (items[i].saved > 0) order_.push_back(i);
    }
    std::stable_sort(order_.begin(), order_.end(), [&](std::size_t a, std::size_t b) {
      return items[a].seconds / items[a].saved < items[b].seconds / items[b].saved;
    });
  }

  // No choice takes less. It takes a part of the last item.
  double least_seconds(double need) const {
    double least_peak = kInfinite;
    for (const std::size_t i : order_) least_peak = std::min(least_peak, items_[i].peak);
    double left = need + least_peak, seconds = 0;
    for (const std::size_t i : order_) {
      const double part = std::min(1.0, left / items_[i].saved);
      seconds += part * items_[i].seconds;
      left -= part * items_[i].saved;
      if (left <= 0) break;
    }
    return seconds;
  }

  // Returns the first items up to a peak that save enough, without those that turn out not to be
  // needed. If there are none, the choice takes infinite seconds.
  Choice choose(double need, double most_peak) const {
    std::vector<std::size_t> chosen;
    double saved = 0, peak = 0;
    for (const std::size_t i : order_) {
      if (items_[i].peak > most_peak) continue;
      chosen.push_back(i);
      saved += items_[i].saved;
      peak = std::max(peak, items_[i].peak);
      if (saved - peak >= need) break;
    }
    if (saved - peak < need) return {{}, kInfinite, 0};
    for (std::size_t at = 0; at < chosen.size();) {
      if (saved - items_[chosen[at]].saved - peak < need) {
        ++at;
        continue;
      }
      saved -= items_[chosen[at]].saved;
      chosen.erase(chosen.begin() + static_cast<std::ptrdiff_t>(at));
    }
    std::sort(chosen.begin(), chosen.end());
    return choice_of(items_, std::move(chosen));
  }

 private:
  std::span<const Item> items_;
  std::vector<std::size_t> order_;
};

}  // namespace

std::optional<Choice> least_time(std::span<const Item> items, double need, double limit,
                                 double enough) {
  ParetoList list(items);
  const std::size_t feasible = fewest_first(list, need);
  if (feasible == 0) return std::nullopt;
  const ByRatio by_ratio(items);
  if (by_ratio.least_seconds(need) >= limit) return std::nullopt;
  Choice found = by_ratio.choose(need, list.item(feasible - 1).peak);
  if (const Choice other = by_ratio.choose(need, kInfinite); other.seconds < found.seconds) {
    found = other;
  }
  if (found.seconds <= enough && found.seconds < limit) return found;
  double best = std::min(limit, found.seconds);
  std::uint32_t best_node = kNoNode;
  for (std::size_t k = 0; k < list.size(); ++k) {
    const double peak = list.item(k).peak;
    // Later items have no lower peaks.
    const auto can_reach = [&](const Pair& pair) {
      return pair.saved + list.rest(k + 1) - peak >= need &&
             pair.seconds + (need + peak - pair.saved) * list.rest_ratio(k + 1) < best;
    };
    list.add(
        k, width_of(list, need + peak),
        [&](const Pair& pair) {
          if (pair.seconds >= best) return false;
          if (pair.saved - peak < need) return can_reach(pair);
          best = pair.seconds;
          best_node = pair.node;
          return false;  // more items only take longer
        },
        can_reach);
  }
  if (best_node != kNoNode) return choice_of(items, list.items_of(best_node));
  return found.seconds < limit ? std::optional(found) : std::nullopt;
}

Choice most_saved(std::span<const Item> items, double budget) {
  ParetoList list(items);
  double best = 0, best_seconds = 0;
  std::uint32_t best_node = kNoNode;
  for (std::size_t k = 0; k < list.size(); ++k) {
    const double peak = list.item(k).peak;
    const auto can_improve = [&](const Pair& pair) {
      return pair.saved + list.rest(k + 1) - peak > best;
    };
    list.add(
        k, width_of(list, list.rest(0)),
        [&](const Pair& pair) {
          if (pair.seconds > budget) return false;
          const double net = pair.saved - peak;
          if (net > best || (net == best && best_node != kNoNode && pair.seconds < best_seconds)) {
            best = net;
            best_seconds = pair.seconds;
            best_node = pair.node;
          }
          return can_improve(pair);
        },
        can_improve);
  }
  return best_node == kNoNode ? Choice{} : choice_of(items, list.items_of(best_node));
}

}  // namespace tally::plan::pipeline
