#include "tests/sim/worker.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "dataplane/partition/granules.h"

namespace tally::sim {
namespace {

constexpr std::size_t kMargin = 128;      // around what is announced: room for offsets, and guards
constexpr Nanos kTimeout = 10 * kSecond;  // beyond the deadline
constexpr Nanos kDefaultDeadline = 60 * kSecond;

std::uint64_t extent_bytes(const protocol::Shape& shape) {
  return shape.count * element_bytes(shape.type);
}

client::BookConfig book_config(const Surroundings& world, std::uint16_t rank) {
  return {world.schedule.plan, {}, rank, world.job.ranks, world.job.epoch, world.job.credit};
}

}  // namespace

Worker::Worker(const Surroundings& world, std::uint16_t rank, transport::Peer peer, Arena& arena)
    : world_(world),
      rank_(rank),
      peer_(peer),
      book_(book_config(world, rank)),
      posted_(world.job.ops.size()),
      memory_(world.job.tags) {
  for (std::uint32_t tag = 0; tag < world_.job.tags; ++tag) {
    std::uint64_t bytes = 0;
    std::uint64_t count = 0;
    for (const OpPlan& op : world_.job.ops) {
      if (op.tag != tag) continue;
      bytes = std::max({bytes, extent_bytes(op.shape), extent_bytes(op.odd_shape)});
      count = std::max({count, op.shape.count, op.odd_shape.count});
    }
    const auto make = [&](Buffer& buffer, std::uint32_t region, std::uint64_t size) {
      buffer = {arena.take(size), arena.take(size)};
      std::fill(buffer.memory.begin(), buffer.memory.end(), std::byte{0x5a});
      std::fill(buffer.shadow.begin(), buffer.shadow.end(), std::byte{0x5a});
      for (auto* node : world_.nodes) node->add_region(peer_, region, buffer.memory);
    };
    // Statistics, then checksums.
    const std::uint64_t side =
        (count / summation::kStatsBlock + 2) * sizeof(summation::BlockStats) +
        (bytes / protocol::kGranuleBytes + world_.job.ranks + 1) * sizeof(protocol::Checksum);
    make(memory_[tag].in, 3 * tag + 1, bytes + 2 * kMargin);
    make(memory_[tag].out, 3 * tag + 2, bytes + 2 * kMargin);
    make(memory_[tag].stats, 3 * tag + 3, side);
  }
}

// -- the program
// -----------------------------------------------------------------------------------

// How many operations it will announce.
std::size_t Worker::limit() const {
  const bool stops = world_.job.has(Trouble::kAbsent) || world_.job.has(Trouble::kLeave);
  return stops && rank_ == world_.job.victim ? std::min(world_.job.after, posted_.size())
                                             : posted_.size();
}

bool Worker::done() const {
  if (presence_ != Presence::kHere) return true;
  return count_posted_ >= limit() && book_.outstanding() == 0 && !wants_to_leave();
}

bool Worker::wants_to_leave() const {
  return presence_ == Presence::kHere && world_.job.has(Trouble::kLeave) &&
         rank_ == world_.job.victim && count_posted_ >= limit() && book_.outstanding() == 0;
}

Nanos Worker::wakes(Nanos now) const {
  if (presence_ != Presence::kHere) return kForever;
  return std::min(book_.earliest_until(now), asleep_until_ > now ? asleep_until_ : kForever);
}

// One of the block's operations that may be announced now. Rounds of a tag go in order, and the
// block before has to be announced first: so nobody waits for credit in a circle.
bool Worker::next_op(std::size_t& op) {
  const std::size_t block = world_.job.block;
  for (std::size_t first = 0; first < posted_.size(); first += block) {
    const std::size_t last = std::min(first + block, posted_.size());
    candidates_.clear();
    bool all_posted = true;
    std::uint64_t tags_seen = 0;
    for (std::size_t i = first; i < last; ++i) {
      if (posted_[i].posted) continue;
      all_posted = false;
      const std::uint64_t tag = 1ULL << world_.job.ops[i].tag;
      if ((tags_seen & tag) == 0 && !book_.outstanding(world_.job.ops[i].tag)) {
        candidates_.push_back(i);
      }
      tags_seen |= tag;
    }
    if (all_posted) continue;
    if (candidates_.empty()) return false;
    op = world_.random.pick(candidates_);
    return true;
  }
  return false;
}

bool Worker::act(Nanos now) {
  if (presence_ != Presence::kHere || asleep_until_ > now) return false;
  const JobPlan& job = world_.job;
  if (job.has(Trouble::kLate) && rank_ == job.victim && count_posted_ == job.after &&
      asleep_until_ == 0) {
    asleep_until_ = now + 60 * kMillisecond;
    return true;
  }
  if (job.has(Trouble::kCancel) && world_.random.chance(0.05)) {
    const std::size_t op = world_.random.below(posted_.size());
    if (posted_[op].posted && !posted_[op].finished) {
      posted_[op].cancelled = true;
      world_.trace.write(now, "job {} rank {} cancels tag {}", job.epoch, rank_, job.ops[op].tag);
      if (book_.cancel(job.ops[op].tag, outbound_) != Status::kOk) violated("cancel is refused");
      send(now);
      return true;
    }
  }
  std::size_t op = 0;
  if (count_posted_ >= limit() || !next_op(op)) return false;
  const std::size_t before = count_posted_;
  post(op, now);
  return count_posted_ > before;
}

wire::Notice Worker::make_notice(std::size_t index) const {
  const OpPlan& op = world_.job.ops[index];
  const protocol::Shape& shape = op.odd_rank == rank_ ? op.odd_shape : op.shape;
  wire::Notice notice;
  notice.kind = shape.kind;
  notice.type = shape.type;
  notice.operation = shape.operation;
  notice.count = shape.count;
  notice.root = shape.root;
  notice.tag = op.tag;
  notice.priority = op.priority;
  notice.deadline_ms = op.deadline_ms;
  const bool whole = shape.kind == wire::Kind::kAllReduce || shape.kind == wire::Kind::kReduce;
  if (whole && (op.wants_stats >> rank_ & 1) != 0) {
    notice.flags = wire::kWantStats;
  }
  if ((world_.job.checksums >> rank_ & 1) != 0) notice.flags |= wire::kHasChecksums;
  if (notice.flags != 0) notice.side_region = 3 * op.tag + 3;
  place(index, notice);
  if (op.bad_rank == rank_) {
    notice.in_region = notice.out_region = 1000;
  }
  return notice;
}

// Region and offset of both buffers. In place the result lies over the rank's own contribution.
void Worker::place(std::size_t index, wire::Notice& notice) const {
  const OpPlan& op = world_.job.ops[index];
  const protocol::Shape& shape = op.odd_rank == rank_ ? op.odd_shape : op.shape;
  const std::uint64_t size = element_bytes(shape.type);
  notice.in_region = 3 * op.tag + 1;
  notice.out_region = 3 * op.tag + 2;
  notice.in_offset = 64 + 8 * world_.random.below(8);
  notice.out_offset = 64 + 8 * world_.random.below(8);
  if ((op.in_place >> rank_ & 1) == 0) return;
  notice.out_region = notice.in_region;
  notice.out_offset = notice.in_offset;
  const auto in = protocol::contribution(shape, rank_);
  const auto out = protocol::result(shape, rank_);
  if (out.first > in.first) notice.out_offset += (out.first - in.first) * size;
  if (in.first > out.first) notice.in_offset += (in.first - out.first) * size;
}

void Worker::post(std::size_t index, Nanos now) {
  const OpPlan& op = world_.job.ops[index];
  const wire::Notice notice = make_notice(index);
  const Nanos deadline = op.deadline_ms != 0 ? op.deadline_ms * kMillisecond : kDefaultDeadline;
  const Status status = book_.post(notice, index, now + deadline + kTimeout, outbound_);
  if (status == Status::kNoCredit) return;  // an earlier block is still under way
  if (status != Status::kOk) violated("post: {}", status_name(status));
  if (!world_.job.has(Trouble::kFlip)) check_quiet(op.tag);
  Posted& posted = posted_[index];
  posted.posted = true;
  posted.in_place = (op.in_place >> rank_ & 1) != 0;
  posted.shape = op.odd_rank == rank_ ? op.odd_shape : op.shape;
  posted.notice = notice;
  ++count_posted_;
  prepare_memory(index);
  world_.trace.write(now, "job {} rank {} announces tag {} round {}: {} of {} {}{}",
                     world_.job.epoch, rank_, op.tag, op.round, wire::name(notice.kind),
                     notice.count, tally::name(notice.type), posted.in_place ? ", in place" : "");
  if (outbound_.front().notice.round != op.round) violated("the book counts another round");
  send(now);
}

void Worker::send(Nanos now) {
  for (const client::Outbound& outbound : outbound_) {
    world_.trace.write(now, "job {} rank {} -> shard {}: {} tag {} round {} part {}",
                       world_.job.epoch, rank_, outbound.shard, wire::name(outbound.notice.kind),
                       outbound.notice.tag, outbound.notice.round, outbound.notice.part);
    world_.nodes[outbound.shard]->send(peer_, wire::encode(outbound.notice));
  }
  outbound_.clear();
}

// Completions may answer what was never asked where notices are doubled or spoilt.
bool Worker::tolerant() const {
  return world_.job.has(Trouble::kDuplicate) || world_.job.has(Trouble::kFlip);
}

bool Worker::take(Nanos now) {
  if (presence_ != Presence::kHere) return false;
  if (book_.earliest_until(now) <= now) {
    if (!tolerant()) violated("job {} rank {} waits in vain", world_.job.epoch, rank_);
    return false;
  }
  std::array<RingEntry, 4> entries;
  std::size_t taken = 0;
  for (std::uint32_t shard = 0; shard < world_.nodes.size(); ++shard) {
    const auto burst = std::span(entries).first(1 + world_.random.below(entries.size()));
    const std::size_t count = world_.nodes[shard]->take(peer_, burst);
    taken += count;
    for (const RingEntry& entry : burst.first(count)) {
      wire::Completion completion;
      if (wire::parse(entry, completion) != Status::kOk) violated("a completion does not parse");
      const Status status = book_.complete(shard, completion, outbound_);
      if (status != Status::kOk && !tolerant()) {
        violated("job {} rank {}: shard {} answers what was not asked, tag {} round {} part {}: {}",
                 world_.job.epoch, rank_, shard, completion.tag, completion.round, completion.part,
                 status_name(completion.status));
      }
      send(now);
    }
  }
  return taken > 0;
}

void Worker::leave(Nanos now) {
  world_.trace.write(now, "job {} rank {} leaves", world_.job.epoch, rank_);
  presence_ = Presence::kLeft;
}

void Worker::lose(Nanos now) {
  if (presence_ != Presence::kHere) return;
  world_.trace.write(now, "job {} rank {} is lost", world_.job.epoch, rank_);
  presence_ = Presence::kLost;
  book_.abandon(Status::kNodeLost);
  if (book_.outstanding() != 0) violated("abandon leaves something outstanding");
}

}  // namespace tally::sim
