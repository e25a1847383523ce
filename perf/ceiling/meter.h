// Measures the ceiling for --ceiling while all workers pause: it moves the same bytes without
// messages and sums.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "net/line_channel.h"
#include "perf/options/options.h"

namespace tally::perf {

class Meter {
 public:
  virtual ~Meter() = default;

  virtual std::string description() const = 0;
  // Begins a row.
  virtual void begin(const Row& row) = 0;
  virtual Outcome sample() = 0;
  // GB/s of the samples since begin(); 0 when there is no sample.
  virtual double gigabytes_per_second() const = 0;
};

struct MeterSetting {
  const Options& options;
  const std::vector<Row>& rows;
  std::vector<std::string> transports;  // by rank
  std::vector<std::string> providers;   // libfabric's provider by rank; "" for other transports
  std::vector<net::Channel*> workers;   // by rank; borrowed
  bool own_node = false;                // the node runs on this host
  int listener = -1;                    // where workers on other hosts can connect; -1 when there
                                        // is none
};

// The error says why this run has no meaningful ceiling.
Result<std::unique_ptr<Meter>> make_meter(const MeterSetting& setting);

}  // namespace tally::perf
