#include "control/plan/forestcoll/max_flow.h"

#include <algorithm>

namespace tally::plan::forestcoll {

MaxFlow::MaxFlow(const Capacities& capacities, std::size_t further)
    : first_(capacities.vertices() + further, kNone) {
  for (std::size_t from = 0; from < capacities.vertices(); ++from) {
    for (std::size_t to = 0; to < capacities.vertices(); ++to) add(from, to, capacities(from, to));
  }
}

void MaxFlow::add(std::size_t from, std::size_t to, std::int64_t capacity) {
  if (capacity == 0) return;
  const auto add_arc = [&](std::size_t at, std::size_t end, std::int64_t left) {
    arcs_.push_back({static_cast<std::uint32_t>(end), first_[at], left});
    first_[at] = static_cast<std::uint32_t>(arcs_.size() - 1);
  };
  add_arc(from, to, capacity);
  add_arc(to, from, 0);
}

std::int64_t MaxFlow::run(std::size_t source, std::size_t sink, std::int64_t limit) {
  std::int64_t sent = 0;
  while (sent < limit && find_levels(source, sink)) {
    current_ = first_;
    while (sent < limit) {
      const std::int64_t more = push(source, sink, limit - sent);
      if (more == 0) break;
      sent += more;
    }
  }
  return sent;
}

bool MaxFlow::find_levels(std::size_t source, std::size_t sink) {
  levels_.assign(first_.size(), kNone);
  levels_[source] = 0;
  std::vector<std::size_t> queue = {source};
  for (std::size_t i = 0; i < queue.size() && levels_[sink] == kNone; ++i) {
    for (std::uint32_t arc = first_[queue[i]]; arc != kNone; arc = arcs_[arc].next) {
      const std::uint32_t to = arcs_[arc].to;
      if (arcs_[arc].left == 0 || levels_[to] != kNone) continue;
      levels_[to] = levels_[queue[i]] + 1;
      queue.push_back(to);
    }
  }
  return levels_[sink] != kNone;
}

// Sends up to `most` along one path of rising levels.
std::int64_t MaxFlow::push(std::size_t at, std::size_t sink, std::int64_t most) {
  if (at == sink) return most;
  for (std::uint32_t& arc = current_[at]; arc != kNone; arc = arcs_[arc].next) {
    const std::uint32_t to = arcs_[arc].to;
    if (arcs_[arc].left == 0 || levels_[to] != levels_[at] + 1) continue;
    const std::int64_t sent = push(to, sink, std::min(most, arcs_[arc].left));
    if (sent == 0) continue;
    arcs_[arc].left -= sent;
    arcs_[arc ^ 1].left += sent;
    return sent;
  }
  return 0;
}

std::vector<bool> MaxFlow::reached_from(std::size_t source) const {
  std::vector<bool> reached(first_.size());
  std::vector<std::size_t> queue = {source};
  reached[source] = true;
  for (std::size_t i = 0; i < queue.size(); ++i) {
    for (std::uint32_t arc = first_[queue[i]]; arc != kNone; arc = arcs_[arc].next) {
      const std::uint32_t to = arcs_[arc].to;
      if (arcs_[arc].left == 0 || reached[to]) continue;
      reached[to] = true;
      queue.push_back(to);
    }
  }
  return reached;
}

}  // namespace tally::plan::forestcoll
