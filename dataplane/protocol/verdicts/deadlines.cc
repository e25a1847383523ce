#include "dataplane/protocol/verdicts/deadlines.h"

#include <algorithm>

namespace tally::protocol {
namespace {

using State = OperationRecord::State;

// The time that child nodes have to name the missing ranks below them.
constexpr Nanos kToAnswer = 1 * kSecond;

// `missing`: the number of children that have not announced the operation.
Verdict missing_rank(const Job& job, std::uint16_t rank, std::uint32_t missing) {
  const MemberState& state = job.members[rank];
  return Verdict{.status = Status::kDeadline,
                 .culprit = rank,
                 .missing = static_cast<std::uint16_t>(missing),
                 .has_last = state.has_last,
                 .last_tag = state.last_tag,
                 .last_round = state.last_round};
}

// Names the first rank that has not announced here. Names none when only child nodes are missing.
Verdict missing_child(const Job& job, PoolIndex index) {
  const OperationRecord& operation = job.table[index];
  const auto missing = static_cast<std::uint16_t>(operation.children - operation.announced);
  for (const std::uint16_t rank : job.vertex(operation).ranks) {
    if (!job.table.marked(index, rank)) return missing_rank(job, rank, missing);
  }
  return Verdict{.status = Status::kDeadline, .missing = missing};
}

}  // namespace

void Deadlines::expire(Nanos now) {
  for (const auto& job : jobs_.all()) {
    while (job != nullptr && job->deadlines.earliest() <= now) {
      overdue(*job, job->deadlines.earliest_operation(), now);
    }
  }
}

Nanos Deadlines::next() const {
  Nanos next = kForever;
  for (const auto& job : jobs_.all()) {
    if (job != nullptr) next = std::min(next, job->deadlines.earliest());
  }
  return next;
}

void Deadlines::overdue(Job& job, PoolIndex index, Nanos now) {
  OperationRecord& operation = job.table[index];
  if (operation.state == State::kDraining) {
    outbox_.add_stuck({job.id, index});
    return job.deadlines.remove(index);
  }
  if (operation.state == State::kReported) {
    return verdicts_.give_up(job, index, operation.verdict, now);
  }
  // All children in this tree have announced, so one in the other tree is missing.
  if (operation.state == State::kGathering && operation.announced == operation.children) {
    job.deadlines.remove(index);
    if (!job.table[operation.other].asked) overdue(job, operation.other, now);
    return;
  }
  const Verdict verdict = missing_child(job, index);
  if (operation.state != State::kGathering || verdict.culprit != wire::kNoRank || operation.asked) {
    return verdicts_.fail(job, index, verdict, now);
  }
  operation.asked = true;
  children_.ask_missing(job, index);
  job.set_deadline(index, now + kToAnswer);
}

// Sends nothing when the parent has a report from here already, or gets one when the child nodes
// have answered.
void Deadlines::asked(Job& job, const wire::VertexMessage& message, Nanos now) {
  const OperationKey key{message.tree, message.group, message.tag, message.round};
  const PoolIndex index = job.table.find(key);
  if (index != kNone) {
    const OperationRecord& operation = job.table[index];
    if (operation.state == State::kGathering && !operation.asked) overdue(job, index, now);
    return;
  }
  if (job.is_over(key)) return;
  // No child has announced it.
  const std::uint16_t vertex = job.vertex_in(message.tree);
  const Vertex& here = job.spec.vertices[vertex];
  if (!here.ranks.empty()) {
    const Verdict verdict = missing_rank(job, here.ranks.front(), here.children());
    return parents_.report(job, vertex, key, message.part, verdict);
  }
  for (const ChildNode& child_node : here.child_nodes) {  // their reports are passed on
    children_.send(job, job.child_of(child_node), wire::encode(message));
  }
}

}  // namespace tally::protocol
