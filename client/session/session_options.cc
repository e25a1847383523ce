#include "client/session/session_options.h"

#include <fmt/format.h>

#include "net/address.h"

namespace tally::client {

Outcome take_defaults(SessionOptions& options) {
  if (!options.checksums) {
    const auto enabled = net::default_checksums();
    if (!enabled) return enabled.error();
    options.checksums = *enabled;
  }
  if (!options.on_rank_loss) {
    const auto finishes = net::default_finish();
    if (!finishes) return finishes.error();
    options.on_rank_loss = *finishes ? RankLoss::kFinish : RankLoss::kFail;
  }
  if (options.quorum > options.ranks) {
    return Error{Status::kInvalidArgument,
                 fmt::format("quorum {}: must be 0 to {}, because the job has {} ranks",
                             options.quorum, options.ranks, options.ranks)};
  }
  if (!options.finishes() || options.quorum > 0) return Unit{};
  const auto quorum = net::default_quorum(options.ranks);
  if (!quorum) return quorum.error();
  options.quorum = *quorum;
  return Unit{};
}

}  // namespace tally::client
