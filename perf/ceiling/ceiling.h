// The ceiling of a collective on one machine: the speed of its bytes through memory without other
// work. Threads of one process read every input and write every output, without messages, process
// switches or sums.
#pragma once

#include <cstdint>
#include <vector>

#include "base/clock.h"
#include "base/system/fd.h"
#include "perf/options/options.h"

namespace tally::perf {

// The least number of buffers that a collective must read and write.
struct Traffic {
  std::uint32_t inputs = 0;
  std::uint32_t outputs = 0;
};
Traffic minimal_traffic(tally_kind kind, std::uint32_t ranks);

class Ceiling {
 public:
  // Allocates buffers for operations of up to max_bytes, in the same kind of memory as Tally's own
  // regions (memfds, mapped shared). Throws std::bad_alloc when there is no memory.
  Ceiling(Traffic traffic, std::uint64_t max_bytes, bool in_place, std::uint32_t threads);

  // Begins a row of operations of `bytes`.
  void begin(std::uint64_t bytes);

  // Takes one sample with ordinary and one with non-temporal stores.
  void sample();

  // The bytes by the median time of the samples since begin(), for the faster kind of stores; 0
  // when there is no sample.
  double gigabytes_per_second() const;

  std::uint32_t threads() const { return threads_; }

 private:
  Nanos run(bool past_caches) const;

  Traffic traffic_;
  std::uint32_t threads_;
  std::vector<Mapping> memory_;
  std::vector<const std::byte*> inputs_;
  std::vector<std::byte*> outputs_;
  std::uint64_t bytes_ = 0;
  std::vector<Nanos> ordinary_;
  std::vector<Nanos> past_caches_;
};

}  // namespace tally::perf
