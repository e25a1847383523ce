// A small random number generator. Its numbers are the same with every compiler and library, so
// that a seed gives the same schedule everywhere. std::uniform_int_distribution does not promise
// that.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <utility>

namespace tally::transport {

// splitmix64 (Steele, Lea, Flood 2014). Every seed gives good numbers.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next() {
    state_ += 0x9e3779b97f4a7c15u;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }

  // A number from 0 to bound - 1. Precondition: bound > 0. The bias of the remainder does not
  // matter here.
  std::uint64_t below(std::uint64_t bound) { return next() % bound; }
  // A number from first to last, both included.
  std::uint64_t between(std::uint64_t first, std::uint64_t last) {
    return first + below(last - first + 1);
  }
  // True with this probability, 0 to 1.
  bool chance(double probability) {
    return static_cast<double>(next() >> 11) * 0x1p-53 < probability;
  }
  // One element of the container. Precondition: the container is not empty.
  template <typename Container>
  auto& pick(Container& container) {
    return container[below(std::size(container))];
  }
  template <typename Container>
  void shuffle(Container& container) {
    for (std::size_t i = container.size(); i > 1; --i) {
      std::swap(container[i - 1], container[below(i)]);
    }
  }

 private:
  std::uint64_t state_;
};

}  // namespace tally::transport
