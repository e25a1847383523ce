// How operations end: completions for all, verdicts for what fails, and what is kept for late
// ranks.
#include <algorithm>

#include "base/probes.h"
#include "dataplane/protocol/aggregator.h"
#include "dataplane/protocol/job.h"

namespace tally::protocol {
namespace {

using State = OperationRecord::State;

// After a failure has been reported and nothing has come back, the vertex above is what fails. More
// than it takes a transport to find a peer that stalls.
constexpr Nanos kGrace = 5 * kSecond;

}  // namespace

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

Verdict verdict_of(const wire::Completion& completion) {
  Verdict verdict;
  verdict.status = completion.status;
  verdict.field = completion.field;
  verdict.culprit = completion.culprit;
  verdict.witness = completion.witness;
  verdict.missing = completion.missing;
  verdict.has_last = (completion.flags & wire::kHasLast) != 0;
  verdict.last_tag = completion.last_tag;
  verdict.last_round = completion.last_round;
  verdict.culprit_value = completion.culprit_value;
  verdict.witness_value = completion.witness_value;
  return verdict;
}

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

bool sensible(const Verdict& verdict, std::uint16_t ranks) {
  const auto known = [&](std::uint16_t rank) { return rank < ranks || rank == wire::kNoRank; };
  // These are said of a message, not of an operation.
  const bool of_a_message = verdict.status == Status::kDuplicate ||
                            verdict.status == Status::kStaleEpoch ||
                            verdict.status == Status::kAgain;
  return !of_a_message && known(verdict.culprit) && known(verdict.witness);
}

bool Aggregator::is_child(const Job& job, std::uint16_t vertex, std::uint16_t child) {
  if (!job.is_branch(child)) return job.places[vertex].child_of[child] == child;
  const std::vector<Branch>& branches = job.spec.vertices[vertex].branches;
  return std::any_of(branches.begin(), branches.end(),
                     [&](const Branch& branch) { return job.child_of(branch) == child; });
}

// A rank that a child stands for in verdicts: a branch is nobody's fault.
std::uint16_t Aggregator::blamed(const Job& job, std::uint16_t child) {
  return job.is_branch(child) ? wire::kNoRank : child;
}

// A node that is lost is no rank's fault: its number stands where values that ranks disagree about
// do.
Verdict Aggregator::loss_of(const Job& job, std::uint16_t child, Status why) {
  Verdict verdict{.status = why, .culprit = blamed(job, child)};
  if (!job.is_branch(child)) return verdict;
  const std::size_t number = child - job.spec.ranks;
  if (number < job.spec.branch_nodes.size()) verdict.culprit_value = job.spec.branch_nodes[number];
  return verdict;
}

// In disagreements a branch is the first rank below it: all below have announced the same.
std::uint16_t Aggregator::stand_in(const Job& job, const OperationRecord& operation,
                                   std::uint16_t child) {
  if (!job.is_branch(child)) return child;
  for (const Branch& branch : job.vertex(operation).branches) {
    if (job.child_of(branch) == child) return branch.ranks.front();
  }
  return wire::kNoRank;
}

// Another decides how its operations end.
bool Aggregator::leads_up(const Job& job, std::uint16_t vertex) {
  const std::uint32_t parent = job.spec.vertices[vertex].parent;
  return parent != kNoParent && !job.parents[parent].gone;
}

bool Aggregator::is_open(const OperationRecord& operation) {
  return operation.state == State::kGathering || operation.state == State::kActive;
}

// All have been told how it ended. Of a job that is broken nothing is kept: it is said again.
bool Aggregator::is_over(const Job& job, const OperationKey& key) {
  return job.broken.status == Status::kOk && job.table.closed(key);
}

// For a notice that is not parked: it is answered at once and changes nothing. What a branch
// announces twice, or of what is over, crossed its verdict.
void Aggregator::reply(Member member, const wire::Notice& notice, const Verdict& verdict,
                       Nanos elapsed) {
  Job& job = *job_of(member);
  const std::uint16_t child = members_[member].rank;
  ++job.members[child].counters.failures;
  Outgoing outgoing{member, protocol::completion_of(verdict, elapsed)};
  outgoing.completion.part = notice.part;
  outgoing.completion.group = notice.group;
  outgoing.completion.epoch = notice.epoch;
  outgoing.completion.tag = notice.tag;
  outgoing.completion.round = notice.round;
  outgoing.completion.cookie = notice.cookie;
  if (!job.is_branch(child)) {
    outbox_.push_back(outgoing);
  } else if (verdict.status != Status::kDuplicate) {
    send_down(job, child, wire::encode(outgoing.completion));
  }
}

// Nothing to do when the operation has ended: its completion is on the way.
void Aggregator::cancel(Job& job, std::uint16_t child, const wire::Notice& notice, Nanos now) {
  const Operand operand{notice.group, notice.tag, notice.type, notice.count};
  if (job.is_branch(child) || notice.part >= part_count(job.spec.plan, operand)) return;
  const std::uint32_t tree = tree_of(job.spec.plan, operand, notice.part);
  const Slot slot = job.table.find(OperationKey{tree, notice.group, notice.tag, notice.round});
  if (slot == kNone || !job.table.marked(slot, child) || !is_open(job.table[slot])) return;
  // Who takes this part back because another has failed says by whose fault.
  const std::uint16_t culprit = notice.root < job.spec.ranks ? notice.root : child;
  fail(job, slot, Verdict{.status = Status::kCancelled, .culprit = culprit}, now);
}

// Here; at a vertex below others their verdict is waited for, and until then no tile is begun.
// Precondition: it is open.
void Aggregator::fail(Job& job, Slot slot, const Verdict& verdict, Nanos now) {
  OperationRecord& operation = job.table[slot];
  if (!leads_up(job, operation.vertex)) return give_up(job, slot, verdict, now);
  operation.verdict = verdict;
  report_up(job, operation.vertex, operation.key, operation.part, verdict);
  stop(job, slot);
  operation.state = State::kReported;
  set_deadline(job, slot, now + kGrace);
}

// Nothing more of it begins. Of what ends well nothing is left to begin.
void Aggregator::stop(Job& job, Slot slot) {
  OperationRecord& operation = job.table[slot];
  if (operation.state != State::kActive) return;
  const bool root = job.vertex(operation).is_root();
  const bool scheduled = root ? operation.cursor < operation.end : operation.first_wanted != kNone;
  if (scheduled) {
    scheduler_.remove(job.slot, job.place(operation).cls, slot);
    if (root) backlog_ -= traffic(operation.shape, operation.end - operation.cursor);
    if (!root) refuse_wanted(job, slot);
  }
  stop_waiting(job, slot);
}

// Nobody above decides: the vertex is the root, or cut off from it. What it had sums of may have
// become results elsewhere, and have come to some of its ranks.
void Aggregator::give_up(Job& job, Slot slot, const Verdict& verdict, Nanos now) {
  OperationRecord& operation = job.table[slot];
  if (!job.vertex(operation).is_root()) operation.started = operation.cursor > operation.first;
  finish(job, slot, verdict, now);
}

// With this verdict, once the buffers are in use no more.
void Aggregator::finish(Job& job, Slot slot, const Verdict& verdict, Nanos now) {
  OperationRecord& operation = job.table[slot];
  job.deadlines.remove(slot);
  stop(job, slot);
  operation.verdict = verdict;
  operation.state = State::kDraining;
  conclude_if_over(job, slot, now);
}

void Aggregator::conclude_if_over(Job& job, Slot slot, Nanos now) {
  const OperationRecord& operation = job.table[slot];
  if (operation.tiles_in_flight > 0) return;
  const bool done = operation.state == State::kActive && operation.cursor == operation.end &&
                    operation.placing == 0 && job.vertex(operation).is_root();
  if (done || operation.state == State::kDraining) conclude(job, slot, now);
}

wire::Completion Aggregator::completion_of(const Job& job, const OperationRecord& operation,
                                           Nanos elapsed) {
  wire::Completion completion = protocol::completion_of(operation.verdict, elapsed);
  if (operation.started && completion.status != Status::kOk) completion.flags |= wire::kStarted;
  completion.part = operation.part;
  completion.group = operation.key.group;
  completion.epoch = job.spec.epoch;
  completion.tag = operation.key.tag;
  completion.round = operation.key.round;
  return completion;
}

void Aggregator::conclude(Job& job, Slot slot, Nanos now) {
  OperationRecord& operation = job.table[slot];
  job.deadlines.remove(slot);
  account(job, operation, now);
  TALLY_PROBE(complete, job.slot, operation.key.tag, operation.key.round, operation.part,
              static_cast<int>(operation.verdict.status), now - operation.first_notice);
  Outgoing outgoing{kNoMember, completion_of(job, operation, now - operation.first_notice)};
  wire::Completion& completion = outgoing.completion;
  for (Slot s = operation.announcements; s != kNone; s = job.table.announcement(s).next) {
    const Announcement& announcement = job.table.announcement(s);
    if (announcement.member == kNoMember) continue;
    --job.members[announcement.rank].outstanding;
    if (job.is_branch(announcement.rank)) continue;
    outgoing.member = announcement.member;
    completion.cookie = announcement.cookie;
    outbox_.push_back(outgoing);
  }
  if (!job.vertex(operation).branches.empty()) {
    completion.cookie = operation.key.tree;
    tell_branches(job, slot, completion);
    if (operation.placing > 0) disown(job, slot);
  }
  const bool late_ranks = operation.announced < operation.children;
  if (completion.status != Status::kOk && late_ranks && job.broken.status == Status::kOk) {
    keep_failed(job, slot);
  } else {
    job.table.erase(slot);
  }
}

// An operation of which nothing is known but that it has failed: to be finished at once.
Slot Aggregator::open_failed(Job& job, const OperationKey& key, std::uint16_t vertex,
                             std::uint16_t part, Nanos now) {
  const Slot slot =
      job.table.create(key, static_cast<std::uint16_t>(job.spec.vertices[vertex].children()));
  OperationRecord& operation = job.table[slot];
  operation.vertex = vertex;
  operation.part = part;
  operation.first_notice = now;
  operation.deadline = kForever;
  return slot;
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

void Aggregator::gone(JobSlot slot, std::uint16_t child, Status why, Nanos now) {
  Job& job = *jobs_[slot];
  if (job.members[child].gone) return;
  const Member member = job.members[child].member;
  if (member != kNoMember) members_[member].joined = false;
  // Nor is what waits to be sent sent to it: the transport knows the peer no more.
  std::erase_if(outbox_, [&](const Outgoing& outgoing) { return outgoing.member == member; });
  std::erase_if(letters_down_, [&](const Letter& letter) { return letter.to == member; });
  MemberState& state = job.members[child];
  state = MemberState{.credit = state.credit, .gone = true, .counters = state.counters};
  const Verdict verdict = loss_of(job, child, why);
  break_job(job, verdict, member, kNoLink);
  for (Slot s = 0; s < job.table.used(); ++s) {
    if (job.table[s].state != State::kFree) abandon(job, s, child, member, verdict, now);
  }
  if (job.is_branch(child)) drop_slots(job, child, why, now);
}

// An operation of a member that is gone: it fails, and the member is not told.
void Aggregator::abandon(Job& job, Slot slot, std::uint16_t child, Member member,
                         const Verdict& verdict, Nanos now) {
  OperationRecord& operation = job.table[slot];
  for (Slot s = operation.announcements; s != kNone; s = job.table.announcement(s).next) {
    Announcement& announcement = job.table.announcement(s);
    if (announcement.member == member) announcement.member = kNoMember;
  }
  if (operation.state == State::kFailed) {
    // The others that are late are still told that verdict; one fewer is waited for.
    if (is_child(job, operation.vertex, child)) job.table.mark(slot, child);
    if (operation.announced == operation.children) forget(job, slot);
  } else if (is_open(operation)) {
    fail(job, slot, verdict, now);
  } else if (operation.verdict.status == Status::kDeadline &&
             operation.verdict.culprit == wire::kNoRank) {
    operation.verdict.culprit = verdict.culprit;  // it is its memory that was waited for
  }
}

RingSlot Aggregator::broken_message(const Job& job) {
  wire::VertexMessage message;
  message.kind = wire::VertexKind::kBroken;
  message.epoch = job.spec.epoch;
  message.status = job.broken.status;
  message.culprit = job.broken.culprit;
  message.slot = static_cast<std::uint32_t>(job.broken.culprit_value);
  return wire::encode(message);
}

// The epoch is over: with the first loss every later operation fails, at every vertex of the job.
void Aggregator::break_job(Job& job, const Verdict& verdict, Member from_below, Link from_above) {
  if (job.broken.status != Status::kOk) return;
  job.broken = verdict;
  const RingSlot message = broken_message(job);
  for (std::uint16_t i = 0; i < job.spec.branches; ++i) {
    const auto child = static_cast<std::uint16_t>(job.spec.ranks + i);
    if (job.members[child].member != from_below) send_down(job, child, message);
  }
  for (std::uint32_t i = 0; i < job.spec.parents; ++i) {
    if (job.parents[i].link != from_above) send_up(job, i, message);
  }
}

// Another vertex says so: of its member's operations none can end well any more.
Status Aggregator::broken(Job& job, const wire::VertexMessage& message, Member from_below,
                          Link from_above, Nanos now) {
  const Verdict verdict{
      .status = message.status, .culprit = message.culprit, .culprit_value = message.slot};
  const bool loss = verdict.status == Status::kPeerLost || verdict.status == Status::kPeerLeft;
  if (!loss || !sensible(verdict, job.spec.ranks)) return Status::kProtocol;
  if (job.broken.status != Status::kOk) return Status::kOk;
  break_job(job, verdict, from_below, from_above);
  for (Slot s = 0; s < job.table.used(); ++s) {
    if (is_open(job.table[s])) fail(job, s, verdict, now);
  }
  return Status::kOk;
}

}  // namespace tally::protocol
