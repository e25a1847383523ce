#include "dataplane/protocol/matching/matching.h"

#include <algorithm>

#include "base/probes.h"
#include "dataplane/partition/granules.h"
#include "dataplane/protocol/operations/verdict.h"

namespace tally::protocol {
namespace {

Shape shape_of(const wire::Notice& notice, std::uint16_t ranks) {
  return Shape{notice.kind, notice.type, notice.operation, notice.root, ranks, notice.count};
}

Operand operand_of(const wire::Notice& notice) {
  return Operand{notice.group, notice.tag, notice.type, notice.count};
}

// Whether the operation needs a rank that is nowhere in the tree. Ranks do not announce such
// operations.
bool needs_absent(const Job& job, std::uint16_t vertex, const Shape& shape) {
  const TreePosition& position = job.positions[vertex];
  if (!job.spec.vertices[vertex].is_root() || position.ranks == job.spec.ranks) return false;
  for (std::uint16_t rank = 0; rank < job.spec.ranks; ++rank) {
    if (position.child_of[rank] == wire::kNoRank && needs(shape, rank)) return true;
  }
  return false;
}

// Checks a notice by itself, and finds the vertex to which it comes. compare() checks the rest
// against the notices of the other children.
Status check(const Job& job, std::uint16_t child, const wire::Notice& notice,
             std::uint16_t& vertex) {
  if (notice.epoch != job.spec.epoch) return Status::kStaleEpoch;
  if (notice.group != 0) return Status::kUnsupported;
  if (notice.root >= job.spec.ranks) return Status::kInvalidArgument;
  const Operand operand = operand_of(notice);
  if (notice.part >= part_count(job.spec.plan, operand)) return Status::kInvalidArgument;
  const std::uint32_t tree = tree_of(job.spec.plan, operand, notice.part);
  vertex = job.vertex_in(tree);
  if (vertex == kNoVertex) return Status::kInvalidArgument;
  const bool partial = (notice.flags & wire::kPartial) != 0;
  if (partial != job.is_child_node(child)) return Status::kInvalidArgument;
  if (partial && notice.cookie != tree) return Status::kInvalidArgument;
  if (!job.is_child(vertex, child)) return Status::kInvalidArgument;
  const bool lacks = needs_absent(job, vertex, shape_of(notice, job.spec.ranks));
  return lacks ? Status::kInvalidArgument : Status::kOk;
}

void park(Job& job, PoolIndex index, std::uint16_t child, const wire::Notice& notice, Nanos now) {
  OperationRecord& operation = job.table[index];
  MemberState& state = job.members[child];
  ++state.outstanding;
  const bool wants_stats = (notice.flags & wire::kWantStats) != 0;
  operation.wants_stats |= wants_stats;
  operation.times.notice(child, operation.first_notice, now);
  job.table.park(operation,
                 Announcement{notice.in_offset, notice.out_offset, state.member, notice.cookie,
                              notice.in_region, notice.out_region, notice.side_region, child,
                              wants_stats, (notice.flags & wire::kHasChecksums) != 0, kNone});
}

}  // namespace

Extents extents_of(const Job& job, std::uint16_t child, SessionId member,
                   const wire::Notice& notice) {
  Extents extents;
  if (job.is_child_node(child)) {
    extents.in = Endpoint{member, notice.in_region, 0, job.spec.buffers.total_bytes()};
    return extents;
  }
  const Shape shape = shape_of(notice, job.spec.ranks);
  const std::uint64_t size = element_bytes(notice.type);
  extents.in =
      Endpoint{member, notice.in_region, notice.in_offset, contribution(shape, child).count * size};
  extents.out =
      Endpoint{member, notice.out_region, notice.out_offset, result(shape, child).count * size};
  extents.side = Endpoint{member, notice.side_region, 0,
                          checksums_offset(notice.count, (notice.flags & wire::kWantStats) != 0)};
  if ((notice.flags & wire::kHasChecksums) != 0) {
    extents.side.bytes += checksum_bytes(shape, child);
  }
  return extents;
}

void Matching::announce(Job& job, std::uint16_t child, const wire::Notice& notice,
                        Status admissible, Nanos now) {
  MemberState& state = job.members[child];
  ++state.counters.notices;
  TALLY_PROBE(announce, job.id, child, notice.tag, notice.round, notice.part, notice.count);
  if (notice.kind == wire::Kind::kCancel) return cancel(job, child, notice, now);
  const auto refuse = [&](Status status) {
    reply(job, child, notice, Verdict{.status = status, .culprit = job.blamed(child)}, 0);
  };
  std::uint16_t vertex = kNoVertex;
  if (const Status status = check(job, child, notice, vertex); status != Status::kOk) {
    return refuse(status);
  }
  if (state.outstanding >= state.credit) return refuse(Status::kNoCredit);
  const OperationKey key{job.spec.vertices[vertex].tree, notice.group, notice.tag, notice.round};
  PoolIndex index = job.table.find(key);
  if (index == kNone) {
    if (job.table.closed(key)) return refuse(Status::kDuplicate);
    if (job.is_broken() && !job.leads_up(vertex)) {
      account_refused(job, key, notice.part, now);
      return reply(job, child, notice, job.broken, 0);
    }
    // The operation has failed. The job keeps the verdict in its other tree alone.
    if (const PoolIndex other = job.in_other_tree(key, vertex); other != kNone) {
      return reply(job, child, notice, job.table[other].verdict, 0);
    }
    index = open(job, key, vertex, notice, child, now);
  }
  if (!job.table.mark(index, child)) return refuse(Status::kDuplicate);
  state.has_last = true;
  state.last_tag = notice.tag;
  state.last_round = notice.round;
  state.last_notice = now;
  OperationRecord& operation = job.table[index];
  if (operation.state != OperationRecord::State::kGathering) {
    return came_late(job, index, child, notice, now);
  }
  // Each rank's time runs from its own notice. The earliest deadline counts for all ranks.
  job.set_deadline(index, std::min(operation.deadline, deadline_of(notice, now)));
  park(job, index, child, notice, now);
  if (job.is_broken()) return verdicts_.fail(job, index, job.broken, now);
  const Verdict disagreement =
      compare(operation.shape, operation.first_rank, shape_of(notice, job.spec.ranks),
              job.stand_in(vertex, child));
  if (disagreement.status != Status::kOk) return verdicts_.fail(job, index, disagreement, now);
  if (admissible != Status::kOk) {
    const Verdict refused{.status = admissible, .culprit = job.blamed(child)};
    return verdicts_.fail(job, index, refused, now);
  }
  if (job.is_child_node(child)) job.buffers_of(child).region = notice.in_region;
  if (job.all_announced(index)) become_ready(job, index, now);
}

// The operation has failed, here or elsewhere.
void Matching::came_late(Job& job, PoolIndex index, std::uint16_t child, const wire::Notice& notice,
                         Nanos now) {
  const OperationRecord& operation = job.table[index];
  if (operation.state != OperationRecord::State::kFailed) {
    return park(job, index, child, notice, now);  // the verdict is on its way
  }
  reply(job, child, notice, operation.verdict, now - operation.first_notice);
  job.failed.forget_if_announced(index);
}

// Answers a notice that is not parked and changes nothing. A child node gets no answer for a
// duplicate, because its notice crossed the verdict.
void Matching::reply(Job& job, std::uint16_t child, const wire::Notice& notice,
                     const Verdict& verdict, Nanos elapsed) {
  MemberState& state = job.members[child];
  ++state.counters.failures;
  Outgoing outgoing{state.member, completion_of(verdict, elapsed)};
  outgoing.completion.part = notice.part;
  outgoing.completion.group = notice.group;
  outgoing.completion.epoch = notice.epoch;
  outgoing.completion.tag = notice.tag;
  outgoing.completion.round = notice.round;
  outgoing.completion.cookie = notice.cookie;
  if (!job.is_child_node(child)) {
    outbox_.complete(outgoing);
  } else if (verdict.status != Status::kDuplicate) {
    outbox_.send_down(state.member, wire::encode(outgoing.completion));
  }
}

// Does nothing when the operation has ended, because its completion is on the way.
void Matching::cancel(Job& job, std::uint16_t child, const wire::Notice& notice, Nanos now) {
  const Operand operand = operand_of(notice);
  if (job.is_child_node(child) || notice.part >= part_count(job.spec.plan, operand)) return;
  const std::uint32_t tree = tree_of(job.spec.plan, operand, notice.part);
  const PoolIndex index =
      job.table.find(OperationKey{tree, notice.group, notice.tag, notice.round});
  if (index == kNone || !job.table.marked(index, child) || !job.table[index].is_open()) return;
  // A rank that cancels this part because another part has failed names the culprit of that one.
  const std::uint16_t culprit = notice.root < job.spec.ranks ? notice.root : child;
  verdicts_.fail(job, index, Verdict{.status = Status::kCancelled, .culprit = culprit}, now);
}

Nanos Matching::deadline_of(const wire::Notice& notice, Nanos now) const {
  return now +
         (notice.deadline_ms != 0 ? notice.deadline_ms * kMillisecond : config_.default_deadline);
}

// A root whose results go down another tree has a record in each of the two trees.
PoolIndex Matching::open(Job& job, const OperationKey& key, std::uint16_t vertex,
                         const wire::Notice& notice, std::uint16_t child, Nanos now) {
  const PoolIndex index = open_one(job, key, vertex, notice, child, now);
  const std::uint16_t other_vertex = job.positions[vertex].other;
  if (other_vertex == kNoVertex) return index;
  wire::Notice there = notice;
  there.part =
      static_cast<std::uint16_t>(other_part(job.spec.plan, operand_of(notice), notice.part));
  const PoolIndex other =
      open_one(job, job.other_key(key, vertex), other_vertex, there, child, now);
  job.table[index].other = other;
  job.table[other].other = index;
  // The child may be no child in the other tree.
  job.table[other].first_rank = job.table[index].first_rank;
  OperationRecord& results = job.table[job.results_of(index)];
  results.cursor = results.end;  // its sums have the tiles
  return index;
}

PoolIndex Matching::open_one(Job& job, const OperationKey& key, std::uint16_t vertex,
                             const wire::Notice& notice, std::uint16_t child, Nanos now) {
  const auto children = static_cast<std::uint16_t>(job.spec.vertices[vertex].children());
  const PoolIndex index = job.table.create(key, children);
  OperationRecord& operation = job.table[index];
  const Part part = cut(job.spec.plan, operand_of(notice), notice.part);
  operation.shape = shape_of(notice, job.spec.ranks);
  operation.first = operation.cursor = part.first;
  operation.end = part.first + part.count;
  operation.part = notice.part;
  operation.vertex = vertex;
  operation.priority = notice.priority;
  operation.first_rank = job.stand_in(vertex, child);
  operation.first_notice = now;
  operation.deadline = deadline_of(notice, now);
  job.deadlines.insert(index, operation.deadline);
  return index;
}

void Matching::become_active(Job& job, PoolIndex index) {
  OperationRecord& operation = job.table[index];
  job.table.order_by_rank(operation);
  operation.state = OperationRecord::State::kActive;
  operation.was_ready = true;
  TALLY_PROBE(ready, job.id, operation.key.tag, operation.key.round, operation.part,
              operation.times.last_rank,
              operation.times.last_notice - operation.times.previous_notice);
}

void Matching::become_ready(Job& job, PoolIndex index, Nanos now) {
  become_active(job, index);
  const PoolIndex other = job.table[index].other;
  if (other != kNone) become_active(job, other);
  start(job, job.sums_of(index), now);
}

void Matching::start(Job& job, PoolIndex index, Nanos now) {
  OperationRecord& operation = job.table[index];
  operation.age = age_++;
  if (!job.vertex(operation).is_root()) return parents_.announce(job, index, now);
  if (operation.cursor == operation.end) return verdicts_.conclude(job, index, now);
  const std::uint64_t bytes = traffic(operation.shape, operation.end - operation.cursor);
  sizing_.ready(job.id, bytes);
  backlog_.add(bytes);
  operation.stream = backlog_.streams();
  scheduler_.add(job.id, job.position(operation).cls, index, operation.priority, operation.age);
}

}  // namespace tally::protocol
