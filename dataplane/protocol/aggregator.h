// The protocol of one shard, pure: events and `now` in; tiles to move, completions and messages to
// other vertices out. It knows no transport, no memory and no clock, so that a test can drive whole
// jobs through it in one thread.
//
// An operation lives like this: every child's notice is announce()d; when all have come it is
// ready. At the root (of a star: the only vertex) start_tile() hands out its tiles, one by one, in
// the order that the scheduler decides; the engine pulls, sums and pushes each and reports it by
// end_tile(); after the last one every rank's completion stands in the outbox. Whatever fails on
// the way gives one verdict, the same for all ranks, once no tile of the operation is in flight.
//
// At another vertex all of this is the parent's to decide: readiness goes up as a notice of its
// own, tiles are those that the parent wants, failures are reported and the verdict comes down. See
// docs/protocol.md, "Between vertices".
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/clock.h"
#include "dataplane/protocol/cut.h"
#include "dataplane/protocol/deadline_heap.h"
#include "dataplane/protocol/grain.h"
#include "dataplane/protocol/job_metrics.h"
#include "dataplane/protocol/operation.h"
#include "dataplane/protocol/operation_table.h"
#include "dataplane/protocol/slots.h"
#include "dataplane/protocol/tile.h"
#include "dataplane/protocol/tile_scheduler.h"
#include "dataplane/protocol/vertex.h"
#include "dataplane/wire/completion.h"
#include "dataplane/wire/notice.h"
#include "dataplane/wire/vertex.h"

namespace tally::protocol {

struct AggregatorConfig {
  Plan plan;
  std::uint32_t shard = 0;  // which tree of the plan this is the star of, unless jobs say otherwise
  std::uint64_t window_bytes = 4 << 20;  // in flight each way, of each class
  std::uint64_t tile_bytes = 0;          // of one input; 0: derived from the window
  std::uint32_t tiles = 64;              // tile slots
  // Vertices are at most so high. Each height has a class of tiles of its own, those above 1 with
  // `upper_tiles` slots, and tiles of at most `upper_inputs`.
  std::uint32_t max_height = 1;
  std::uint32_t upper_tiles = 16;
  std::uint32_t upper_inputs = UINT32_MAX;
  // For tests: one class for all heights. Trees may wait for each other in a circle then.
  bool one_class = false;
  // With so many bytes to be read and stored here, results are stored past the caches.
  std::uint64_t stream_bytes = UINT64_MAX;
  Nanos default_deadline = 60 * kSecond;
  SmallOperations* small = nullptr;  // borrowed: what the node's shards share; none: this is alone
};

// Tiles on their way up that may be in flight at once.
std::uint32_t tile_slots(const AggregatorConfig& config);

// Inputs of all of these together, of jobs of so many ranks: a vertex has no more children than its
// job has ranks, because a branch has ranks of its own below it.
std::uint64_t most_inputs(const AggregatorConfig& config, std::uint32_t ranks);

// Bytes of all inputs of the largest tile that a job of so many ranks can have: a transport that
// lands inputs needs room for one.
std::uint64_t largest_tile(const AggregatorConfig& config, std::uint32_t ranks);

struct JobSpec {
  std::uint32_t epoch = 1;
  std::uint16_t ranks = 1;
  std::uint32_t weight = 1;
  std::uint32_t credit = 256;  // operations that a rank may have outstanding here, in all trees
  // Which trees carry the job, and this shard's places in them; no classes: the configuration's.
  Plan plan{};
  std::vector<Vertex> vertices{};  // at most one of a tree; none: nothing comes here
  std::uint16_t branches = 0;      // that the vertices speak of
  std::uint16_t parents = 0;
  SlotLayout slots{};  // between vertices: the same in the whole job
  // By number, which of the job's nodes these are, from 1, for verdicts to name; none: unknown.
  std::vector<std::uint32_t> branch_nodes{};
  std::vector<std::uint32_t> parent_nodes{};
  // In flight each way for this job here, where that is less than the shard's window: what its
  // trees' share of the links carries in a few milliseconds.
  std::uint64_t window_bytes = UINT64_MAX;
};

// A completion and whom it is for.
struct Outgoing {
  Member member = kNoMember;
  wire::Completion completion;
};

// Who an operation waits for: what `tallyctl jobs` shows.
struct Waiting {
  std::uint32_t tag = 0;
  std::uint32_t round = 0;
  std::vector<std::uint16_t> missing;  // of the ranks that announce here
  // Below branches that have not announced: at least one of each is missing.
  std::vector<std::uint16_t> missing_below;
  Nanos since = 0;
};

class Aggregator {
 public:
  explicit Aggregator(AggregatorConfig config);
  ~Aggregator();

  // -- control: allocates, off the path --------------------------------------------------------
  // Precondition for all: `job` is free (add_job) or was added.
  void add_job(JobSlot job, const JobSpec& spec);
  // Bytes that the books of such a job hold here: what admission reserves.
  static std::uint64_t footprint(const JobSpec& spec);
  // Precondition: no member is left in it and no tile of it is in flight. What it still has to say
  // is lost; its links are nobody's.
  void remove_job(JobSlot job);
  bool busy(JobSlot job) const;  // tiles in flight
  // No slot between this shard and other vertices is in use, but those of members that are gone.
  bool slots_free(JobSlot job) const;
  // The rank's session is there: it may announce. Precondition: the rank has none. Branch i joins
  // as rank `ranks + i`.
  void join(JobSlot job, std::uint16_t rank, Member member);
  // The session with a parent is there. `region`: by which the parent knows this shard's slots.
  void join_parent(JobSlot job, std::uint32_t parent, Link link, std::uint32_t region, Nanos now);
  // Of the operations whose home tree this shard has a vertex of.
  std::vector<Waiting> waiting(JobSlot job) const;
  std::uint32_t operations(JobSlot job) const;
  // What was counted since the job formed.
  const JobTotals& totals(JobSlot job) const;
  std::vector<RankCounters> rank_counters(JobSlot job) const;
  // Keeps the last so many operations; 0: none, and forgets what was kept.
  void set_trace(JobSlot job, std::size_t records);
  TraceRing::Taken take_trace(JobSlot job);

  // -- events ----------------------------------------------------------------------------------
  // `admissible`: what the transport says of the notice's regions; kOk or why not. A partial notice
  // (of a branch) too.
  void announce(Member member, const wire::Notice& notice, Status admissible, Nanos now);
  // The rank's session is over (kPeerLost, kPeerLeft): everything it takes part in fails, now and
  // later. Also for a rank that never joined. Once; again does nothing.
  void gone(JobSlot job, std::uint16_t rank, Status why, Nanos now);
  void gone(Member member, Status why, Nanos now);
  // A message that is no notice, of a branch or of a parent. kOk, or that the sender is to be
  // disconnected: it broke the protocol. From a rank every such message does.
  Status heard(Member branch, const RingSlot& message, Nanos now);
  Status heard_above(Link parent, const RingSlot& message, Nanos now);
  // The session with a parent is over: what is outstanding of its vertices fails, now and later.
  void parent_gone(Link parent, Status why, Nanos now);
  // Verdicts for what is past its deadline.
  void expire(Nanos now);
  Nanos next_deadline() const;

  // -- tiles -----------------------------------------------------------------------------------
  // Fills `tile` with the next tile to move (its vectors are reused); false when there is none or
  // the window is full. Precondition: tile.handle is no other's that is in flight.
  bool start_tile(Tile& tile);
  // The same for results on their way down: they need no slot here but tile.own, where the bytes
  // stand, and are to go before what goes up. To be ended by end_down(), without the events
  // between.
  bool start_down(Tile& tile);
  // Whether operations are ready whose tiles have not all been started.
  bool has_tiles() const { return backlog_ > 0; }
  // Its pulls are about to be issued. `now` never goes back, here and below.
  void pulling(const Tile& tile, Nanos now);
  // False: its operation has failed while the inputs came. Nothing may be stored for it any more,
  // and its members may be gone.
  bool wanted(const Tile& tile) const;
  // The member's bytes of this tile do not have their checksums: they are pulled again, or the
  // tile fails.
  void damaged(Member member);
  // The inputs are there and the sum begins. Result bytes of the tile are about to be stored: from
  // now on a failure says so.
  void storing(Tile& tile, Nanos now);
  // The sum has ended; what is not placed yet is on its way.
  void stored(const Tile& tile, Nanos now);
  // The push that a Step asked for is answered: the branch is told.
  void passed_down(Tile& tile, std::uint32_t index);
  // The tile is placed everywhere (a partial sum: stands in its slot; in branches: in theirs), or
  // failed: kOk, or why, and by whose fault. All its pulls, pushes and Steps have come.
  void end_tile(const Tile& tile, Status status, Member culprit, Nanos now);
  void end_down(const Tile& tile, Status status, Member culprit, Nanos now);
  // What tiles in flight waited for. To be taken after every call that may bring some: stored(),
  // end_tile(), end_down(), start_down() and all events. A tile that has ended gets none.
  std::span<const Step> steps() const { return steps_; }
  void clear_steps() { steps_.clear(); }

  // -- out -------------------------------------------------------------------------------------
  // To ranks.
  std::span<const Outgoing> outbox() const { return outbox_; }
  void clear_outbox() { outbox_.clear(); }
  // To branches and to parents, each to be sent in this order.
  std::span<const Letter> letters_down() const { return letters_down_; }
  std::span<const Letter> letters_up() const { return letters_up_; }
  void clear_letters() { letters_down_.clear(), letters_up_.clear(); }

  // Is (kind, count, ...) of this member's notice within a job, and where would its bytes be? Used
  // to ask the transport for `admissible`. Endpoints with bytes == 0 need no region.
  struct Extents {
    Endpoint in;
    Endpoint out;
    Endpoint side;  // statistics, checksums
  };
  Extents extents(Member member, const wire::Notice& notice) const;

 private:
  struct Job;
  struct MemberEntry {
    JobSlot job = 0;
    std::uint16_t rank = 0;  // or ranks of the job + number of the branch
    bool joined = false;
  };
  struct LinkEntry {
    JobSlot job = 0;
    std::uint32_t parent = 0;
    bool joined = false;
  };
  struct DownEntry {
    JobSlot job = 0;
    std::uint32_t parent = 0;
    std::uint32_t slot = 0;
  };

  void reserve();
  Job* job_of(Member member);
  const Job* job_of(Member member) const;

  // Announcements (aggregator.cc).
  void reply(Member member, const wire::Notice& notice, const Verdict& verdict, Nanos elapsed);
  static Status check(const Job& job, std::uint16_t child, const wire::Notice& notice,
                      std::uint16_t& vertex);
  void came_late(Job& job, Slot slot, Member member, const wire::Notice& notice, Nanos now);
  Slot open(Job& job, const OperationKey& key, std::uint16_t vertex, const wire::Notice& notice,
            std::uint16_t child, Nanos now);
  void park(Job& job, Slot slot, std::uint16_t child, const wire::Notice& notice, Nanos now);
  Nanos deadline_of(const wire::Notice& notice, Nanos now) const;
  static void set_deadline(Job& job, Slot slot, Nanos deadline);
  void become_ready(Job& job, Slot slot, Nanos now);

  // Tiles (tiles.cc).
  std::uint64_t tile_elements(const Job& job, const OperationRecord& operation, bool fine) const;
  std::uint64_t start_wanted(Job& job, Slot slot, Tile& tile);
  static void begin(const Job& job, Slot slot, std::uint64_t first, std::uint64_t count,
                    Tile& tile);
  static void move_bytes(Tile& tile);
  static void add_checksums(const Shape& shape, const Announcement& announcement, Tile& tile);
  static void add_landing(const Shape& shape, const Stretch& stretch,
                          const Announcement& announcement, Tile& tile);
  static void fill_endpoints(const Job& job, const OperationRecord& operation,
                             const Stretch& stretch, Tile& tile);
  void ended(Job& job, const Tile& tile, Status status, Member culprit, Nanos now);

  // Towards branches (branches.cc, branch_slots.cc).
  void send_down(const Job& job, std::uint16_t child, const RingSlot& message);
  void tell_branches(Job& job, Slot slot, const wire::Completion& completion);
  void tell_joined(Job& job, std::uint16_t child);
  void ask_branches(Job& job, const OperationRecord& operation, const Stretch& stretch, Tile& tile);
  static void add_below(const Job& job, const OperationRecord& operation, const Stretch& stretch,
                        Tile& tile);
  void hand_down(Job& job, const Tile& tile, std::uint32_t index, std::uint32_t parent,
                 std::uint32_t own_slot);
  void refuse_push(Job& job, const BranchSlots::Waiting& push, Status status);
  void grant(Job& job, std::uint16_t child, std::uint32_t cls);
  void give_back_up(Job& job, const Tile& tile);
  void give_back_down(Job& job, const Tile& tile);
  void give_back_down(Job& job, const Below& below);
  void stop_waiting(Job& job, Slot slot);
  void release(Job& job, std::uint16_t child, std::uint32_t slot);
  void placed(Job& job, const BranchSlots::Down& down, Nanos now);
  Status tile_ready(Job& job, std::uint16_t child, const wire::VertexMessage& message);
  Status tile_placed(Job& job, std::uint16_t child, const wire::VertexMessage& message, Nanos now);
  Status reported(Job& job, std::uint16_t child, const wire::Completion& report, Nanos now);
  void drop_slots(Job& job, std::uint16_t child, Status why, Nanos now);
  static void disown(Job& job, Slot operation);

  // Towards parents (parents.cc).
  void send_up(const Job& job, std::uint32_t parent, const RingSlot& message);
  void announce_up(Job& job, Slot slot, Nanos now);
  void send_partial(const Job& job, const OperationRecord& operation, Nanos left);
  static RingSlot report(const Job& job, const OperationKey& key, std::uint16_t part,
                         const Verdict& verdict);
  void pass_on(Job& job, std::uint16_t vertex, const OperationKey& key, std::uint16_t part,
               const Verdict& verdict);
  void report_up(const Job& job, std::uint16_t vertex, const OperationKey& key, std::uint16_t part,
                 const Verdict& verdict);
  Status tile_wanted(Job& job, std::uint32_t parent, const wire::VertexMessage& message);
  static bool can_sum(const Job& job, const OperationRecord& operation,
                      const wire::VertexMessage& message);
  Status tile_result(Job& job, std::uint32_t parent, const wire::VertexMessage& message);
  void answer_wanted(Job& job, std::uint32_t parent, std::uint32_t slot, bool good);
  void refuse_wanted(Job& job, Slot slot);
  void placed_below(Job& job, std::uint32_t parent, std::uint32_t slot);
  Status judged(Job& job, std::uint32_t parent, const wire::Completion& completion, Nanos now);

  // Endings (verdicts.cc, missing.cc).
  void cancel(Job& job, std::uint16_t child, const wire::Notice& notice, Nanos now);
  static bool is_open(const OperationRecord& operation);
  static bool is_over(const Job& job, const OperationKey& key);
  static bool leads_up(const Job& job, std::uint16_t vertex);
  static bool is_child(const Job& job, std::uint16_t vertex, std::uint16_t child);
  static std::uint16_t blamed(const Job& job, std::uint16_t child);
  static Verdict loss_of(const Job& job, std::uint16_t child, Status why);
  static std::uint16_t stand_in(const Job& job, const OperationRecord& operation,
                                std::uint16_t child);
  void fail(Job& job, Slot slot, const Verdict& verdict, Nanos now);
  void stop(Job& job, Slot slot);
  void give_up(Job& job, Slot slot, const Verdict& verdict, Nanos now);
  void finish(Job& job, Slot slot, const Verdict& verdict, Nanos now);
  void conclude_if_over(Job& job, Slot slot, Nanos now);
  static wire::Completion completion_of(const Job& job, const OperationRecord& operation,
                                        Nanos elapsed);
  void conclude(Job& job, Slot slot, Nanos now);
  Slot open_failed(Job& job, const OperationKey& key, std::uint16_t vertex, std::uint16_t part,
                   Nanos now);
  void account(Job& job, const OperationRecord& operation, Nanos now);
  void keep_failed(Job& job, Slot slot);
  void forget(Job& job, Slot slot);
  void abandon(Job& job, Slot slot, std::uint16_t child, Member member, const Verdict& verdict,
               Nanos now);
  // `from_below`, `from_above`: who knows already.
  void break_job(Job& job, const Verdict& verdict, Member from_below, Link from_above);
  static RingSlot broken_message(const Job& job);
  Status broken(Job& job, const wire::VertexMessage& message, Member from_below, Link from_above,
                Nanos now);
  void overdue(Job& job, Slot slot, Nanos now);
  void missing(Job& job, const wire::VertexMessage& message, Nanos now);
  static Verdict missing_child(const Job& job, Slot slot);

  AggregatorConfig config_;
  TileScheduler scheduler_;
  Grain grain_;
  std::vector<std::unique_ptr<Job>> jobs_;  // by JobSlot
  std::vector<MemberEntry> members_;        // by Member
  std::vector<LinkEntry> links_;            // by Link
  std::vector<Outgoing> outbox_;
  std::vector<Letter> letters_down_;
  std::vector<Letter> letters_up_;
  std::vector<Step> steps_;
  std::vector<DownEntry> downs_;  // results that no tile was started for, from next_down_ on
  std::size_t next_down_ = 0;
  std::uint64_t age_ = 0;
  std::uint64_t backlog_ = 0;  // bytes to be read and stored for all that is ready
  Nanos busy_ = 0;             // spent on sums
};

wire::Completion completion_of(const Verdict& verdict, Nanos elapsed);
Verdict verdict_of(const wire::Completion& completion);

// Of a neighbour: may it have come to this? It names ranks that there are, or none.
bool sensible(const Verdict& verdict, std::uint16_t ranks);

// The field by field comparison of announcements.
Verdict compare(const Shape& first, std::uint16_t first_rank, const Shape& later,
                std::uint16_t later_rank);

}  // namespace tally::protocol
