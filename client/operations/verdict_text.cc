#include "client/operations/verdict_text.h"

#include <fmt/format.h>

#include "base/element.h"

namespace tally::client {
namespace {

// A field's value, under the name that users know.
std::string value_name(wire::Field field, std::uint64_t value) {
  switch (field) {
    case wire::Field::kKind:
      return std::string(name(static_cast<wire::Kind>(value)));
    case wire::Field::kType:
      if (value < kElementTypes.size()) return std::string(name(static_cast<ElementType>(value)));
      break;
    case wire::Field::kOperation:
      if (value < kOperationNames.size()) return std::string(name(static_cast<Operation>(value)));
      break;
    case wire::Field::kNone:
    case wire::Field::kCount:
    case wire::Field::kRoot:
      break;
  }
  return fmt::format("{}", value);
}

// Describes a lost node. This rank may have had no session with it.
std::string lost_node(const wire::Completion& verdict, std::span<const std::string> nodes) {
  const std::uint64_t number = verdict.culprit_value;
  const std::string node = number > 0 && number <= nodes.size()
                               ? fmt::format("node \"{}\"", nodes[number - 1])
                               : "a node";
  return fmt::format("{} of the job died or its connection to the next one broke", node);
}

std::string what_happened(const wire::Completion& verdict, std::span<const std::string> nodes) {
  const auto culprit = verdict.culprit;
  switch (verdict.status) {
    case Status::kMismatch:
      return fmt::format("rank {} announced {} {}, rank {} announced {}", culprit,
                         name(verdict.field), value_name(verdict.field, verdict.culprit_value),
                         verdict.witness, value_name(verdict.field, verdict.witness_value));
    case Status::kDeadline: {
      const double seconds = verdict.elapsed_us / 1e6;
      if (verdict.missing == 0 && culprit != wire::kNoRank) {
        return fmt::format("not finished in {:.1f} s: rank {} did not give or take its bytes",
                           seconds, culprit);
      }
      if (verdict.missing == 0) return fmt::format("not finished in {:.1f} s", seconds);
      const std::string where =
          (verdict.flags & wire::kHasLast) != 0
              ? fmt::format("last announced: tag {} round {}", verdict.last_tag, verdict.last_round)
              : "has announced nothing yet";
      const std::string others =
          verdict.missing > 1 ? fmt::format(" and {} more", verdict.missing - 1) : "";
      return fmt::format("waiting for rank {} ({}){}, {:.1f} s", culprit, where, others, seconds);
    }
    case Status::kPeerLost:
      if (culprit == wire::kNoRank) return lost_node(verdict, nodes);
      return fmt::format("rank {} died or its connection broke", culprit);
    case Status::kPeerLeft:
      if (culprit == wire::kNoRank) return "no rank is left at one of the job's nodes";
      return fmt::format("rank {} closed its session", culprit);
    case Status::kCancelled:
      return fmt::format("cancelled by rank {}", culprit);
    case Status::kBadRegion:
      return fmt::format("rank {} announced bytes outside of its regions", culprit);
    case Status::kStaleEpoch:
      return "announced under an epoch that is over: open a new session";
    case Status::kDamaged:
      return fmt::format(
          "rank {}'s bytes do not have its checksums, however often they are read: damaged on the "
          "way or in memory, or changed after the post",
          culprit);
    case Status::kNodeLost:
      return "the node is gone";
    default:
      return std::string(status_name(verdict.status));
  }
}

}  // namespace

std::string verdict_text(const wire::Completion& verdict, std::uint16_t own_rank,
                         std::span<const std::string> nodes) {
  std::string text =
      fmt::format("tag {} round {}: {}", verdict.tag, verdict.round, what_happened(verdict, nodes));
  if (verdict.culprit == own_rank) text += " (this rank)";
  return text;
}

std::string verdict_text(const Finished& finished, std::uint16_t own_rank,
                         std::span<const std::string> nodes) {
  wire::Completion verdict = finished.verdict;
  verdict.tag = finished.tag;
  verdict.round = finished.round;
  return verdict_text(verdict, own_rank, nodes);
}

}  // namespace tally::client
