// What a coordinator asks of a node: to serve some trees of a job's plan. How it travels; both ends
// use this.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "base/result.h"
#include "dataplane/protocol/cut.h"
#include "dataplane/protocol/vertex.h"

namespace tally::control {

// Bytes of what is said of jobs and nodes.
inline constexpr std::size_t kMaxJobName = 128;  // and of tokens, of nodes and of hosts
inline constexpr std::size_t kMaxAddress = 256;
// Neighbours below a node: more than 255 other members with 127 shards each (engine::kMaxShards).
// Together with the ranks they have 16-bit numbers.
inline constexpr std::size_t kMaxBelow = 32768;

// A shard of another node of the job, next to one of this node's in some tree: where its sums come
// from, or go to.
struct Neighbour {
  std::string name;   // of the node
  std::string tcp;    // where it is reached; empty where it is on the same machine
  std::string local;  // then here: unix:/path
  std::uint32_t lane = 0;
  std::uint32_t node = 0;  // its number in the job, from 1; 0: unknown

  bool operator==(const Neighbour&) const = default;
};

struct Placement {
  std::uint64_t id = 0;  // from 1; of one membership
  std::string job;
  std::string token;
  std::uint32_t epoch = 1;
  // The epoch that the job runs in: its ranks go over to this one, if all nodes take it. 0: none.
  std::uint32_t follows = 0;
  std::uint32_t ranks = 1;
  std::uint32_t weight = 1;
  protocol::Plan plan;               // whole
  std::uint64_t plan_epoch = 0;      // of the file that the plan is from; 0: of none
  std::vector<std::uint32_t> trees;  // those at this node, rising; number i is at lane i mod lanes
  // This node's place in each of them. Branches are numbers in `below`, parents in `above`.
  std::vector<protocol::Vertex> vertices;
  std::vector<Neighbour> below;
  std::vector<Neighbour> above;
  protocol::SlotLayout
      slots{};              // between nodes: the same in the whole job; empty where all are stars
  std::uint32_t nodes = 1;  // of the plan
  std::uint64_t rate = 0;   // bytes of operation per second that it is for; 0: unknown
  // By tree here, where each has a lane of its own; none: any.
  std::vector<std::uint32_t> rails{};
  // Nodes that the plan names, whose places in trees this one has besides its own.
  std::vector<std::string> stands_in_for{};
};

nlohmann::json to_json(const Placement& placement);
// Parsing is validating: trees are of the plan, each once; vertices are as vertex.h has them.
Result<Placement> parse_placement(const nlohmann::json& placement);

}  // namespace tally::control
