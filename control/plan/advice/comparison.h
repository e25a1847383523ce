// Two plans for the same workers, side by side: the time of operations of several sizes, and the
// bytes at each place of their networks.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "control/plan/model/plan.h"

namespace tally::plan {

struct SizeTimes {
  std::uint64_t bytes = 0;
  double first = 0;  // seconds of an operation by each plan (operation_seconds())
  double second = 0;
};

// What a place carries for each byte of an operation.
struct PlaceUse {
  double bytes = 0;
  double capacity = 0;  // bytes per second
  double busy = 0;      // the part of the time in which the place is in use; 1 is full
};

struct PlacePair {
  std::string name;               // as describe() has it
  std::optional<PlaceUse> first;  // empty: the network of this plan has no such place
  std::optional<PlaceUse> second;

  // How many bytes the second plan has there more than the first; below 0: fewer.
  double more() const { return (second ? second->bytes : 0) - (first ? first->bytes : 0); }
};

struct Comparison {
  std::vector<SizeTimes> times;  // in the order of the sizes
  double first_tau = 0;          // seconds per byte
  double second_tau = 0;
  std::string first_binds;  // the place that limits; empty when nothing travels
  std::string second_binds;
  std::vector<PlacePair> places;  // those with the largest difference of bytes first
};

struct ComparisonQuestion {
  std::span<const std::uint64_t> sizes;  // bytes of the operations of `times`
  std::uint64_t bytes = 0;  // of the operation for which loads and bottlenecks are compared
  double hop_seconds = 0;   // latency of one hop
};

// Compares a domain of one plan with a domain of another. Their networks may differ; places are the
// same if their names are. An error names a worker that only one of the two has. Precondition: the
// plans have passed validate(), and the domains are theirs.
Result<Comparison> compare(const Plan& first, const Domain& of_first, const Plan& second,
                           const Domain& of_second, const ComparisonQuestion& question);

}  // namespace tally::plan
