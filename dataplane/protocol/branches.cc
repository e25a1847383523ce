// What branches say: children that are vertices themselves. branch_slots.cc has the tiles.
#include "dataplane/protocol/aggregator.h"
#include "dataplane/protocol/job.h"

namespace tally::protocol {

void Aggregator::send_down(const Job& job, std::uint16_t child, const RingSlot& message) {
  if (const Member member = job.members[child].member; member != kNoMember) {
    letters_down_.push_back(Letter{member, message});
  }
}

// All of the vertex, also those that have not announced the operation: their ranks wait too. They
// count as having announced from now on; what they still say of it is too late. One that is not
// there yet is told when it joins.
void Aggregator::tell_branches(Job& job, Slot slot, const wire::Completion& completion) {
  for (const Branch& branch : job.vertex(job.table[slot]).branches) {
    const std::uint16_t child = job.child_of(branch);
    const MemberState& state = job.members[child];
    if (state.member == kNoMember && !state.gone) continue;
    job.table.mark(slot, child);
    send_down(job, child, wire::encode(completion));
  }
}

// What has become of the job, and of operations that have failed, before the branch was there.
void Aggregator::tell_joined(Job& job, std::uint16_t child) {
  if (job.broken.status != Status::kOk) send_down(job, child, broken_message(job));
  for (Slot s = job.oldest_failed; s != kNone;) {
    const OperationRecord& operation = job.table[s];
    const Slot next = operation.newer_failed;
    if (is_child(job, operation.vertex, child) && job.table.mark(s, child)) {
      wire::Completion completion = completion_of(job, operation, 0);
      completion.cookie = operation.key.tree;
      send_down(job, child, wire::encode(completion));
      if (operation.announced == operation.children) forget(job, s);
    }
    s = next;
  }
}

Status Aggregator::heard(Member member, const RingSlot& slot, Nanos now) {
  Job* job = job_of(member);
  if (job == nullptr || !job->is_branch(members_[member].rank)) return Status::kProtocol;
  const std::uint16_t child = members_[member].rank;
  wire::Completion report;
  if (wire::parse(slot, report) == Status::kOk) return reported(*job, child, report, now);
  wire::VertexMessage message;
  if (const Status status = wire::parse(slot, message); status != Status::kOk) return status;
  if (message.epoch != job->spec.epoch) return Status::kProtocol;
  switch (message.kind) {
    case wire::VertexKind::kTileReady:
      return tile_ready(*job, child, message);
    case wire::VertexKind::kTilePlaced:
      return tile_placed(*job, child, message, now);
    case wire::VertexKind::kBroken:
      return broken(*job, message, member, kNoLink, now);
    case wire::VertexKind::kTileWanted:
    case wire::VertexKind::kTileResult:
    case wire::VertexKind::kMissing:
      break;  // what only a parent says
  }
  return Status::kProtocol;
}

// An operation has failed below. It may be over already, or unknown: then nothing but its verdict
// is kept here, for those who announce it later, and nothing at all where another decides it.
Status Aggregator::reported(Job& job, std::uint16_t child, const wire::Completion& report,
                            Nanos now) {
  const OperationKey key{report.cookie, report.group, report.tag, report.round};
  const std::uint16_t vertex = job.vertex_in(key.tree);
  if (report.epoch != job.spec.epoch || report.status == Status::kOk || vertex == kNoVertex) {
    return Status::kProtocol;
  }
  const Verdict verdict = verdict_of(report);
  if (!is_child(job, vertex, child) || !sensible(verdict, job.spec.ranks)) {
    return Status::kProtocol;
  }
  Slot slot = job.table.find(key);
  if (slot == kNone) {
    if (is_over(job, key)) return Status::kOk;
    if (leads_up(job, vertex)) {
      pass_on(job, vertex, key, report.part, verdict);
      return Status::kOk;
    }
    slot = open_failed(job, key, vertex, report.part, now);
  }
  const OperationRecord::State state = job.table[slot].state;
  if (state == OperationRecord::State::kGathering || state == OperationRecord::State::kActive) {
    fail(job, slot, verdict, now);
  }
  return Status::kOk;
}

}  // namespace tally::protocol
