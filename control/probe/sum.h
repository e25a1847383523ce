// What this machine can sum, by the kernels that its shards use.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/clock.h"
#include "summation/reduce.h"

namespace tally::control::probe {

struct SumQuestion {
  unsigned threads = 1;            // at once, as shards would
  std::size_t inputs = 8;          // of a sum: f32, in tiles of 64 KiB
  std::uint64_t window = 4 << 20;  // bytes of input that a thread goes round in
  Nanos span = 300 * kMillisecond;
};

// Bytes of input per second, of all threads together. Takes memory for the windows.
double sum_speed(const summation::Kernels& kernels, const SumQuestion& question,
                 const std::atomic<bool>& stop);

}  // namespace tally::control::probe
