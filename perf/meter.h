// What a run is held against with --ceiling: measured while all workers stand still, by moving the
// same bytes without a message or a sum.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "perf/channel.h"
#include "perf/options.h"

namespace tally::perf {

class Meter {
 public:
  virtual ~Meter() = default;

  virtual std::string description() const = 0;
  // Begins a row.
  virtual void begin(const Row& row) = 0;
  virtual Outcome sample() = 0;
  // Of the samples since begin(); 0: there is none.
  virtual double gigabytes_per_second() const = 0;
};

struct MeterSetting {
  const Options& options;
  const std::vector<Row>& rows;
  std::vector<std::string> transports;  // by rank
  std::vector<std::string> providers;   // libfabric's, by rank; "" where it is not transport fabric
  std::vector<Channel*> workers;        // by rank
  bool own_node = false;                // the node runs on this host
  int listener = -1;                    // where workers on other hosts can connect; -1: none
};

// The error says why this run has no ceiling that means something.
Result<std::unique_ptr<Meter>> make_meter(const MeterSetting& setting);

}  // namespace tally::perf
