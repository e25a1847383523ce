// How operations end: completions for all, verdicts for what fails, and what is kept for late
// ranks.
#include <algorithm>

#include "base/probes.h"
#include "dataplane/protocol/aggregator.h"
#include "dataplane/protocol/job.h"

namespace tally::protocol {
namespace {

wire::Completion completion_of(const Verdict& verdict, Nanos elapsed) {
  wire::Completion completion;
  completion.status = verdict.status;
  completion.field = verdict.field;
  completion.culprit = verdict.culprit;
  completion.witness = verdict.witness;
  completion.missing = verdict.missing;
  completion.last_tag = verdict.last_tag;
  completion.last_round = verdict.last_round;
  completion.culprit_value = verdict.culprit_value;
  completion.witness_value = verdict.witness_value;
  if (verdict.has_last) completion.flags |= wire::kHasLast;
  completion.elapsed_us =
      static_cast<std::uint32_t>(std::clamp<Nanos>(elapsed / kMicrosecond, 0, UINT32_MAX));
  return completion;
}

}  // namespace

Verdict compare(const Shape& first, std::uint16_t first_rank, const Shape& later,
                std::uint16_t later_rank) {
  const auto differ = [&](wire::Field field, auto a, auto b) {
    return Verdict{.status = Status::kMismatch,
                   .field = field,
                   .culprit = later_rank,
                   .witness = first_rank,
                   .culprit_value = static_cast<std::uint64_t>(b),
                   .witness_value = static_cast<std::uint64_t>(a)};
  };
  if (first.kind != later.kind) return differ(wire::Field::kKind, first.kind, later.kind);
  if (first.type != later.type) return differ(wire::Field::kType, first.type, later.type);
  if (first.count != later.count) return differ(wire::Field::kCount, first.count, later.count);
  if (first.operation != later.operation) {
    return differ(wire::Field::kOperation, first.operation, later.operation);
  }
  if (first.root != later.root) return differ(wire::Field::kRoot, first.root, later.root);
  return Verdict{};
}

// For a notice that is not parked: it is answered at once and changes nothing.
void Aggregator::reply(Member member, const wire::Notice& notice, const Verdict& verdict,
                       Nanos elapsed) {
  ++job_of(member)->ranks[members_[member].rank].counters.failures;
  Outgoing outgoing{member, completion_of(verdict, elapsed)};
  outgoing.completion.part = notice.part;
  outgoing.completion.group = notice.group;
  outgoing.completion.epoch = notice.epoch;
  outgoing.completion.tag = notice.tag;
  outgoing.completion.round = notice.round;
  outgoing.completion.cookie = notice.cookie;
  outbox_.push_back(outgoing);
}

// Nothing to do when the operation has ended: its completion is on the way.
void Aggregator::cancel(Job& job, std::uint16_t rank, const wire::Notice& notice, Nanos now) {
  const Operand operand{notice.group, notice.tag, notice.type, notice.count};
  if (notice.part >= part_count(job.spec.plan, operand)) return;
  const std::uint32_t tree = cut(job.spec.plan, operand, notice.part).tree;
  const Slot slot = job.table.find(OperationKey{tree, notice.group, notice.tag, notice.round});
  if (slot == kNone || !job.table.marked(slot, rank)) return;
  const auto state = job.table[slot].state;
  if (state != OperationRecord::State::kGathering && state != OperationRecord::State::kActive) {
    return;
  }
  // Who takes this part back because another has failed says by whose fault.
  const std::uint16_t culprit = notice.root < job.spec.ranks ? notice.root : rank;
  fail(job, slot, Verdict{.status = Status::kCancelled, .culprit = culprit}, now);
}

void Aggregator::fail(Job& job, Slot slot, const Verdict& verdict, Nanos now) {
  OperationRecord& operation = job.table[slot];
  operation.verdict = verdict;
  job.deadlines.remove(slot);
  if (operation.state == OperationRecord::State::kActive) {
    scheduler_.remove(job.slot, slot);
    backlog_ -= traffic(operation.shape, operation.end - operation.cursor);
    operation.state = OperationRecord::State::kDraining;
    if (operation.tiles_in_flight > 0) return;  // the buffers are still in use
  }
  conclude(job, slot, now);
}

void Aggregator::conclude(Job& job, Slot slot, Nanos now) {
  OperationRecord& operation = job.table[slot];
  job.deadlines.remove(slot);
  account(job, operation, now);
  TALLY_PROBE(complete, job.slot, operation.key.tag, operation.key.round, operation.part,
              static_cast<int>(operation.verdict.status), now - operation.first_notice);
  Outgoing outgoing{kNoMember, completion_of(operation.verdict, now - operation.first_notice)};
  wire::Completion& completion = outgoing.completion;
  if (operation.started && completion.status != Status::kOk) completion.flags |= wire::kStarted;
  completion.part = operation.part;
  completion.group = operation.key.group;
  completion.epoch = job.spec.epoch;
  completion.tag = operation.key.tag;
  completion.round = operation.key.round;
  for (Slot s = operation.announcements; s != kNone; s = job.table.announcement(s).next) {
    const Announcement& announcement = job.table.announcement(s);
    if (announcement.member == kNoMember) continue;
    outgoing.member = announcement.member;
    completion.cookie = announcement.cookie;
    outbox_.push_back(outgoing);
    --job.ranks[announcement.rank].outstanding;
  }
  const bool late_ranks = operation.announced < operation.children;
  if (completion.status != Status::kOk && late_ranks && job.broken.status == Status::kOk) {
    keep_failed(job, slot);
  } else {
    job.table.erase(slot);
  }
}

// The verdict is final for all ranks, so it waits for those that announce late; at most `credit` of
// them, the oldest forgotten first.
void Aggregator::keep_failed(Job& job, Slot slot) {
  if (job.failed == job.spec.credit) forget(job, job.oldest_failed);
  OperationRecord& operation = job.table[slot];
  job.table.unpark(operation);
  operation.state = OperationRecord::State::kFailed;
  operation.older_failed = job.newest_failed;
  operation.newer_failed = kNone;
  (job.newest_failed == kNone ? job.oldest_failed : job.table[job.newest_failed].newer_failed) =
      slot;
  job.newest_failed = slot;
  ++job.failed;
}

void Aggregator::forget(Job& job, Slot slot) {
  const OperationRecord& operation = job.table[slot];
  const Slot older = operation.older_failed;
  const Slot newer = operation.newer_failed;
  (older == kNone ? job.oldest_failed : job.table[older].newer_failed) = newer;
  (newer == kNone ? job.newest_failed : job.table[newer].older_failed) = older;
  --job.failed;
  job.table.erase(slot);
}

void Aggregator::gone(Member member, Status why, Nanos now) {
  if (job_of(member) != nullptr) gone(members_[member].job, members_[member].rank, why, now);
}

void Aggregator::gone(JobSlot slot, std::uint16_t rank, Status why, Nanos now) {
  Job& job = *jobs_[slot];
  if (job.ranks[rank].gone) return;
  const Member member = job.ranks[rank].member;
  if (member != kNoMember) members_[member].joined = false;
  // Nor is what waits to be sent sent to it: the transport knows the peer no more.
  std::erase_if(outbox_, [&](const Outgoing& outgoing) { return outgoing.member == member; });
  job.ranks[rank] = RankState{.gone = true, .counters = job.ranks[rank].counters};
  const Verdict verdict{.status = why, .culprit = rank};
  if (job.broken.status == Status::kOk) job.broken = verdict;
  for (Slot s = 0; s < job.table.used(); ++s) {
    if (job.table[s].state != OperationRecord::State::kFree) abandon(job, s, member, verdict, now);
  }
}

// An operation of a rank that is gone: it fails, and the rank is not told.
void Aggregator::abandon(Job& job, Slot slot, Member member, const Verdict& verdict, Nanos now) {
  OperationRecord& operation = job.table[slot];
  for (Slot s = operation.announcements; s != kNone; s = job.table.announcement(s).next) {
    Announcement& announcement = job.table.announcement(s);
    if (announcement.member == member) announcement.member = kNoMember;
  }
  if (operation.state == OperationRecord::State::kFailed) {
    // The others that are late are still told that verdict; one fewer is waited for.
    const auto& children = job.spec.vertices[operation.vertex].ranks;
    if (std::binary_search(children.begin(), children.end(), verdict.culprit)) {
      job.table.mark(slot, verdict.culprit);
    }
    if (operation.announced == operation.children) forget(job, slot);
  } else if (operation.state != OperationRecord::State::kDraining) {
    fail(job, slot, verdict, now);
  } else if (operation.verdict.status == Status::kDeadline &&
             operation.verdict.culprit == wire::kNoRank) {
    operation.verdict.culprit = verdict.culprit;  // it is its memory that was waited for
  }
}

// The first rank that has not announced, how many there are, and where the first one is.
Verdict Aggregator::missing_rank(const Job& job, Slot slot) {
  const OperationRecord& operation = job.table[slot];
  Verdict verdict{.status = Status::kDeadline};
  verdict.missing = static_cast<std::uint16_t>(operation.children - operation.announced);
  for (const std::uint16_t rank : job.spec.vertices[operation.vertex].ranks) {
    if (job.table.marked(slot, rank)) continue;
    verdict.culprit = rank;
    verdict.has_last = job.ranks[rank].has_last;
    verdict.last_tag = job.ranks[rank].last_tag;
    verdict.last_round = job.ranks[rank].last_round;
    break;
  }
  return verdict;
}

void Aggregator::expire(Nanos now) {
  for (const auto& job : jobs_) {
    while (job != nullptr && job->deadlines.earliest() <= now) {
      const Slot slot = job->deadlines.earliest_slot();
      fail(*job, slot, missing_rank(*job, slot), now);
    }
  }
}

Nanos Aggregator::next_deadline() const {
  Nanos next = kForever;
  for (const auto& job : jobs_) {
    if (job != nullptr) next = std::min(next, job->deadlines.earliest());
  }
  return next;
}

std::vector<Waiting> Aggregator::waiting(JobSlot slot) const {
  const Job& job = *jobs_[slot];
  std::vector<Waiting> waiting;
  for (Slot s = 0; s < job.table.used(); ++s) {
    const OperationRecord& operation = job.table[s];
    // Part 0 stands for the operation: its shard sees every rank's notice.
    if (operation.state != OperationRecord::State::kGathering || operation.part != 0) continue;
    Waiting entry{operation.key.tag, operation.key.round, {}, operation.first_notice};
    for (const std::uint16_t rank : job.spec.vertices[operation.vertex].ranks) {
      if (!job.table.marked(s, rank)) entry.missing.push_back(rank);
    }
    waiting.push_back(std::move(entry));
  }
  return waiting;
}

}  // namespace tally::protocol
