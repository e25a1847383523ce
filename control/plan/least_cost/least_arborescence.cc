#include "control/plan/least_cost/least_arborescence.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace tally::plan {
namespace {

constexpr double kNoParent = std::numeric_limits<double>::infinity();

// Finds the cheapest parent of each vertex. The root, vertex 0, is its own parent. Returns the sum
// of the costs.
double cheapest_parents(const Square& costs, std::vector<std::size_t>& parents) {
  double cost = 0;
  parents.assign(costs.size(), 0);
  for (std::size_t child = 1; child < costs.size(); ++child) {
    std::size_t best = child;
    for (std::size_t parent = 0; parent < costs.size(); ++parent) {
      if (parent == child) continue;
      if (best == child || costs.at(child, parent) < costs.at(child, best)) best = parent;
    }
    parents[child] = best;
    cost += costs.at(child, best);
  }
  return cost;
}

// Gives the vertices of each circle one number, and each other vertex a number of its own. The
// root's is 0. Returns the count of numbers.
std::size_t number_circles(const std::vector<std::size_t>& parents,
                           std::vector<std::size_t>& numbers) {
  const std::size_t none = parents.size();
  std::vector<std::size_t> seen_from(parents.size(), none);
  numbers.assign(parents.size(), none);
  numbers[0] = 0;
  std::size_t count = 1;
  for (std::size_t start = 1; start < parents.size(); ++start) {
    std::size_t at = start;
    while (at != 0 && numbers[at] == none && seen_from[at] == none) {
      seen_from[at] = start;
      at = parents[at];
    }
    if (at == 0 || numbers[at] != none || seen_from[at] != start) continue;
    for (; numbers[at] == none; at = parents[at]) numbers[at] = count;
    ++count;
  }
  for (std::size_t& number : numbers) {
    if (number == none) number = count++;
  }
  return count;
}

}  // namespace

double least_arborescence_cost(const Square& costs, const std::vector<bool>& in, std::size_t root) {
  std::vector<std::size_t> members = {root};
  for (std::size_t i = 0; i < in.size(); ++i) {
    if (in[i] && i != root) members.push_back(i);
  }
  Square left(members.size(), kNoParent);
  for (std::size_t i = 0; i < members.size(); ++i) {
    for (std::size_t j = 0; j < members.size(); ++j) {
      if (i != j) left.at(i, j) = costs.at(members[i], members[j]);
    }
  }
  std::vector<std::size_t> parents, numbers;
  for (double cost = 0;;) {
    cost += cheapest_parents(left, parents);
    if (!(cost < kNoParent)) return kNoParent;
    const std::size_t count = number_circles(parents, numbers);
    if (count == left.size()) return cost;
    Square smaller(count, kNoParent);
    for (std::size_t i = 1; i < left.size(); ++i) {
      for (std::size_t j = 0; j < left.size(); ++j) {
        if (numbers[i] == numbers[j]) continue;
        double& edge = smaller.at(numbers[i], numbers[j]);
        edge = std::min(edge, left.at(i, j) - left.at(i, parents[i]));
      }
    }
    left = std::move(smaller);
  }
}

}  // namespace tally::plan
