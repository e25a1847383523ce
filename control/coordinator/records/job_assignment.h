// A coordinator's request to a node to serve some trees of a job's plan, and its JSON form. Both
// ends use this file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "control/access/job_lock.h"
#include "control/coordinator/records/rank_loss.h"
#include "dataplane/partition/partition.h"
#include "dataplane/protocol/job/vertex.h"

namespace tally::control {

// Limits of the texts about jobs and nodes, in bytes.
inline constexpr std::size_t kMaxJobName = 128;  // also of nodes and of hosts
inline constexpr std::size_t kMaxToken = 768;
inline constexpr std::size_t kMaxAddress = 256;
// Most child shards of a node: more than 255 other members with 127 shards each
// (engine::kMaxShards). Together with the ranks they fit 16-bit numbers.
inline constexpr std::size_t kMaxBelow = 32768;

// A shard of another node that is a child or the parent of one of this node's shards in some tree.
struct RemoteShard {
  std::string name;         // the node's name
  std::string tcp;          // the node's address; empty when it is on the same machine
  std::string local;        // the address in that case: unix:/path
  std::uint32_t shard = 0;  // its index among those that serve the job there
  std::uint32_t node = 0;   // the node's number in the job, from 1; 0 means unknown

  bool operator==(const RemoteShard&) const = default;
};

struct JobAssignment {
  std::uint64_t id = 0;  // from 1; unique in one membership
  std::string job;
  JobLock lock;
  std::uint32_t epoch = 1;
  // The epoch in which the job runs now; its ranks change to this one when all nodes have
  // acknowledged it. 0 when the job does not run.
  std::uint32_t follows = 0;
  std::uint32_t ranks = 1;
  RankLossPolicy rank_loss{};
  RankNumbers left_out{};  // ranks that are no children of a vertex
  std::uint32_t weight = 1;
  // The user or machine that opened the job; empty: the job has a share of its own.
  std::string owner{};
  protocol::Partition plan;          // the whole plan
  std::uint64_t plan_epoch = 0;      // epoch of the plan's file; 0 means the plan has no file
  std::vector<std::uint32_t> trees;  // trees at this node, ascending; the i-th is at shard index
                                     // i mod the number of shards
  // This node's vertex in each of them. Child node numbers are indexes of below; parents are
  // indexes of above.
  std::vector<protocol::Vertex> vertices;
  std::vector<RemoteShard> below;
  std::vector<RemoteShard> above;
  protocol::BufferLayout buffers{};  // for the whole job; empty when all trees are stars
  std::uint32_t nodes = 1;           // nodes of the plan
  std::uint64_t rate = 0;            // bytes of operations per second of the plan; 0 means unknown
  // The rail of each tree here, when each tree has a shard of its own; empty means any rail.
  std::vector<std::uint32_t> rails{};
  // Nodes of the plan whose vertices this node has besides its own.
  std::vector<std::string> stands_in_for{};
};

// The parts that the store's records have too. Parsing validates; nullopt: not valid.
nlohmann::json to_json(const JobLock& lock);
std::optional<JobLock> parse_lock(const nlohmann::json& sent);
nlohmann::json to_json(const protocol::BufferLayout& buffers);
std::optional<protocol::BufferLayout> parse_buffers(const nlohmann::json& sent);
std::optional<std::vector<std::string>> parse_names(const nlohmann::json& sent);  // of nodes

nlohmann::json to_json(const JobAssignment& placement);
// Parses and validates: trees are of the plan, each once; vertices are as vertex.h requires.
Result<JobAssignment> parse_job_assignment(const nlohmann::json& placement);

}  // namespace tally::control
