// Divides items into groups by weights of pairs.
#pragma once

#include <cstddef>
#include <vector>

namespace tally::plan::racks {

// A symmetric table of weights. Above 0: the pair belongs together; below 0: apart. The diagonal
// does not count.
class Weights {
 public:
  explicit Weights(std::size_t items) : items_(items), values_(items * items) {}

  std::size_t items() const { return items_; }
  double at(std::size_t one, std::size_t other) const { return values_[one * items_ + other]; }
  void add(std::size_t one, std::size_t other, double weight) {
    values_[one * items_ + other] += weight;
    values_[other * items_ + one] += weight;
  }

 private:
  std::size_t items_;
  std::vector<double> values_;
};

// Numbers groups in the order of their first items. Precondition: each number is below the size.
void number(std::vector<std::size_t>& groups);

// Returns, by item, the number of its group; groups are numbered in the order of their first items.
// The sum of the weights within groups is as large as this search finds: it joins the two groups
// with the largest weight between them while that is above 0, and then moves single items. (The
// problem is correlation clustering, Bansal, Blum and Chawla 2004; the best division is NP-hard to
// find.) Takes O(items^3).
std::vector<std::size_t> group(const Weights& weights);

}  // namespace tally::plan::racks
