// What is known of a job and of where it runs, for its prediction: answers as the coordinator and
// the nodes gave them, and what a file says of the network. Plain values.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "control/plan/machines_json.h"
#include "control/plan/network.h"

namespace tally::perf {

// A file of machines or a plan's: one of the two.
struct NetworkFile {
  // By name of a node, or of a host; they go before all others.
  plan::MachineFile speeds;
  // A plan's: it goes before that of the plan in force. It has passed plan::validate().
  std::optional<plan::Network> network;
};

struct PlanFacts {
  nlohmann::json members;               // of cluster.nodes
  std::vector<nlohmann::json> jobs;     // by member: node.jobs
  nlohmann::json shown;                 // of plan.show for the job; null: nobody said
  std::string job;                      // its name
  std::vector<std::string> rank_hosts;  // by rank; empty: unknown
  std::uint32_t ranks = 0;
  NetworkFile file;  // of --network
};

}  // namespace tally::perf
