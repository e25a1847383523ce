// What the nodes of a service said at about the same time. Plain values.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/clock.h"

namespace tally::control::top {

// One node. What it says is as it came: whoever reads it looks at the types.
struct NodeLook {
  std::string name;     // the cluster's; of a node that was asked alone, its address
  std::string address;  // where it was asked
  nlohmann::json
      member;  // its entry in cluster.nodes; null: it is no member, or there is no cluster
  bool has_left = false;  // it was a member in an earlier look
  Nanos time = 0;         // when it answered
  std::string failure;    // why it did not; empty: it did
  nlohmann::json status;
  nlohmann::json stats;
  nlohmann::json jobs;
  nlohmann::json metrics = nlohmann::json::array();  // node.metrics of each job
};

struct Look {
  std::vector<NodeLook> nodes;  // members in the coordinator's order, then those that have left
  std::string coordinator;      // where members were asked for; empty: a node alone
  std::string note;             // what there is to know beside the nodes, for a person
};

}  // namespace tally::control::top
