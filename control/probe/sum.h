// Measures how fast this machine sums, with the kernels of its shards.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/clock.h"
#include "summation/reduce.h"

namespace tally::control::probe {

struct SumQuestion {
  unsigned threads = 1;            // number of threads at the same time, like shards
  std::size_t inputs = 8;          // inputs of a sum: f32, in tiles of 64 KiB
  std::uint64_t window = 4 << 20;  // bytes of input that one thread cycles through
  Nanos span = 300 * kMillisecond;
};

// Returns the input bytes per second of all threads together. Allocates memory for the windows.
double sum_speed(const summation::Kernels& kernels, const SumQuestion& question,
                 const std::atomic<bool>& stop);

}  // namespace tally::control::probe
