// The number of timed iterations of a row: a fixed number, or as many as fit into a time. They run
// in batches. Between two batches the ranks can agree on the next batch, or pause.
#pragma once

#include <cstdint>

#include "base/clock.h"
#include "perf/options/options.h"

namespace tally::perf {

inline constexpr std::uint32_t kPauses = 10;  // pauses of a row, with --ceiling

class Pace {
 public:
  explicit Pace(const Options& options);

  // Returns the number of iterations of the next batch, when `done` iterations have taken `time`. 0
  // means that the row is finished.
  std::uint64_t next(std::uint64_t done, Nanos time) const;

 private:
  std::uint64_t iterations_;
  std::uint64_t batch_;
  Nanos duration_;
};

}  // namespace tally::perf
