#include "client/session/session_loss.h"

#include <fmt/format.h>

#include <algorithm>

namespace tally::client {
namespace {

constexpr Nanos kLossFenceTime = 1 * kSecond;  // after this the regions move
constexpr Nanos kMoveAgain = 1 * kSecond;      // between two attempts, because a move costs much

}  // namespace

void SessionLoss::begin(Status status, const std::string& why, const SessionOptions& options) {
  why_ = why;
  lost_ =
      Error{status, fmt::format("session with {}: {}; open a new session", options.address, why)};
  options.write_log(1, lost_->message);
}

const std::string* SessionLoss::reason_of(Status status) const {
  return lost_ && lost_->status == status ? &why_ : nullptr;
}

// Precondition: no node can reach the memory any more.
void SessionLoss::free_buffers(const PlanVersions& versions) {
  held_back_.reset();
  versions.abandon(lost_->status);
}

void SessionLoss::end_access(const PlanVersions& versions, const SessionRegions& regions,
                             Nanos until, const SessionOptions& options) {
  const auto fenced = [&] {
    return versions.fence(std::min(monotonic_now() + kLossFenceTime, until));
  };
  if (fenced()) return free_buffers(versions);
  options.write_log(1,
                    "the node cannot be fenced off in time: moving the regions out of its reach");
  Outcome moved = regions.move_used();
  while (!moved && monotonic_now() < until) {
    if (fenced()) return free_buffers(versions);
    moved = regions.move_used();
  }
  if (moved) return free_buffers(versions);
  held_back_ =
      Error{lost_->status,
            fmt::format(
                "{}; the node has stopped in the middle of a tile, and memory that it may store "
                "into cannot be put out of its reach ({}): {} operations keep their buffers until "
                "the node's process goes on or ends; end it, then take their completions",
                lost_->message, moved.error().message, versions.outstanding())};
  options.write_log(1, held_back_->message);
  next_move_ = monotonic_now() + kMoveAgain;
}

bool SessionLoss::try_again(const PlanVersions& versions, const SessionRegions& regions) {
  const Nanos now = monotonic_now();
  bool out = versions.fence(now);
  if (!out && now >= next_move_) {
    next_move_ = now + kMoveAgain;
    out = regions.move_used().ok();
  }
  if (out) free_buffers(versions);
  return out;
}

}  // namespace tally::client
