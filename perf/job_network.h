// The network as one job uses it: its ranks and nodes on their machines, and what joins these. What
// its trees cross of it follows by control/plan/load.h. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "control/plan/network.h"
#include "perf/placed_job.h"
#include "perf/plan_facts.h"

namespace tally::perf {

// Within a machine nothing binds.
class JobNetwork {
 public:
  // A link whose load says something to a person: a NIC, in one direction, or a link of the plan's
  // that is not all that a NIC has.
  struct Part {
    std::size_t link = 0;  // of network()
    std::string what;      // "out of a", "switch 3 -> switch 4"
    std::string machine;   // whose NIC it is; empty: none's
    bool is_known = true;  // its speed; else its capacity stands for nothing
  };

  // Machines, by the hosts of ranks and nodes, joined by their NICs to a switch that never binds:
  // speeds are those of the file, else those that members declare.
  static JobNetwork of_nics(const PlanFacts& facts, const PlacedJob& job);

  // The machines, switches and links of a plan's file; speeds are those of a file of machines, else
  // the plan's. A node is at the machine of its name, else, as ranks are, at the only worker, or
  // the only machine, that is on its host. An error names who is at none.
  static Result<JobNetwork> of_plan(const plan::Network& plan, const PlanFacts& facts,
                                    const PlacedJob& job);

  // Its machines are the ranks, then the nodes; all else is switches.
  const plan::Network& network() const { return network_; }
  const std::vector<Part>& parts() const { return parts_; }

 private:
  class Builder;

  plan::Network network_;
  std::vector<Part> parts_;  // NICs by machine, then links
};

}  // namespace tally::perf
