#include "control/coordinator/state/members/heartbeats.h"

#include <algorithm>

namespace tally::control {

std::vector<NodeId> Heartbeats::take_silent(Nanos now) {
  std::vector<NodeId> silent;
  for (auto& [node, wait] : waits_) {
    if (now < wait.until) continue;
    const bool is_behind = now - wait.until >= kOnTime;
    if (wait.is_late && !is_behind) silent.push_back(node);
    wait = {now + second_look_, true};
  }
  for (const NodeId node : silent) waits_.erase(node);
  return silent;
}

Nanos Heartbeats::next_deadline() const {
  Nanos next = kForever;
  for (const auto& [node, wait] : waits_) next = std::min(next, wait.until);
  return next;
}

}  // namespace tally::control
