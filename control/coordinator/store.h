// What a coordinator must not forget: who its members are and have been, which jobs they carry by
// which plan, what operators have set, the last numbers given. In memory (memory_store.h), or,
// where another coordinator is to take over, something that both reach.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "control/coordinator/rails.h"
#include "dataplane/protocol/cut.h"
#include "dataplane/protocol/vertex.h"

namespace tally::control {

using NodeId = std::uint64_t;

enum class Role : std::uint8_t {
  kHelper,  // a machine that sums, and nothing else
  kWorker,  // workers run there too
};

inline const char* role_name(Role role) {
  return role == Role::kWorker ? "worker" : "helper";
}

// Of a machine, as somebody has measured it; 0: nobody has.
struct Measured {
  std::uint64_t speed = 0;  // bytes per second of all its NICs, each way
  std::uint64_t sum = 0;    // bytes of input per second that it sums
};

struct Member {
  std::string name;
  std::string host;  // workers that say the same are on its machine
  Role role = Role::kHelper;
  std::string tcp;            // where clients connect; empty: nowhere
  std::string local;          // likewise, from its own machine: unix:/path
  std::uint32_t shards = 1;   // that serve a job
  std::uint64_t speed = 0;    // bytes per second of its NIC, each way; 0: unknown
  Measured measured{};        // goes before what it declares
  std::vector<Rail> rails{};  // its NICs, where it has said which
  bool draining = false;      // it gets no trees any more, and is rid of those that it has

  // That can serve a job now, and bytes per second of the NICs that are up.
  std::uint32_t usable_shards() const { return control::usable_shards(rails, shards); }
  std::uint64_t usable_speed() const;
  // Where it is reached by a NIC that is up.
  const std::string& usable_tcp() const;
};

using Members = std::map<NodeId, Member>;

// A shard of one of a job's nodes, in the numbering of its lanes.
struct LaneOf {
  NodeId node = 0;
  std::uint32_t lane = 0;

  bool operator==(const LaneOf&) const = default;
};

// A node of a job's plan.
struct PlanNode {
  NodeId node = 0;
  std::uint64_t placement = 0;
  Member member;
  std::vector<std::uint32_t> trees;  // rising; number i is at lane i mod lanes()
  // Its place in each of them; branches are numbers in `below`, parents in `above`.
  std::vector<protocol::Vertex> vertices;
  std::vector<LaneOf> below;
  std::vector<LaneOf> above;
  std::vector<std::uint32_t> rails{};  // of each tree; none where any will do
  std::uint64_t rate = 0;              // for its windows: bytes of operation per second; 0: unknown
  // Machines of the plan whose nodes are drained or have left, and whose vertices it has.
  std::vector<std::string> stands_in_for{};

  std::uint32_t lanes() const {
    return std::min(member.shards, static_cast<std::uint32_t>(trees.size()));
  }
};

// Where the trees of a job are.
struct Layout {
  protocol::Plan plan;
  std::vector<PlanNode> nodes;
  std::uint64_t rate = 0;        // bytes of operation per second that the links carry; 0: unknown
  protocol::SlotLayout slots{};  // between the nodes; none where all trees are stars
};

struct SetPlan;

// A job from its first rank's asking until all its nodes have done with it; one that gets another
// plan while it runs has a record of each, with an epoch of its own.
struct JobRecord {
  std::string name;
  std::string token;
  std::uint32_t epoch = 1;
  std::uint32_t follows = 0;  // the epoch that the running job had before; 0: it has just formed
  std::uint32_t ranks = 1;
  std::uint32_t weight = 1;
  std::uint64_t plan_epoch = 0;              // of the file that the plan is from; 0: of none
  std::shared_ptr<const SetPlan> made_by{};  // what the plan is from; none: not yet placed
  protocol::Plan plan;
  std::uint64_t rate = 0;  // bytes of operation per second that it is made for; 0: unknown
  protocol::SlotLayout slots{};
  std::vector<PlanNode> nodes;  // none: not yet placed
};

// By job; empty: for all that have none of their own. Nobody changes a plan: another is put there.
using PlansByJob = std::map<std::string, std::shared_ptr<const SetPlan>>;

// Reading is of a copy in memory, and sees what was written at once. A write has *settled* when
// another coordinator that takes over finds it; writes settle in the order in which they are made.
// What follows from a write is said to nobody before (when_settled()): so whoever takes over does
// not contradict what was said. One thread, the coordinator's.
class Store {
 public:
  virtual ~Store() = default;

  virtual void put(NodeId node, const Member& member) = 0;
  virtual void erase(NodeId node) = 0;
  virtual const Members& members() const = 0;

  // Members that have left, as they were, as long as it matters; by the number that they had.
  // `draining`: they are drained when they come again.
  virtual void put_departed(NodeId node, const Member& member) = 0;
  virtual void erase_departed(NodeId node) = 0;
  virtual const Members& departed() const = 0;

  // By epoch: no two jobs have the same one.
  virtual void put(const JobRecord& job) = 0;
  virtual void erase_job(std::uint32_t epoch) = 0;
  virtual const std::map<std::uint32_t, JobRecord>& jobs() const = 0;

  // That somebody has set.
  virtual void put_plan(const std::string& job, std::shared_ptr<const SetPlan> plan) = 0;
  virtual void erase_plan(const std::string& job) = 0;
  virtual const PlansByJob& plans() const = 0;

  // That somebody has measured, by name of a member; all of them at a time.
  virtual void put_speeds(std::map<std::string, Measured> speeds) = 0;
  virtual const std::map<std::string, Measured>& speeds() const = 0;

  // Numbers that no coordinator over this store has given before; never 0. Epochs are larger than
  // all that it has heard of, too.
  virtual std::uint32_t next_epoch() = 0;
  virtual void heard_of_epoch(std::uint32_t epoch) = 0;
  virtual NodeId next_node() = 0;
  virtual std::uint64_t next_placement() = 0;

  // `then` is called once, in the order of these calls, perhaps before this returns: when all
  // writes so far have settled, or with an error when one of them never will. Then the store is
  // lost, for all that is asked later too: nothing is said any more by who writes to it. An
  // implementation must see to it that one or the other comes soon, well before kPlacingPatience;
  // it drops what waits when it is destroyed.
  virtual void when_settled(std::function<void(const Outcome&)> then) = 0;
};

}  // namespace tally::control
