// What the planner of asynchronous groups plans for. The workers of a group sum their gradients
// synchronously. Groups exchange what they have summed with a parameter server, and no group waits
// for another. These are plain values without I/O, threads or clocks; groups_json.h reads them.
//
// Units: seconds, bytes, bytes per second, samples.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace tally::plan::groups {

inline constexpr std::size_t kMaxWorkers = 128;
inline constexpr std::uint32_t kMaxLocalSteps = 64;
inline constexpr std::uint32_t kMaxStaleness = 1'000'000;
inline constexpr std::size_t kEnumeratedWorkers = 16;

struct Worker {
  std::string name;
  double step = 0;  // of one forward and backward pass
};

// Returns the seconds to sum a byte over these workers (indices in Problem::workers). It has at
// least two workers, and must be a pure function.
using SumTime = std::function<double(std::span<const std::size_t> workers)>;

struct Problem {
  std::vector<Worker> workers;
  double bytes = 0;   // of the gradient, and of the model
  double nic = 0;     // of each worker, each way
  double server = 0;  // of the parameter server, each way
  double batch = 1;   // samples of each step of a worker
  SumTime sum_time;   // empty: 2 (n - 1) / (n * nic), which needs a network of full bisection
};

struct Limits {
  // The most exchanges of other groups between two of a group, on average. Empty: any number.
  std::optional<std::uint32_t> staleness;
  // The most steps of a worker between two exchanges.
  std::uint32_t local_steps = 1;
  // Up to this many workers all groupings are tried; for more there is a search.
  std::size_t enumerated = kEnumeratedWorkers;
};

// Checks counts and ranges. The planner has this as its precondition. An error names the place, the
// value and what it must be.
Outcome check(const Problem& problem, const Limits& limits);

}  // namespace tally::plan::groups
