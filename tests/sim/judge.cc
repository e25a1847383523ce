#include "tests/sim/judge.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace tally::sim {

using wire::Completion;

Judge::Judge(const Schedule& schedule, const JobPlan& job, std::span<Worker> workers,
             std::span<testing::Expected> expected, const Trace& trace)
    : schedule_(schedule),
      job_(job),
      workers_(workers),
      expected_(expected),
      trace_(trace),
      records_(job.ops.size()) {}

std::string Judge::title(std::size_t op) const {
  return fmt::format("job {} tag {} round {}", job_.epoch, job_.ops[op].tag, job_.ops[op].round);
}

Judge::Record* Judge::find(std::uint32_t tag, std::uint32_t round, std::size_t& op) {
  for (op = 0; op < job_.ops.size(); ++op) {
    if (job_.ops[op].tag == tag && job_.ops[op].round == round) return &records_[op];
  }
  return nullptr;
}

Judge::PartRecord& Judge::part_of(Record& record, std::uint16_t part) const {
  while (record.parts.size() <= part) {
    record.parts.push_back({std::vector<std::uint64_t>(job_.ranks, kNever)});
  }
  return record.parts[part];
}

void Judge::notice_delivered(std::uint32_t /*shard*/, std::uint16_t rank,
                             const wire::Notice& notice, std::uint64_t turn) {
  std::size_t op = 0;
  Record* record = find(notice.tag, notice.round, op);
  if (lawless() || record == nullptr || notice.kind == wire::Kind::kCancel) return;
  auto& delivered = part_of(*record, notice.part).delivered[rank];
  delivered = std::min(delivered, turn);
}

void Judge::completion_sent(std::uint32_t shard, std::uint16_t rank, const Completion& completion,
                            std::uint64_t turn) {
  std::size_t op = 0;
  Record* record = find(completion.tag, completion.round, op);
  if (lawless() || completion.status == Status::kDuplicate) return;
  if (record == nullptr) violated("a completion of what nobody announced");
  if (workers_[rank].presence() == Presence::kLeft) return;
  PartRecord& part = part_of(*record, completion.part);
  const protocol::Shape& shape = workers_[rank].posted(op).shape;
  const protocol::Operand operand{0, completion.tag, shape.type, shape.count};
  if (protocol::cut(schedule_.plan, operand, completion.part).tree != shard) {
    violated("{}: shard {} answers for part {}", title(op), shard, completion.part);
  }
  const bool first = !part.decided;
  part.decided = true;
  if (!first) return;
  if (completion.status == Status::kOk) check_placed(op, completion.part, part);
  if (completion.status == Status::kDeadline) check_deadline(op, part, completion, turn);
}

// The commit rule: when the first completion of a part leaves, its result stands in the memory of
// every receiver.
void Judge::check_placed(std::size_t op, std::uint16_t part, const PartRecord& record) {
  const protocol::Shape& shape = job_.ops[op].shape;
  testing::Expected& expected = expected_[op];
  const auto missing = std::find(record.delivered.begin(), record.delivered.end(), kNever);
  if (missing != record.delivered.end()) {
    violated("{}: part {} ends well before rank {} has announced it", title(op), part,
             missing - record.delivered.begin());
  }
  if (!records_[op].computed) {
    std::array<const std::byte*, wire::kMaxRanks> inputs;
    for (std::uint16_t rank = 0; rank < job_.ranks; ++rank) inputs[rank] = workers_[rank].input(op);
    testing::compute_expected(shape, std::span(inputs).first(job_.ranks), expected);
    records_[op].computed = true;
  }
  const protocol::Operand operand{0, job_.ops[op].tag, shape.type, shape.count};
  const protocol::Part range = protocol::cut(schedule_.plan, operand, part);
  const std::uint64_t size = element_bytes(shape.type);
  for (std::uint16_t rank = 0; rank < job_.ranks; ++rank) {
    const auto extent = protocol::result(shape, rank);
    const std::uint64_t first = std::max(range.first, extent.first);
    const std::uint64_t last = std::min(range.first + range.count, extent.first + extent.count);
    if (first >= last) continue;
    const auto result = workers_[rank].result(op);
    if (std::memcmp(result.data() + (first - extent.first) * size,
                    expected.elements.data() + first * size, (last - first) * size) != 0) {
      violated("{}: part {} is complete, but its result does not stand at rank {}", title(op), part,
               rank);
    }
  }
}

// Completions leave one turn after the verdict, and the notices of that turn are taken first.
void Judge::check_deadline(std::size_t op, const PartRecord& record, const Completion& completion,
                           std::uint64_t turn) const {
  const std::uint16_t culprit = completion.culprit;
  const auto was_there = [&](std::uint64_t when) { return when != kNever && when + 2 <= turn; };
  // All were there: it names nobody, or the rank whose memory did not answer.
  if (culprit == kNobody || (culprit < job_.ranks && completion.missing == 0)) {
    const bool all = std::all_of(record.delivered.begin(), record.delivered.end(),
                                 [](std::uint64_t when) { return when != kNever; });
    if (!all || completion.missing != 0) violated("{}: a deadline that names nobody", title(op));
    return;
  }
  if (culprit >= job_.ranks || was_there(record.delivered[culprit])) {
    violated("{}: the deadline names rank {}, which had announced", title(op), culprit);
  }
  const auto missing = std::count_if(record.delivered.begin(), record.delivered.end(),
                                     [&](std::uint64_t when) { return !was_there(when); });
  if (completion.missing == 0 || completion.missing > missing) {
    violated("{}: {} ranks are said to be missing, not {}", title(op), completion.missing, missing);
  }
}

void Judge::finished(Worker& worker, const client::Finished& finished, Nanos now) {
  const auto op = static_cast<std::size_t>(finished.user);
  const Completion& verdict = finished.verdict;
  trace_.write(now, "job {} rank {}: tag {} round {} ends: {}, culprit {}{}", job_.epoch,
               worker.rank(), finished.tag, finished.round, status_name(verdict.status),
               verdict.culprit, finished.started ? ", started" : "");
  if (op >= records_.size() || !worker.posted(op).posted || worker.posted(op).finished ||
      finished.tag != job_.ops[op].tag || finished.round != job_.ops[op].round) {
    violated("rank {}: operation {} ends, but was not outstanding", worker.rank(), op);
  }
  worker.mark_finished(op);
  if (worker.presence() != Presence::kHere || lawless()) return;
  Record& record = records_[op];
  if (verdict.status == Status::kOk) {
    record.ok = true;
    if (!record.computed) violated("{} ends well without a completion", title(op));
    worker.finish_ok(op, expected_[op]);
  } else {
    if (record.failure) {
      check_same(op, *record.failure, verdict);
    } else {
      check_failure(op, verdict);
    }
    record.failure = verdict;
    worker.finish_failed(op, finished.started);
  }
  if (record.ok && record.failure) {
    violated("{} ends well at one rank and with \"{}\" at another", title(op),
             status_name(record.failure->status));
  }
  if (job_.healthy() && !record.ok) {
    violated("{}: \"{}\" in a healthy job", title(op), status_name(verdict.status));
  }
}

void Judge::blame(std::size_t op, const Completion& verdict, bool deserved) const {
  if (deserved) return;
  violated("{}: \"{}\" by the fault of rank {}, who did nothing of the kind", title(op),
           status_name(verdict.status), verdict.culprit);
}

// Is the verdict true?
void Judge::check_failure(std::size_t op, const Completion& verdict) const {
  if (verdict.status == Status::kDeadline) return;  // judged when it was sent
  if (verdict.culprit >= job_.ranks) {
    violated("{}: \"{}\" names nobody", title(op), status_name(verdict.status));
  }
  const Worker& culprit = workers_[verdict.culprit];
  switch (verdict.status) {
    case Status::kMismatch:
      return check_mismatch(op, verdict);
    case Status::kPeerLost:
      return blame(op, verdict, culprit.presence() == Presence::kLost);
    case Status::kPeerLeft:
      return blame(op, verdict, culprit.presence() == Presence::kLeft);
    case Status::kCancelled:
      // Ranks that disagree about the cut share only some of the parts, so one of them may hear
      // nothing but that the others took theirs back.
      return blame(op, verdict, culprit.posted(op).cancelled || job_.ops[op].odd_rank != kNobody);
    case Status::kBadRegion:
      return blame(op, verdict, job_.ops[op].bad_rank == verdict.culprit);
    case Status::kInternal:
      return blame(op, verdict, job_.has(Trouble::kTransfer));
    default:
      violated("{} ends with \"{}\"", title(op), status_name(verdict.status));
  }
}

std::uint64_t Judge::field_value(std::size_t op, std::uint16_t rank, wire::Field field) const {
  const protocol::Shape& shape = workers_[rank].posted(op).shape;
  switch (field) {
    case wire::Field::kKind:
      return static_cast<std::uint64_t>(shape.kind);
    case wire::Field::kType:
      return static_cast<std::uint64_t>(shape.type);
    case wire::Field::kOperation:
      return static_cast<std::uint64_t>(shape.operation);
    case wire::Field::kCount:
      return shape.count;
    case wire::Field::kRoot:
      return shape.root;
    case wire::Field::kNone:
      break;
  }
  violated("{}: ranks differ in nothing", title(op));
}

void Judge::check_mismatch(std::size_t op, const Completion& verdict) const {
  if (verdict.witness >= job_.ranks) violated("{}: a mismatch without witness", title(op));
  const std::uint64_t culprits = field_value(op, verdict.culprit, verdict.field);
  const std::uint64_t witness = field_value(op, verdict.witness, verdict.field);
  if (culprits == witness || culprits != verdict.culprit_value ||
      witness != verdict.witness_value) {
    violated("{}: ranks {} and {} are said to differ in {}: {} and {}; they announced {} and {}",
             title(op), verdict.culprit, verdict.witness, wire::name(verdict.field),
             verdict.culprit_value, verdict.witness_value, culprits, witness);
  }
}

// All ranks are told the same.
void Judge::check_same(std::size_t op, const Completion& a, const Completion& b) const {
  const bool same = a.status == b.status && a.culprit == b.culprit && a.field == b.field &&
                    a.witness == b.witness && a.culprit_value == b.culprit_value &&
                    a.witness_value == b.witness_value;
  // Where ranks disagree about the cut and something else goes wrong too, a rank that has fewer
  // parts may hear only that the others took theirs back; on whose account is the same.
  const bool taken_back = a.status == Status::kCancelled || b.status == Status::kCancelled;
  if (same || (taken_back && job_.ops[op].odd_rank != kNobody)) return;
  violated("{}: one rank is told \"{}\" by the fault of {}, another \"{}\" by the fault of {}",
           title(op), status_name(a.status), a.culprit, status_name(b.status), b.culprit);
}

void Judge::check_end() const {
  for (std::size_t op = 0; op < records_.size(); ++op) {
    for (const Worker& worker : workers_) {
      const Posted& posted = worker.posted(op);
      if (posted.posted && !posted.finished) {
        violated("{} never ends at rank {}", title(op), worker.rank());
      }
      if (job_.healthy() && !posted.finished) {
        violated("{} was never run at rank {}", title(op), worker.rank());
      }
    }
  }
}

}  // namespace tally::sim
