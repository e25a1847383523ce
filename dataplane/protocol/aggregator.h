// The protocol of one shard, pure: events and `now` in; tiles to move and completions out. It knows
// no transport, no memory and no clock, so that a test can drive whole jobs through it in one
// thread.
//
// An operation lives like this: every rank's notice is announce()d; when all have come it is ready
// and start_tile() hands out its tiles, one by one, in the order that the scheduler decides; the
// engine pulls, sums and pushes each and reports it by end_tile(); after the last one every rank's
// completion stands in the outbox. Whatever fails on the way gives one verdict, the same for all
// ranks, once no tile of the operation is in flight.
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
#include "dataplane/protocol/tile_scheduler.h"
#include "dataplane/protocol/vertex.h"
#include "dataplane/wire/completion.h"
#include "dataplane/wire/notice.h"

namespace tally::protocol {

struct AggregatorConfig {
  Plan plan;
  std::uint32_t shard = 0;  // which tree of the plan this is the star of, unless jobs say otherwise
  std::uint64_t window_bytes = 4 << 20;  // in flight each way
  std::uint64_t tile_bytes = 0;          // of one input; 0: derived from the window
  std::uint32_t tiles = 64;              // tile slots
  // With so many bytes to be read and stored here, results are stored past the caches.
  std::uint64_t stream_bytes = UINT64_MAX;
  Nanos default_deadline = 60 * kSecond;
  SmallOperations* small = nullptr;  // borrowed: what the node's shards share; none: this is alone
};

// Bytes of all inputs of the largest tile that a job of so many ranks can have: a transport that
// lands inputs needs room for one.
std::uint64_t largest_tile(const AggregatorConfig& config, std::uint32_t ranks);

struct JobSpec {
  std::uint32_t epoch = 1;
  std::uint16_t ranks = 1;
  std::uint32_t weight = 1;
  std::uint32_t credit = 256;  // operations that a rank may have outstanding here
  // Which trees carry the job, and this shard's places in them; no classes: the configuration's.
  Plan plan{};
  std::vector<Vertex> vertices{};  // at most one of a tree; none: nothing comes here
  // In flight each way for this job here, where that is less than the shard's window: what its
  // trees' share of the links carries in a few milliseconds.
  std::uint64_t window_bytes = UINT64_MAX;
};

// A buffer of one rank that a tile reads or writes.
struct Endpoint {
  Member member = kNoMember;
  std::uint32_t region = 0;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  std::uint32_t cookie = 0;  // of the member's announcement
};

// The checksums that a rank gives for its bytes of a tile.
struct TileChecksums {
  std::size_t source = 0;  // index of these bytes
  Endpoint where;
};

// A run of elements on its way. Sources are in rank order.
struct Tile {
  JobSlot job = 0;
  Slot operation = kNone;
  ElementType type = ElementType::kF32;
  Operation reduction = Operation::kSum;
  std::uint32_t divisor = 1;
  std::uint64_t first = 0;  // element of the operation
  std::uint64_t count = 0;  // elements of `type` (bytes where a collective only moves them)
  std::uint64_t operation_bytes = 0;
  bool stream = false;  // results go past the caches: they would not stay there
  bool summed = false;  // of the bytes in flight it has pushes, no more pulls
  bool fine = false;    // others' small operations are about: look for news before the next tile
  std::vector<Endpoint> sources;
  std::vector<TileChecksums> checksums;  // of the ranks that give any
  std::uint64_t lead = 0;                // bytes of a source that lie in its first granule
  std::vector<Endpoint> landings;
  std::vector<Endpoint> stats_landings;  // of BlockStats, for the ranks that want them
  std::vector<Member> members;           // whose memory is read or stored, each once
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
  std::vector<std::uint16_t> missing;
  Nanos since = 0;
};

class Aggregator {
 public:
  explicit Aggregator(AggregatorConfig config);
  ~Aggregator();

  // -- control: allocates, off the path --------------------------------------------------------
  // Precondition for all: `job` is free (add_job) or was added.
  void add_job(JobSlot job, const JobSpec& spec);
  // Precondition: no member is left in it and no tile of it is in flight.
  void remove_job(JobSlot job);
  bool busy(JobSlot job) const;  // tiles in flight
  // The rank's session is there: it may announce. Precondition: the rank has none.
  void join(JobSlot job, std::uint16_t rank, Member member);
  // Of the operations whose home this shard is.
  std::vector<Waiting> waiting(JobSlot job) const;
  std::uint32_t operations(JobSlot job) const;
  // What was counted since the job formed.
  const JobTotals& totals(JobSlot job) const;
  std::vector<RankCounters> rank_counters(JobSlot job) const;
  // Keeps the last so many operations; 0: none, and forgets what was kept.
  void set_trace(JobSlot job, std::size_t records);
  TraceRing::Taken take_trace(JobSlot job);

  // -- events ----------------------------------------------------------------------------------
  // `admissible`: what the transport says of the notice's regions; kOk or why not.
  void announce(Member member, const wire::Notice& notice, Status admissible, Nanos now);
  // The rank's session is over (kPeerLost, kPeerLeft): everything it takes part in fails, now and
  // later. Also for a rank that never joined. Once; again does nothing.
  void gone(JobSlot job, std::uint16_t rank, Status why, Nanos now);
  void gone(Member member, Status why, Nanos now);
  // Verdicts for what is past its deadline.
  void expire(Nanos now);
  Nanos next_deadline() const;

  // -- tiles -----------------------------------------------------------------------------------
  // Fills `tile` with the next tile to move (its vectors are reused); false when there is none or
  // the window is full.
  bool start_tile(Tile& tile);
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
  // The tile is placed everywhere, or failed: kOk, or why, and by whose fault.
  void end_tile(const Tile& tile, Status status, Member culprit, Nanos now);

  // -- out -------------------------------------------------------------------------------------
  std::span<const Outgoing> outbox() const { return outbox_; }
  void clear_outbox() { outbox_.clear(); }

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
    std::uint16_t rank = 0;
    bool joined = false;
  };

  Job* job_of(Member member);
  const Job* job_of(Member member) const;
  void reply(Member member, const wire::Notice& notice, const Verdict& verdict, Nanos elapsed);
  static Status check(const Job& job, const wire::Notice& notice, std::uint16_t& vertex);
  void cancel(Job& job, std::uint16_t rank, const wire::Notice& notice, Nanos now);
  Slot open(Job& job, const OperationKey& key, std::uint16_t vertex, std::uint16_t rank,
            const wire::Notice& notice, Nanos now);
  Nanos deadline_of(const wire::Notice& notice, Nanos now) const;
  void shorten_deadline(Job& job, Slot slot, Nanos deadline);
  void become_ready(Job& job, Slot slot, Nanos now);
  void fail(Job& job, Slot slot, const Verdict& verdict, Nanos now);
  void conclude(Job& job, Slot slot, Nanos now);
  void account(Job& job, const OperationRecord& operation, Nanos now);
  void keep_failed(Job& job, Slot slot);
  void forget(Job& job, Slot slot);
  void abandon(Job& job, Slot slot, Member member, const Verdict& verdict, Nanos now);
  static Verdict missing_rank(const Job& job, Slot slot);
  std::uint64_t tile_elements(const Job& job, const Shape& shape, bool fine) const;
  static void add_checksums(const Shape& shape, const Announcement& announcement, Tile& tile);
  void fill_endpoints(const Job& job, const OperationRecord& operation, const Stretch& stretch,
                      Tile& tile) const;

  AggregatorConfig config_;
  TileScheduler scheduler_;
  Grain grain_;
  std::vector<std::unique_ptr<Job>> jobs_;  // by JobSlot
  std::vector<MemberEntry> members_;        // by Member
  std::vector<Outgoing> outbox_;
  std::uint64_t age_ = 0;
  std::uint64_t backlog_ = 0;  // bytes to be read and stored for all that is ready
  Nanos busy_ = 0;             // spent on sums
};

// A rank's place in its job, and the field by field comparison of announcements.
Verdict compare(const Shape& first, std::uint16_t first_rank, const Shape& later,
                std::uint16_t later_rank);

}  // namespace tally::protocol
