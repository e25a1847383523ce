// How many timed iterations a row has: a number, or as many as fit into a time. They are made in
// batches, between which ranks can agree on what comes next, or stand still.
#pragma once

#include <cstdint>

#include "base/clock.h"
#include "perf/options.h"

namespace tally::perf {

inline constexpr std::uint32_t kPauses = 10;  // of a row, with --ceiling

class Pace {
 public:
  explicit Pace(const Options& options);

  // How many come next when `done` have taken `time`; 0: it is enough.
  std::uint64_t next(std::uint64_t done, Nanos time) const;

 private:
  std::uint64_t iterations_;
  std::uint64_t batch_;
  Nanos duration_;
};

}  // namespace tally::perf
