// The network as one job uses it: its ranks and nodes on their machines, and the links between
// machines. control/plan/model/load.h computes what the trees of the job carry over it. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "control/plan/model/network.h"
#include "perf/prediction/placed_job.h"
#include "perf/prediction/plan_facts.h"

namespace tally::perf {

// Nothing inside a machine limits the speed.
class JobNetwork {
 public:
  // A link whose load is of use to a person: one direction of a NIC, or a link of the plan that is
  // not the whole connection of a NIC.
  struct Part {
    std::size_t link = 0;  // index in network().links
    std::string what;      // "out of a", "switch 3 -> switch 4"
    std::string machine;   // the machine of the NIC; empty for other links
    bool is_known = true;  // whether the speed is known; otherwise the capacity has no meaning
  };

  // The machines are the hosts of ranks and nodes. Their NICs join them to a switch that never
  // limits the speed. Speeds are those of the file, else those that members declare.
  static JobNetwork of_nics(const PlanFacts& facts, const PlacedJob& job);

  // The machines, switches and links of a plan file. Speeds are those of a file of machines, else
  // those of the plan. A node is at the machine of its name. Otherwise, and for ranks, the machine
  // is the only worker on the host, or else the only machine on the host. The error names a rank or
  // a node that has no machine.
  static Result<JobNetwork> of_plan(const plan::Network& plan, const PlanFacts& facts,
                                    const PlacedJob& job);

  // The machines are the ranks, then the nodes. All other vertices are switches.
  const plan::Network& network() const { return network_; }
  const std::vector<Part>& parts() const { return parts_; }

 private:
  class Builder;

  plan::Network network_;
  std::vector<Part> parts_;  // the NICs by machine, then the links
};

}  // namespace tally::perf
