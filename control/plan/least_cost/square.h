// A square of numbers, one for each ordered pair of indices below size().
#pragma once

#include <cstddef>
#include <vector>

namespace tally::plan {

class Square {
 public:
  explicit Square(std::size_t size, double value = 0) : size_(size), values_(size * size, value) {}

  std::size_t size() const { return size_; }
  double at(std::size_t row, std::size_t column) const { return values_[row * size_ + column]; }
  double& at(std::size_t row, std::size_t column) { return values_[row * size_ + column]; }
  bool operator==(const Square&) const = default;

 private:
  std::size_t size_;
  std::vector<double> values_;
};

}  // namespace tally::plan
