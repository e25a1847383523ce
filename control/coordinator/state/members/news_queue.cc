#include "control/coordinator/state/members/news_queue.h"

#include <algorithm>
#include <utility>

namespace tally::control {

void NewsQueue::add(NodeId node, Nanos now, Nanos silence) {
  Listener& listener = listeners_[node];
  listener.news.node = node;
  listener.listens = false;
  listener.until = now + silence;
}

void NewsQueue::listen(NodeId node, Nanos until) {
  const auto found = listeners_.find(node);
  if (found == listeners_.end()) return;
  found->second.listens = true;
  found->second.until = until;
}

void NewsQueue::assign(NodeId node, JobAssignment assignment) {
  auto& waiting = listeners_.at(node).news.placements;
  const bool waits = std::any_of(waiting.begin(), waiting.end(),
                                 [&](const JobAssignment& one) { return one.id == assignment.id; });
  if (!waits) waiting.push_back(std::move(assignment));
}

bool NewsQueue::withdraw(NodeId node, std::uint64_t assignment) {
  NodeNews& news = listeners_.at(node).news;
  const auto unsent = std::erase_if(
      news.placements, [assignment](const JobAssignment& one) { return one.id == assignment; });
  if (unsent > 0) return false;
  news.withdraw.push_back(assignment);
  return true;
}

std::vector<NodeId> NewsQueue::silent(Nanos now) const {
  std::vector<NodeId> nodes;
  for (const auto& [node, listener] : listeners_) {
    if (!listener.listens && listener.until <= now) nodes.push_back(node);
  }
  return nodes;
}

std::vector<NodeNews> NewsQueue::take(Nanos now) {
  const bool is_due = std::any_of(listeners_.begin(), listeners_.end(), [now](const auto& one) {
    return one.second.listens && one.second.until <= now;
  });
  const Nanos end = is_due ? now + kTogether : now;
  std::vector<NodeNews> list;
  for (auto& [node, listener] : listeners_) {
    const bool any = !listener.news.placements.empty() || !listener.news.withdraw.empty();
    if (!listener.listens || (!any && listener.until > end)) continue;
    list.push_back(std::exchange(listener.news, {node, {}, {}}));
    listener.listens = false;
    listener.until = now + silence_;
  }
  return list;
}

Nanos NewsQueue::next_deadline() const {
  Nanos next = kForever;
  for (const auto& [node, listener] : listeners_) next = std::min(next, listener.until);
  return next;
}

}  // namespace tally::control
