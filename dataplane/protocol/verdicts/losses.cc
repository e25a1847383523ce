#include "dataplane/protocol/verdicts/losses.h"

#include "dataplane/protocol/operations/verdict.h"

namespace tally::protocol {
namespace {

using State = OperationRecord::State;

}  // namespace

void Losses::gone(Job& job, std::uint16_t child, Status why, Nanos now) {
  MemberState& state = job.members[child];
  if (state.gone) return;
  const SessionId member = state.member;
  if (member != kNoSession) jobs_.leave(member);
  outbox_.drop_member(member);
  state.member = kNoSession;
  state.outstanding = 0;
  state.gone = true;
  const Verdict verdict = job.loss_of(child, why);
  break_job(job, verdict, member, kNoParentId);
  for (PoolIndex i = 0; i < job.table.used(); ++i) {
    if (job.table[i].state != State::kFree) forget_session(job, i, member);
  }
  for (PoolIndex i = 0; i < job.table.used(); ++i) {
    if (job.table[i].state != State::kFree) abandon(job, i, child, verdict, now);
  }
  if (job.is_child_node(child)) children_.drop(job, child, why);
}

// The session gets no completion.
void Losses::forget_session(Job& job, PoolIndex index, SessionId member) {
  for (PoolIndex i = job.table[index].announcements; i != kNone;
       i = job.table.announcement(i).next) {
    Announcement& announcement = job.table.announcement(i);
    if (announcement.member == member) announcement.member = kNoSession;
  }
}

// Fails an operation of a session that is gone.
void Losses::abandon(Job& job, PoolIndex index, std::uint16_t child, const Verdict& verdict,
                     Nanos now) {
  OperationRecord& operation = job.table[index];
  if (operation.state == State::kFailed) {
    // The other late children still get that verdict. The operation waits for one child less.
    if (job.is_child(operation.vertex, child)) job.table.mark(index, child);
    job.failed.forget_if_announced(index);
  } else if (operation.is_open()) {
    verdicts_.fail(job, index, verdict, now);
  } else {
    name_culprit(operation, verdict.culprit);
  }
}

void Losses::parent_gone(ParentId parent_id, Status why, Nanos now) {
  const auto [job, parent] = jobs_.parent(parent_id);
  if (job == nullptr) return;
  jobs_.leave_parent(parent_id);
  outbox_.drop_parent(parent_id);
  job->parents[parent].parent_id = kNoParentId;
  job->parents[parent].gone = true;
  Verdict verdict{.status = why};
  if (parent < job->spec.parent_node_numbers.size())
    verdict.culprit_value = job->spec.parent_node_numbers[parent];
  break_job(*job, verdict, kNoSession, parent_id);
  for (PoolIndex i = 0; i < job->table.used(); ++i) {
    const OperationRecord& operation = job->table[i];
    const bool orphan =
        operation.state == State::kReported && job->vertex(operation).parent == parent;
    if (orphan) {  // no parent is left to judge it
      verdicts_.give_up(*job, i, operation.verdict, now);
    } else if (operation.is_open()) {
      verdicts_.fail(*job, i, verdict, now);
    }
  }
}

Status Losses::broken(Job& job, const wire::VertexMessage& message, SessionId from_below,
                      ParentId from_above, Nanos now) {
  const Verdict verdict{
      .status = message.status, .culprit = message.culprit, .culprit_value = message.buffer};
  const bool loss = verdict.status == Status::kPeerLost || verdict.status == Status::kPeerLeft;
  if (!loss || !sensible(verdict, job.spec.ranks)) return Status::kProtocol;
  if (job.is_broken()) return Status::kOk;
  break_job(job, verdict, from_below, from_above);
  verdicts_.fail_all(job, verdict, now);
  return Status::kOk;
}

void Losses::joined(const Job& job, std::uint16_t child) {
  if (job.is_broken()) children_.send(job, child, broken_message(job.spec.epoch, job.broken));
}

void Losses::break_job(Job& job, const Verdict& verdict, SessionId from_below,
                       ParentId from_above) {
  if (job.is_broken()) return;
  job.broken = verdict;
  children_.send_broken(job, from_below);
  parents_.send_broken(job, from_above);
}

}  // namespace tally::protocol
