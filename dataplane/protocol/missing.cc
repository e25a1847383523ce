// Deadlines, and who is missing.
#include <algorithm>

#include "dataplane/protocol/aggregator.h"
#include "dataplane/protocol/job.h"

namespace tally::protocol {
namespace {

using State = OperationRecord::State;

// For branches, to say who is missing below.
constexpr Nanos kToAnswer = 1 * kSecond;

}  // namespace

// The first rank that has not announced here, how many children there are that have not, and where
// the first one is. None: those are branches.
Verdict Aggregator::missing_child(const Job& job, Slot slot) {
  const OperationRecord& operation = job.table[slot];
  Verdict verdict{.status = Status::kDeadline};
  verdict.missing = static_cast<std::uint16_t>(operation.children - operation.announced);
  for (const std::uint16_t rank : job.vertex(operation).ranks) {
    if (job.table.marked(slot, rank)) continue;
    const MemberState& state = job.members[rank];
    verdict.culprit = rank;
    verdict.has_last = state.has_last;
    verdict.last_tag = state.last_tag;
    verdict.last_round = state.last_round;
    break;
  }
  return verdict;
}

// Where only branches are missing, they know who it is, and are given time to say so.
void Aggregator::overdue(Job& job, Slot slot, Nanos now) {
  OperationRecord& operation = job.table[slot];
  if (operation.state == State::kReported) return give_up(job, slot, operation.verdict, now);
  const Verdict verdict = missing_child(job, slot);
  if (operation.state != State::kGathering || verdict.culprit != wire::kNoRank || operation.asked) {
    return fail(job, slot, verdict, now);
  }
  operation.asked = true;
  wire::VertexMessage message;
  message.kind = wire::VertexKind::kMissing;
  message.group = operation.key.group;
  message.part = operation.part;
  message.epoch = job.spec.epoch;
  message.tree = operation.key.tree;
  message.tag = operation.key.tag;
  message.round = operation.key.round;
  for (const Branch& branch : job.vertex(operation).branches) {
    const std::uint16_t child = job.child_of(branch);
    if (!job.table.marked(slot, child)) send_down(job, child, wire::encode(message));
  }
  set_deadline(job, slot, now + kToAnswer);
}

// The vertex above wants to know. Nothing to say where it has heard from here already, or will: its
// deadline is that of the vertices below, which ask at the same time.
void Aggregator::missing(Job& job, const wire::VertexMessage& message, Nanos now) {
  const OperationKey key{message.tree, message.group, message.tag, message.round};
  const Slot slot = job.table.find(key);
  if (slot != kNone) {
    const OperationRecord& operation = job.table[slot];
    if (operation.state == State::kGathering && !operation.asked) overdue(job, slot, now);
    return;
  }
  if (is_over(job, key)) return;
  // Nobody below has announced it.
  const std::uint16_t vertex = job.vertex_in(message.tree);
  const Vertex& here = job.spec.vertices[vertex];
  Verdict verdict{.status = Status::kDeadline};
  verdict.missing = static_cast<std::uint16_t>(here.children());
  verdict.culprit = job.places[vertex].first_rank;
  const MemberState& state = job.members[verdict.culprit];
  verdict.has_last = state.has_last;
  verdict.last_tag = state.last_tag;
  verdict.last_round = state.last_round;
  report_up(job, vertex, key, message.part, verdict);
}

void Aggregator::expire(Nanos now) {
  for (const auto& job : jobs_) {
    while (job != nullptr && job->deadlines.earliest() <= now) {
      overdue(*job, job->deadlines.earliest_slot(), now);
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
    // Part 0 stands for the operation: every rank announces it, in one tree.
    if (operation.state != OperationRecord::State::kGathering || operation.part != 0) continue;
    Waiting entry{operation.key.tag, operation.key.round, {}, {}, operation.first_notice};
    for (const std::uint16_t rank : job.vertex(operation).ranks) {
      if (!job.table.marked(s, rank)) entry.missing.push_back(rank);
    }
    for (const Branch& branch : job.vertex(operation).branches) {
      if (job.table.marked(s, job.child_of(branch))) continue;
      entry.missing_below.insert(entry.missing_below.end(), branch.ranks.begin(),
                                 branch.ranks.end());
    }
    waiting.push_back(std::move(entry));
  }
  return waiting;
}

}  // namespace tally::protocol
