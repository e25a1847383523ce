// The answers of a service's nodes at about the same time. Plain values.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/clock.h"

namespace tally::control::top {

// One node. Its answers are stored as they came, so the reader must check their types.
struct NodeLook {
  std::string name;     // name in the cluster; without a cluster, the address
  std::string address;  // address at which it was asked
  // Its entry in cluster.nodes; null when the node is no member, or there is no cluster.
  nlohmann::json member;
  bool has_left = false;  // it was a member in an earlier look
  Nanos time = 0;         // time of its answer
  std::string failure;    // why it did not answer; empty when it did
  nlohmann::json status;
  nlohmann::json stats;
  nlohmann::json jobs;
  nlohmann::json metrics = nlohmann::json::array();  // node.metrics of each job
};

struct Look {
  std::vector<NodeLook> nodes;  // members in the coordinator's order, then former members
  std::string coordinator;      // address that gave the members; empty: a node without a cluster
  std::string note;             // a remark for the user
};

}  // namespace tally::control::top
