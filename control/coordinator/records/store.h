// The state that a coordinator must keep: its present and former members, the jobs that they carry
// and by which plan, the settings of operators, and the last numbers given. It is in memory
// (memory_store.h), or, when another coordinator is to take over, in a place that both reach.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "control/access/job_lock.h"
#include "control/coordinator/records/rails.h"
#include "control/coordinator/records/rank_loss.h"
#include "control/coordinator/records/shard_indices.h"
#include "dataplane/partition/partition.h"
#include "dataplane/protocol/job/vertex.h"

namespace tally::control {

using NodeId = std::uint64_t;

enum class Role : std::uint8_t {
  kHelper,  // a machine that only sums
  kWorker,  // a machine that also runs workers
};

inline const char* role_name(Role role) {
  return role == Role::kWorker ? "worker" : "helper";
}

// The rack of a machine, and the link of that rack to the others. The machines of a rack may say
// different speeds of the link; the slowest counts.
struct Rack {
  std::string name{};      // empty: not known
  std::uint64_t up = 0;    // bytes per second to the others; 0: unknown
  std::uint64_t down = 0;  // bytes per second from them; 0: unknown
};

// Measured speeds of a machine, 0 when not measured, and the rack where it was found.
struct Measured {
  std::uint64_t speed = 0;  // bytes per second of all its NICs, each way
  std::uint64_t sum = 0;    // bytes of input that it sums per second
  Rack rack{};
};

struct Member {
  std::string name;
  std::string host;  // workers that give the same host are on its machine
  Role role = Role::kHelper;
  std::string tcp;            // where clients connect; empty: nowhere
  std::string local;          // where clients of its own machine connect: unix:/path
  std::uint32_t shards = 1;   // shards that serve one job
  std::uint64_t speed = 0;    // bytes per second of its NIC, each way; 0: unknown
  Rack rack{};                // as it declares it
  Measured measured{};        // overrides what it declares
  std::vector<Rail> rails{};  // its NICs, when it declares them
  bool draining = false;      // it gets no trees any more, and hands over those that it has

  // The shards that can serve a job now, and bytes per second of the NICs that are up.
  std::uint32_t usable_shards() const { return control::usable_shards(rails, shards); }
  std::uint64_t usable_speed() const;
  const Rack& known_rack() const { return measured.rack.name.empty() ? rack : measured.rack; }
  // Its address over a NIC that is up.
  const std::string& usable_tcp() const;
};

using Members = std::map<NodeId, Member>;

// A shard of one of a job's nodes, by its index among those that serve the job there.
struct ShardOf {
  NodeId node = 0;
  std::uint32_t index = 0;

  bool operator==(const ShardOf&) const = default;
};

// A node of a job's plan.
struct PlanNode {
  NodeId node = 0;
  std::uint64_t placement = 0;
  Member member;
  std::vector<std::uint32_t> trees;  // ascending; indices() has their shards
  // Its vertex in each of them. Child node numbers are indexes of below; parents are indexes of
  // above.
  std::vector<protocol::Vertex> vertices;
  std::vector<ShardOf> below;
  std::vector<ShardOf> above;
  std::vector<std::uint32_t> rails{};  // rail of each tree; empty means any rail
  // Machines of the plan whose nodes are drained or have left, and whose vertices it has.
  std::vector<std::string> stands_in_for{};

  std::uint32_t shards() const {
    return std::min(member.shards, static_cast<std::uint32_t>(trees.size()));
  }
  // The shard index of each vertex.
  std::vector<std::uint32_t> indices(const protocol::Partition& plan) const {
    return shard_indices(vertices, plan, shards());
  }
};

// Where the trees of a job are.
struct Layout {
  protocol::Partition plan;
  std::vector<PlanNode> nodes;
  std::uint64_t rate = 0;            // bytes of operations per second that the links carry; 0 means
                                     // unknown
  protocol::BufferLayout buffers{};  // between the nodes; empty when all trees are stars
};

struct SetPlan;

// A job, from its first rank's request until all its nodes have finished with it. A job that gets
// another plan while it runs has one record for each version, with an epoch of its own.
struct JobRecord {
  std::string name;
  JobLock lock;
  std::uint32_t epoch = 1;
  std::uint32_t follows = 0;  // the running job's epoch before this one; 0 for a new job
  std::uint32_t ranks = 1;
  RankLossPolicy rank_loss{};
  RankNumbers left_out{};  // ranks without a place in this version
  std::uint32_t weight = 1;
  std::string owner{};           // user or machine that opened it; empty: the configuration names
                                 // it
  std::uint64_t plan_epoch = 0;  // epoch of the plan's file; 0 means the plan has no file
  std::shared_ptr<const SetPlan> made_by{};  // the source of the plan; null: not yet placed
  protocol::Partition plan;
  std::uint64_t rate = 0;  // bytes of operations per second that the plan is made for; 0 means
                           // unknown
  protocol::BufferLayout buffers{};
  std::vector<PlanNode> nodes;  // empty: not yet placed
  // Ranks may use it: all its nodes serve it, and where it follows another version, all its ranks
  // know from which rounds on they use it. Not any more when it is over.
  bool runs = false;
};

// A record never changes; the store replaces it. All ranks of a job are answered from one record.
using SharedJob = std::shared_ptr<const JobRecord>;
using JobsByEpoch = std::map<std::uint32_t, SharedJob>;

// By job; the empty name is for all jobs without a plan of their own. A plan never changes; the
// store replaces it.
using PlansByJob = std::map<std::string, std::shared_ptr<const SetPlan>>;

// Reads use a copy in memory and see every write at once. A write has *settled* when a coordinator
// that takes over finds it. Writes settle in the order in which they are made. The coordinator
// sends no consequence of a write before the write has settled (when_settled()). So its successor
// does not contradict what it has sent. Only the coordinator's thread uses the store.
class Store {
 public:
  virtual ~Store() = default;

  virtual void put(NodeId node, const Member& member) = 0;
  virtual void erase(NodeId node) = 0;
  virtual const Members& members() const = 0;

  // Former members, by the number that they had, kept as long as they matter. draining: the member
  // is drained when it joins again.
  virtual void put_departed(NodeId node, const Member& member) = 0;
  virtual void erase_departed(NodeId node) = 0;
  virtual const Members& departed() const = 0;

  // By epoch: no two jobs have the same one.
  virtual void put(SharedJob job) = 0;
  virtual void erase_job(std::uint32_t epoch) = 0;
  virtual const JobsByEpoch& jobs() const = 0;

  // The plans that operators have set.
  virtual void put_plan(const std::string& job, std::shared_ptr<const SetPlan> plan) = 0;
  virtual void erase_plan(const std::string& job) = 0;
  virtual const PlansByJob& plans() const = 0;

  // The measured speeds, by name of a member; each call replaces all of them.
  virtual void put_speeds(std::map<std::string, Measured> speeds) = 0;
  virtual const std::map<std::string, Measured>& speeds() const = 0;

  // New numbers, which no coordinator over this store has given before; never 0. A new epoch is
  // also larger than all that observe_epoch() has got.
  virtual std::uint32_t next_epoch() = 0;
  virtual void observe_epoch(std::uint32_t epoch) = 0;
  virtual NodeId next_node() = 0;
  virtual std::uint64_t next_placement() = 0;

  // Calls `then` once, in the order of these calls, perhaps before this returns: when all writes so
  // far have settled, or with an error when one of them never will. After an error the store is
  // lost, also for all later calls, and the coordinator that writes to it must send nothing more.
  // An implementation must make one of the two happen well before FaultTimeouts::placing(). It
  // drops waiting callbacks when it is destroyed.
  virtual void when_settled(std::function<void(const Outcome&)> then) = 0;
};

}  // namespace tally::control
