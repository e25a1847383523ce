#include "dataplane/protocol/verdicts/verdicts.h"

#include "base/probes.h"
#include "dataplane/protocol/operations/verdict.h"

namespace tally::protocol {
namespace {

using State = OperationRecord::State;

// When a failure has been reported and no answer has come in this time, the parent has failed. The
// time is longer than a transport needs to find a peer that stalls.
constexpr Nanos kGrace = 5 * kSecond;

// A peer that answers very slowly does not stall, but its tiles would delay a verdict without end.
// It gets as much time as a peer that stalls, which is less than clients wait.
constexpr Nanos kToDrain = 4 * kSecond;

}  // namespace

void Verdicts::fail(Job& job, PoolIndex index, const Verdict& verdict, Nanos now) {
  OperationRecord& operation = job.table[index];
  if (!job.leads_up(operation.vertex)) return give_up(job, index, verdict, now);
  operation.verdict = verdict;
  parents_.report(job, operation.vertex, operation.key, operation.part, verdict);
  stop(job, index);
  operation.state = State::kReported;
  job.set_deadline(index, now + kGrace);
}

void Verdicts::fail_all(Job& job, const Verdict& verdict, Nanos now) {
  for (PoolIndex i = 0; i < job.table.used(); ++i) {
    if (job.table[i].is_open()) fail(job, i, verdict, now);
  }
}

// Starts no more tiles of the operation. An operation that succeeds has none left to start.
void Verdicts::stop(Job& job, PoolIndex index) {
  OperationRecord& operation = job.table[index];
  if (operation.state != State::kActive) return;
  const bool root = job.vertex(operation).is_root();
  const bool scheduled = root ? operation.cursor < operation.end : operation.first_wanted != kNone;
  if (scheduled) {
    scheduler_.remove(job.id, job.position(operation).cls, index);
    pacer_.remove(job.id, operation.vertex, index);
    if (root) backlog_.remove(traffic(operation.shape, operation.end - operation.cursor));
    if (!root) parents_.refuse_requests(job, operation);
  }
  children_.stop_waiting(job, index);
}

// The vertex is the root, or it is cut off from the root. When it is cut off, its sums may have
// become results elsewhere, and these may have reached some of its ranks.
void Verdicts::give_up(Job& job, PoolIndex index, const Verdict& verdict, Nanos now) {
  OperationRecord& operation = job.table[index];
  if (!job.vertex(operation).is_root()) operation.started = operation.cursor > operation.first;
  finish(job, index, verdict, now);
}

// Ends the operation with this verdict, when the buffers are no longer in use. Its tiles belong to
// the record of the sums.
void Verdicts::finish(Job& job, PoolIndex index, const Verdict& verdict, Nanos now) {
  const PoolIndex sums = job.sums_of(index);
  const PoolIndex other = job.table[sums].other;
  for (const PoolIndex one : {sums, other}) {
    if (one == kNone) continue;
    job.deadlines.remove(one);
    stop(job, one);
    job.table[one].verdict = verdict;
    job.table[one].state = State::kDraining;
  }
  if (job.table[sums].tiles_in_flight > 0) return job.set_deadline(sums, now + kToDrain);
  conclude_if_over(job, sums, now);
}

void Verdicts::conclude_if_over(Job& job, PoolIndex index, Nanos now) {
  const OperationRecord& operation = job.table[job.sums_of(index)];
  if (operation.tiles_in_flight > 0) return;
  const bool done = operation.state == State::kActive && operation.cursor == operation.end &&
                    job.table[job.results_of(index)].placing == 0 &&
                    job.vertex(operation).is_root();
  if (done || operation.state == State::kDraining) conclude(job, index, now);
}

void Verdicts::conclude(Job& job, PoolIndex index, Nanos now) {
  const PoolIndex sums = job.sums_of(index);
  OperationRecord& operation = job.table[sums];
  const PoolIndex other = operation.other;
  if (other != kNone) {
    OperationRecord& results = job.table[other];
    results.verdict = operation.verdict;
    results.started = operation.started;
    results.other = operation.other = kNone;
    end(job, other, now);
  }
  end(job, sums, now);
}

void Verdicts::end(Job& job, PoolIndex index, Nanos now) {
  OperationRecord& operation = job.table[index];
  const Nanos elapsed = now - operation.first_notice;
  job.deadlines.remove(index);
  account(job, operation, now);
  TALLY_PROBE(complete, job.id, operation.key.tag, operation.key.round, operation.part,
              static_cast<int>(operation.verdict.status), elapsed);
  Outgoing outgoing{kNoSession, completion_of(operation, job.spec.epoch, elapsed)};
  for (PoolIndex i = operation.announcements; i != kNone; i = job.table.announcement(i).next) {
    const Announcement& announcement = job.table.announcement(i);
    if (announcement.member == kNoSession) continue;
    --job.members[announcement.rank].outstanding;
    if (job.is_child_node(announcement.rank)) continue;
    outgoing.member = announcement.member;
    outgoing.completion.cookie = announcement.cookie;
    outbox_.complete(outgoing);
  }
  if (!job.vertex(operation).child_nodes.empty()) {
    children_.notify(job, index, outgoing.completion);
    if (operation.placing > 0) ChildNodes::disown(job, index);
  }
  const bool failed = operation.verdict.status != Status::kOk;
  if (failed && operation.announced < operation.children && !job.is_broken()) {
    job.failed.keep(index);
  } else {
    job.table.erase(index);
  }
}

// Adds a record for an operation of which only the failure is known. The caller must end it before
// it does anything else.
PoolIndex Verdicts::open_failed(Job& job, const OperationKey& key, std::uint16_t vertex,
                                std::uint16_t part, Nanos now) {
  const PoolIndex index = open_failed_one(job, key, vertex, part, now);
  const std::uint16_t other_vertex = job.positions[vertex].other;
  if (other_vertex == kNoVertex) return index;
  // No message needs the number of its part, so it has that of this one.
  const PoolIndex other = open_failed_one(job, job.other_key(key, vertex), other_vertex, part, now);
  job.table[index].other = other;
  job.table[other].other = index;
  return index;
}

PoolIndex Verdicts::open_failed_one(Job& job, const OperationKey& key, std::uint16_t vertex,
                                    std::uint16_t part, Nanos now) {
  const PoolIndex index =
      job.table.create(key, static_cast<std::uint16_t>(job.spec.vertices[vertex].children()));
  OperationRecord& operation = job.table[index];
  operation.vertex = vertex;
  operation.part = part;
  operation.first_notice = now;
  operation.deadline = kForever;
  return index;
}

// The operation may be over already, or unknown. When a parent decides an unknown operation, the
// report is passed on. Else its verdict is kept here for children that announce it later.
Status Verdicts::reported(Job& job, std::uint16_t child, const wire::Completion& report,
                          Nanos now) {
  const OperationKey key{report.cookie, report.group, report.tag, report.round};
  const std::uint16_t vertex = job.vertex_in(key.tree);
  if (report.epoch != job.spec.epoch || report.status == Status::kOk || vertex == kNoVertex) {
    return Status::kProtocol;
  }
  const Verdict verdict = verdict_of(report);
  if (!job.is_child(vertex, child) || !sensible(verdict, job.spec.ranks)) return Status::kProtocol;
  PoolIndex index = job.table.find(key);
  if (index == kNone) {
    const bool failed = job.in_other_tree(key, vertex) != kNone;
    if (failed || job.is_over(key)) return Status::kOk;
    if (job.leads_up(vertex)) {
      parents_.pass_on(job, vertex, key, report.part, verdict);
      return Status::kOk;
    }
    index = open_failed(job, key, vertex, report.part, now);
  }
  if (job.table[index].is_open()) fail(job, index, verdict, now);
  return Status::kOk;
}

// An operation that is not known here is kept with the verdict, for ranks that announce it later.
Status Verdicts::judged(Job& job, std::uint32_t parent, const wire::Completion& completion,
                        Nanos now) {
  const OperationKey key{completion.cookie, completion.group, completion.tag, completion.round};
  const std::uint16_t vertex = job.vertex_in(key.tree);
  const Verdict verdict = verdict_of(completion);
  if (completion.epoch != job.spec.epoch || vertex == kNoVertex ||
      job.spec.vertices[vertex].parent != parent || !sensible(verdict, job.spec.ranks)) {
    return Status::kProtocol;
  }
  const bool ok = completion.status == Status::kOk;
  PoolIndex index = job.table.find(key);
  if (index == kNone) {
    if (ok || job.is_over(key)) return Status::kOk;  // it has ended here meanwhile
    index = open_failed(job, key, vertex, completion.part, now);
  }
  OperationRecord& operation = job.table[index];
  if (operation.state == State::kDraining || operation.state == State::kFailed) return Status::kOk;
  if (ok && operation.announced < operation.children) return Status::kProtocol;
  operation.started = (completion.flags & wire::kStarted) != 0;
  finish(job, index, verdict, now);
  return Status::kOk;
}

void Verdicts::joined(Job& job, std::uint16_t child) {
  for (PoolIndex i = job.failed.oldest(); i != kNone;) {
    const OperationRecord& operation = job.table[i];
    const PoolIndex next = operation.newer_failed;
    if (job.is_child(operation.vertex, child) && job.table.mark(i, child)) {
      wire::Completion completion = completion_of(operation, job.spec.epoch, 0);
      completion.cookie = operation.key.tree;
      children_.send(job, child, wire::encode(completion));
      job.failed.forget_if_announced(i);
    }
    i = next;
  }
}

}  // namespace tally::protocol
