#include "control/plan/racks/groups.h"

#include <limits>
#include <numeric>

namespace tally::plan::racks {
namespace {

constexpr double kNothing = 1e-9;  // weights up to this are errors of rounding
constexpr int kMostMoves = 50;     // rounds over all items

// Joins groups. Returns, by item, the item that stands for its group.
std::vector<std::size_t> join(const Weights& weights) {
  const std::size_t items = weights.items();
  Weights between = weights;  // of groups, by the item that stands for each
  std::vector<std::size_t> of(items), groups(items);
  std::iota(of.begin(), of.end(), 0U);
  std::iota(groups.begin(), groups.end(), 0U);
  for (;;) {
    double most = kNothing;
    std::size_t one = 0, other = 0;
    for (std::size_t i = 0; i < groups.size(); ++i) {
      for (std::size_t j = 0; j < i; ++j) {
        if (between.at(groups[j], groups[i]) <= most) continue;
        most = between.at(groups[j], groups[i]);
        one = j;
        other = i;
      }
    }
    if (other == 0) return of;
    const std::size_t stays = groups[one], goes = groups[other];
    groups.erase(groups.begin() + static_cast<std::ptrdiff_t>(other));
    for (const std::size_t next : groups) {
      if (next != stays) between.add(stays, next, between.at(goes, next));
    }
    for (std::size_t& item : of) item = item == goes ? stays : item;
  }
}

// Moves items to the group with the largest weight to them, until none moves.
void move_items(const Weights& weights, std::vector<std::size_t>& of) {
  const std::size_t items = weights.items();
  bool has_moved = true;
  for (int round = 0; has_moved && round < kMostMoves; ++round) {
    has_moved = false;
    for (std::size_t item = 0; item < items; ++item) {
      std::vector<double> to(items, -std::numeric_limits<double>::infinity());
      for (const std::size_t one : of) to[one] = 0;  // groups that exist
      for (std::size_t other = 0; other < items; ++other) {
        if (other != item) to[of[other]] += weights.at(item, other);
      }
      std::size_t best = of[item];
      for (std::size_t one = 0; one < items; ++one) {
        if (to[one] > to[best] + kNothing) best = one;
      }
      has_moved = has_moved || best != of[item];
      of[item] = best;
    }
  }
}

}  // namespace

void number(std::vector<std::size_t>& groups) {
  std::vector<std::size_t> numbers(groups.size(), groups.size());
  std::size_t count = 0;
  for (std::size_t& one : groups) {
    if (numbers[one] == groups.size()) numbers[one] = count++;
    one = numbers[one];
  }
}

std::vector<std::size_t> group(const Weights& weights) {
  std::vector<std::size_t> of = join(weights);
  move_items(weights, of);
  number(of);
  return of;
}

}  // namespace tally::plan::racks
