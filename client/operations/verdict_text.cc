#include "client/operations/verdict_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "dataplane/wire/verdict_text.h"

namespace tally::client {

std::string verdict_text(const wire::Completion& verdict, std::uint16_t own_rank,
                         std::span<const std::string> nodes) {
  std::string text = fmt::format("tag {} round {}: {}", verdict.tag, verdict.round,
                                 wire::reason_of(verdict, nodes));
  if (verdict.culprit == own_rank) text += " (this rank)";
  return text;
}

std::string verdict_text(const Finished& finished, std::uint16_t own_rank,
                         std::span<const std::string> nodes) {
  const std::uint16_t culprit = finished.verdict.culprit;
  if (finished.verdict.status == Status::kPeerLost && finished.left_out != nullptr &&
      std::binary_search(finished.left_out->ranks.begin(), finished.left_out->ranks.end(),
                         culprit)) {
    return fmt::format(
        "tag {} round {}: rank {} is left out of the job, and the operation needs it: use a root "
        "that is left, or an all-reduce",
        finished.tag, finished.round, culprit);
  }
  wire::Completion verdict = finished.verdict;
  verdict.tag = finished.tag;
  verdict.round = finished.round;
  return verdict_text(verdict, own_rank, nodes);
}

}  // namespace tally::client
