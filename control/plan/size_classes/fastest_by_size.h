// Which of several packings of trees carries an operation fastest, by the size of the operation.
//
// The time is tau x bytes, and the time to fill the pipeline (fill_seconds in load.h). Trees of few
// levels and children fill it sooner, so they win for small operations. Packings of small tau win
// for large ones. Between two sizes at which the time bends, the time of each packing is a straight
// line, so the sizes at which two take the same time have a closed form.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace tally::plan {

// Numbers of a packing, as in ClassLoad.
struct PackingTime {
  double tau = 0;  // seconds per byte
  double fill_hops = 0;
  double fill_seconds = 0;             // per byte of a chunk
  double small_fill_seconds = 0;       // per byte of an operation
  std::uint64_t smallest = 0;          // smaller operations cannot use the packing
  std::uint64_t largest = UINT64_MAX;  // larger operations cannot use the packing
};

struct FillModel {
  std::uint64_t chunk = 256 << 10;  // bytes that travel at a time
  double hop_seconds = 5e-6;        // latency of a hop
};

// Seconds of an operation of `bytes` bytes.
double seconds_of(const PackingTime& packing, double bytes, const FillModel& model);

struct SizeRange {
  std::optional<std::uint64_t> max_bytes;  // the largest operation; without a value, any
  std::size_t packing = 0;                 // index of the fastest one
};

// Returns the ranges of sizes by rising max_bytes; neighbours have different packings. Of packings
// that take the same time the first wins. Preconditions: chunk is not 0, and some packing can carry
// each size.
std::vector<SizeRange> fastest_by_size(std::span<const PackingTime> packings,
                                       const FillModel& model);

}  // namespace tally::plan
