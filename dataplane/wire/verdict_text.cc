#include "dataplane/wire/verdict_text.h"

#include <fmt/format.h>

#include "base/element.h"

namespace tally::wire {
namespace {

// A field's value, under the name that users know.
std::string value_name(Field field, std::uint64_t value) {
  switch (field) {
    case Field::kKind:
      return std::string(name(static_cast<Kind>(value)));
    case Field::kType:
      if (value < kElementTypes.size()) return std::string(name(static_cast<ElementType>(value)));
      break;
    case Field::kOperation:
      if (value < kOperationNames.size()) return std::string(name(static_cast<Operation>(value)));
      break;
    case Field::kNone:
    case Field::kCount:
    case Field::kRoot:
      break;
  }
  return fmt::format("{}", value);
}

// Describes a lost node. This rank may have had no session with it.
std::string lost_node(const Completion& verdict, std::span<const std::string> nodes) {
  const std::uint64_t number = verdict.culprit_value;
  const bool is_known = number > 0 && number <= nodes.size() && !nodes[number - 1].empty();
  const std::string node = is_known ? fmt::format("node \"{}\"", nodes[number - 1]) : "a node";
  return fmt::format("{} of the job died or its connection to the next one broke", node);
}

}  // namespace

std::string reason_of(const Completion& verdict, std::span<const std::string> nodes) {
  const auto culprit = verdict.culprit;
  switch (verdict.status) {
    case Status::kMismatch:
      return fmt::format("rank {} announced {} {}, rank {} announced {}", culprit,
                         name(verdict.field), value_name(verdict.field, verdict.culprit_value),
                         verdict.witness, value_name(verdict.field, verdict.witness_value));
    case Status::kDeadline: {
      const double seconds = verdict.elapsed_us / 1e6;
      if (verdict.missing == 0 && culprit != kNoRank) {
        return fmt::format("not finished in {:.1f} s: rank {} did not give or take its bytes",
                           seconds, culprit);
      }
      if (verdict.missing == 0) return fmt::format("not finished in {:.1f} s", seconds);
      const std::string where =
          (verdict.flags & kHasLast) != 0
              ? fmt::format("last announced: tag {} round {}", verdict.last_tag, verdict.last_round)
              : "has announced nothing yet";
      const std::string others =
          verdict.missing > 1 ? fmt::format(" and {} more", verdict.missing - 1) : "";
      return fmt::format("waiting for rank {} ({}){}, {:.1f} s", culprit, where, others, seconds);
    }
    case Status::kPeerLost:
      if (culprit == kNoRank) return lost_node(verdict, nodes);
      return fmt::format("rank {} died or its connection broke", culprit);
    case Status::kPeerLeft:
      if (culprit == kNoRank) return "no rank is left at one of the job's nodes";
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

}  // namespace tally::wire
