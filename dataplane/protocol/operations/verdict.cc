#include "dataplane/protocol/operations/verdict.h"

#include <algorithm>

#include "dataplane/wire/vertex.h"

namespace tally::protocol {

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

wire::Completion completion_of(const OperationRecord& operation, std::uint32_t epoch,
                               Nanos elapsed) {
  wire::Completion completion = completion_of(operation.verdict, elapsed);
  if (operation.started && completion.status != Status::kOk) completion.flags |= wire::kStarted;
  completion.part = operation.part;
  completion.group = operation.key.group;
  completion.epoch = epoch;
  completion.tag = operation.key.tag;
  completion.round = operation.key.round;
  return completion;
}

RingEntry failure_report(const OperationKey& key, std::uint16_t part, std::uint32_t epoch,
                         const Verdict& verdict) {
  wire::Completion report = completion_of(verdict, 0);
  report.part = part;
  report.group = key.group;
  report.epoch = epoch;
  report.tag = key.tag;
  report.round = key.round;
  report.cookie = key.tree;
  return wire::encode(report);
}

RingEntry broken_message(std::uint32_t epoch, const Verdict& broken) {
  wire::VertexMessage message;
  message.kind = wire::VertexKind::kBroken;
  message.epoch = epoch;
  message.status = broken.status;
  message.culprit = broken.culprit;
  message.buffer = static_cast<std::uint32_t>(broken.culprit_value);
  return wire::encode(message);
}

bool sensible(const Verdict& verdict, std::uint16_t ranks) {
  const auto known = [&](std::uint16_t rank) { return rank < ranks || rank == wire::kNoRank; };
  // These statuses are about a message, not about an operation.
  const bool of_a_message = verdict.status == Status::kDuplicate ||
                            verdict.status == Status::kStaleEpoch ||
                            verdict.status == Status::kAgain;
  return !of_a_message && known(verdict.culprit) && known(verdict.witness);
}

void name_culprit(OperationRecord& operation, std::uint16_t rank) {
  Verdict& verdict = operation.verdict;
  const bool unknown = verdict.status == Status::kDeadline && verdict.culprit == wire::kNoRank;
  if (unknown) verdict.culprit = rank;
}

}  // namespace tally::protocol
