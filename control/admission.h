// Who may take part: jobs, their tokens, their ranks. Pure bookkeeping of the control thread; says
// no early, with the numbers.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "control/coordinator/placement.h"
#include "control/coordinator/rails.h"
#include "dataplane/protocol/cut.h"
#include "dataplane/protocol/vertex.h"

namespace tally::control {

// A job that the configuration names.
struct ConfiguredJob {
  std::string name;
  std::string token;
  std::uint32_t weight = 1;
  std::uint32_t ranks = 0;  // 0: whatever its first rank says
};

struct AdmissionLimits {
  bool open_jobs = true;  // a job that is not configured may be created by its first rank
  std::uint32_t max_jobs = 64;
  std::uint32_t max_ranks = 1024;
  std::uint64_t max_region_bytes = 64ull << 30;   // per job
  std::uint64_t node_region_bytes = 64ull << 30;  // all jobs together
  std::uint32_t max_regions = 8192;               // per job
  // What the shards reserve for the operations of all jobs: ranks and branches x credit of each,
  // and the slots between nodes (protocol.md).
  std::uint64_t max_table_bytes = 1ull << 30;
  // The slots themselves, in this node's memory for nodes above it: of all jobs.
  std::uint64_t max_slot_bytes = 4ull << 30;
  std::uint32_t shards = 1;
  std::uint32_t shards_per_job = 4;  // at most
  // Operations that a rank may have outstanding at a shard, at most; and all ranks of a job
  // together, of which a rank has its part, or kLeastCredit: what sessions take at a node does not
  // grow with the square of its jobs.
  std::uint32_t credit = 256;
  std::uint32_t job_credit = 15'360;
  std::uint64_t split_bytes = 256 << 10;  // of plans that are made here
  bool network = false;                   // sessions may come by one: they take more descriptors
  // Of this process (process_limits.h), for all jobs: a region is a mapping, a session another, and
  // descriptors for its connection, its process and its doorbells, or its endpoints.
  std::uint32_t max_mappings = 32'765;
  std::uint64_t max_descriptors = UINT64_MAX;
};

// Enough for what a shard has under way at a time, of any size of operation. Like 60, which each of
// 256 ranks has, less than a power of two: RDMA devices round their queues up from one entry more.
inline constexpr std::uint32_t kLeastCredit = 28;
inline constexpr std::uint32_t kNobody = UINT32_MAX;
inline constexpr std::uint32_t kNoLane = UINT32_MAX;
// A placed forming that nobody joins is dropped after this: who asked for it is gone.
inline constexpr Nanos kPlacementPatience = 60 * kSecond;

// One forming of a job: its members from the first to join until the last is gone. When a rank
// goes, this forming is over; the job may form again under the next epoch while it winds down.
//
// Two numberings meet here. A *lane* is what a session has for each shard that serves the job
// (rings and a doorbell, an endpoint, a queue pair): 0, 1, ... at each node. A *tree* is one of the
// job's plan, which may have trees at other nodes too; number i of those that are here is at lane
// i mod lanes. On a node that stands alone trees and lanes are the same.
struct Forming {
  std::string name;
  std::string token;
  std::uint32_t slot = 0;  // its number at the shards
  std::uint32_t epoch = 1;
  std::uint32_t weight = 1;
  std::uint32_t credit = 0;           // operations that a rank may have outstanding at a shard
  protocol::Plan plan;                // whole
  std::vector<std::uint32_t> shards;  // that serve it, by lane
  std::uint64_t plan_epoch = 0;       // of the file that the plan is from; 0: of none
  // This node's place in those of the plan's trees that it is in, by rising tree.
  std::vector<protocol::Vertex> vertices;
  // Other nodes' shards that are next to this one's in these trees; empty where all are stars.
  std::vector<Neighbour> below, above;
  protocol::SlotLayout slots{};
  std::vector<std::string> stands_in_for{};  // nodes that the plan names
  std::uint32_t nodes = 1;                   // that the plan has trees at
  std::uint64_t rate = 0;       // bytes of operation per second that it is for; 0: unknown
  bool placed = false;          // by a coordinator: ranks join it with its epoch
  std::uint64_t placement = 0;  // its number there; 0: nobody wants to hear of it
  Nanos placed_at = 0;
  // By rank, then by number in `below`: the session, or kNobody.
  std::vector<std::uint32_t> members;
  std::uint32_t joined = 0;
  std::uint32_t regions = 0;
  std::uint64_t region_bytes = 0;
  std::uint64_t table_bytes = 0;
  std::uint64_t slot_bytes = 0;  // in this node's memory
  bool over = false;
  // Of branches that are here still: in these trees no rank is left below them.
  std::set<std::pair<std::uint32_t, std::uint32_t>> empty_below;  // member, tree

  // kNoLane: the shard has nothing to do with it.
  std::uint32_t lane_of(std::uint32_t shard) const;
  // With neighbours numbered as the shard knows them: those alone that it has to do with.
  std::vector<protocol::Vertex> vertices_at(std::uint32_t shard) const;
  // Which of the neighbours these are, rising.
  std::vector<std::uint32_t> below_at(std::uint32_t shard) const;
  std::vector<std::uint32_t> above_at(std::uint32_t shard) const;
  // The shard's number for a member, which is its own for ranks; kNobody: it knows none.
  std::uint32_t member_at(std::uint32_t shard, std::uint32_t member) const;
  std::uint32_t joined_ranks() const;
  // Placed, and nobody has come: of its ranks, or where it has none at all.
  bool unclaimed() const;
  // Nothing is left below the vertex. Precondition: it is over, so nobody comes.
  bool is_empty(const protocol::Vertex& vertex) const;
  // That a branch may have on their way, or be sent: `credit` operations of each vertex that it is
  // below of, and what goes by slots.
  std::uint32_t messages_of(std::uint32_t member) const;
  std::vector<std::uint32_t> trees() const;
  // Precondition: one of these.
  std::uint32_t shard_of(std::uint32_t tree) const;
  // Bytes that may be on their way to or from the children of the shard's vertices: what the shares
  // of their trees in the links carry in a few milliseconds. That keeps links busy over any round
  // trip within a data centre; more would wait in the network's queues, where whoever has more gets
  // more of the link, not whose share it is.
  std::uint64_t window_at(std::uint32_t shard) const;
  std::uint16_t ranks() const { return static_cast<std::uint16_t>(members.size() - below.size()); }
  bool is_branch(std::uint32_t member) const { return member >= ranks(); }
};

class Admission {
 public:
  Admission(AdmissionLimits limits, std::vector<ConfiguredJob> configured);

  struct Applicant {
    std::string job;
    std::string token;
    std::uint32_t rank = 0;
    std::uint32_t ranks = 1;
    std::uint32_t epoch = 0;  // of the placed forming that it means; 0: none
    // Of a node that is a vertex below this one, instead of a rank: its name, and the shard.
    std::string branch{};
    std::uint32_t lane = 0;
  };

  // The node's NICs are these from now on: for jobs that form. None: one, whatever it is.
  void set_rails(std::vector<Rail> rails) { rails_ = std::move(rails); }
  const std::vector<Rail>& rails() const { return rails_; }

  struct Admitted {
    Forming* forming;
    bool is_new;  // the first of its members: the shards do not know it yet
    std::uint32_t member = 0;
  };

  // Gives the applicant its rank, or says why not. `session`: its number.
  Result<Admitted> admit(const Applicant& applicant, std::uint32_t session);

  // The forming that a coordinator wants here, or why not. Takes the place of one that was placed
  // before and that nobody has joined: `replaced` is to be dropped.
  struct Placed {
    Forming* forming;
    Forming* replaced = nullptr;
  };
  Result<Placed> place(const Placement& placement, Nanos now);
  // The placed one of that number, nullptr: none.
  Forming* placed(std::uint64_t placement) const;
  // Placed, and nobody has come for too long.
  std::vector<Forming*> unclaimed(Nanos now) const;
  // The largest that was ever placed here.
  std::uint32_t highest_epoch() const { return highest_epoch_; }

  // The rank is gone. True when it was the last one: the forming's slot can be freed at the shards,
  // then release() ends it.
  bool leave(Forming& forming, std::uint32_t rank);
  void release(Forming& forming);

  // Room for a region of so many bytes, or why not.
  Outcome reserve(Forming& forming, std::uint64_t bytes) const;
  static void give_back(Forming& forming, std::uint64_t bytes);

  const std::vector<std::unique_ptr<Forming>>& formings() const { return formings_; }

 private:
  Result<Forming*> form(const Applicant& applicant, const ConfiguredJob* configured);
  Result<Forming*> placed_for(const Applicant& applicant) const;
  static Result<std::uint32_t> member_of(const Forming& forming, const Applicant& applicant);
  Result<Admitted> seat(Forming& forming, bool is_new, const Applicant& applicant,
                        std::uint32_t session);
  // With lanes at these rails, or why there is no room for it.
  Result<Forming*> add(std::unique_ptr<Forming> forming,
                       std::span<const std::uint32_t> rail_of_lane);
  // Whether it can be served at all, by so many shards.
  Outcome serves(const Placement& placement, std::uint32_t lanes) const;
  std::vector<std::uint32_t> rails_of_lanes(const Placement& placement, std::uint32_t lanes) const;
  Outcome room_for(const Forming& wanted) const;
  Outcome room_for_session(const Applicant& applicant) const;
  std::uint64_t table_bytes(const Forming& forming, std::uint32_t lanes) const;
  static std::uint64_t slot_bytes(const Forming& forming, std::uint32_t lanes);
  Outcome room_for_slots(const Forming& wanted) const;
  const ConfiguredJob* configured(const std::string& name) const;
  Forming* current(const std::string& name) const;
  std::uint32_t free_slot() const;
  std::uint32_t credit_of(std::uint32_t ranks) const;
  std::uint32_t shards_of_a_job() const;
  std::vector<std::uint32_t> least_used_shards(std::span<const std::uint32_t> rail_of_lane) const;

  AdmissionLimits limits_;
  std::vector<Rail> rails_;
  std::vector<ConfiguredJob> configured_;
  std::vector<std::unique_ptr<Forming>> formings_;
  std::map<std::string, std::uint32_t> epochs_;  // the last one of each job that has formed
  std::uint32_t highest_epoch_ = 0;
};

}  // namespace tally::control
