// The facts for the prediction of a job: the answers of the coordinator and of the nodes, and the
// contents of a network file. Plain values.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "perf/options/network_file.h"

namespace tally::perf {

struct PlanFacts {
  nlohmann::json members;               // answer to cluster.nodes
  std::vector<nlohmann::json> jobs;     // answers to node.jobs, by member
  nlohmann::json shown;                 // answer to plan.show for the job; null when there is none
  std::string job;                      // name of the job
  std::vector<std::string> rank_hosts;  // by rank; empty when unknown
  std::uint32_t ranks = 0;
  NetworkFile file;  // of --network
};

}  // namespace tally::perf
