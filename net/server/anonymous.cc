#include "net/server/anonymous.h"

#include <algorithm>

namespace tally::rpc {

std::optional<AnonymousConnections::Closing> AnonymousConnections::before_next(
    const std::string& source, bool is_operator) const {
  const auto first = [](const Order& order) { return order.begin()->id; };
  if (is_operator) {
    if (operators_.empty() || operators_.size() < limits_.operators) return std::nullopt;
    return Closing{first(operators_), Cause::kOperators};
  }
  const auto own = by_source_.find(source);
  if (own != by_source_.end() && own->second.size() >= limits_.per_source) {
    return Closing{first(own->second), Cause::kSource};
  }
  if (strangers_.empty() || strangers_.size() < limits_.connections) return std::nullopt;
  return Closing{first(strangers_), Cause::kAll};
}

void AnonymousConnections::insert(ConnectionId id, const Entry& entry) {
  if (entry.is_operator) {
    operators_.insert(entry.rank(id));
    return;
  }
  strangers_.insert(entry.rank(id));
  by_source_[entry.source].insert(entry.rank(id));
  bytes_ += entry.bytes;
}

void AnonymousConnections::erase(ConnectionId id, const Entry& entry) {
  if (entry.is_operator) {
    operators_.erase(entry.rank(id));
    return;
  }
  strangers_.erase(entry.rank(id));
  const auto own = by_source_.find(entry.source);
  own->second.erase(entry.rank(id));
  if (own->second.empty()) by_source_.erase(own);
  bytes_ -= entry.bytes;
}

void AnonymousConnections::add(ConnectionId id, const std::string& source, bool is_operator,
                               Nanos now) {
  Entry entry{.source = source, .is_operator = is_operator, .turn = ++last_turn_, .since = now};
  insert(id, entry);
  entries_.emplace(id, std::move(entry));
}

void AnonymousConnections::remove(ConnectionId id) {
  const auto found = entries_.find(id);
  if (found == entries_.end()) return;
  erase(id, found->second);
  entries_.erase(found);
}

void AnonymousConnections::active(ConnectionId id, bool busy, Nanos now) {
  const auto found = entries_.find(id);
  if (found == entries_.end()) return;
  Entry& entry = found->second;
  erase(id, entry);
  entry.busy = busy;
  entry.turn = ++last_turn_;
  entry.since = now;
  insert(id, entry);
}

void AnonymousConnections::holds(ConnectionId id, std::size_t bytes) {
  const auto found = entries_.find(id);
  if (found == entries_.end()) return;
  Entry& entry = found->second;
  if (!entry.is_operator) bytes_ = bytes_ - entry.bytes + bytes;
  entry.bytes = bytes;
}

std::optional<AnonymousConnections::Closing> AnonymousConnections::next_to_close(Nanos now) const {
  if (strangers_.empty()) return std::nullopt;
  const auto [busy, turn, oldest] = *strangers_.begin();
  if (!busy && now - entries_.at(oldest).since >= limits_.idle) {
    return Closing{oldest, Cause::kIdle};
  }
  if (bytes_ <= limits_.all_bytes) return std::nullopt;
  // This is rare and there are few strangers, so the class keeps no order by size.
  const auto most =
      std::max_element(strangers_.begin(), strangers_.end(), [this](const Rank& a, const Rank& b) {
        return entries_.at(a.id).bytes < entries_.at(b.id).bytes;
      });
  return Closing{most->id, Cause::kMemory};
}

std::optional<ConnectionId> AnonymousConnections::oldest() const {
  if (strangers_.empty()) return std::nullopt;
  return strangers_.begin()->id;
}

}  // namespace tally::rpc
