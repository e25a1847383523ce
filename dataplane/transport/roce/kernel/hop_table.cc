#include "dataplane/transport/roce/kernel/hop_table.h"

#include <algorithm>
#include <utility>

namespace tally::transport::roce {

HopTable::HopTable(const HopTableOptions& options) : options_(options) {
  entries_.reserve(options_.most_entries);
}

HopTable::Entry* HopTable::find(const IpAddress& target) {
  const auto found = std::find_if(entries_.begin(), entries_.end(),
                                  [&](const Entry& entry) { return entry.target == target; });
  return found == entries_.end() ? nullptr : &*found;
}

Resolution HopTable::resolve(const IpAddress& target, Nanos now) {
  Entry* entry = find(target);
  if (entry == nullptr) {
    if (entries_.size() >= options_.most_entries) {
      std::erase_if(entries_, [now](const Entry& one) { return one.used_until <= now; });
    }
    if (entries_.size() >= options_.most_entries) return {.reach = Reach::kTableFull};
    entry = &entries_.emplace_back(Entry{.target = target, .due = now});
  }
  entry->used_until = now + options_.lifetime;
  return entry->found;
}

std::optional<IpAddress> HopTable::next_due(Nanos now) {
  std::erase_if(entries_, [now](const Entry& one) { return one.used_until <= now; });
  const auto due =
      std::min_element(entries_.begin(), entries_.end(),
                       [](const Entry& one, const Entry& other) { return one.due < other.due; });
  if (due == entries_.end() || due->due > now) return std::nullopt;
  due->due = now + options_.renewal;
  return due->target;
}

void HopTable::record(const IpAddress& target, const Resolution& answer, Nanos now) {
  Entry* const entry = find(target);
  if (entry == nullptr) return;
  const bool is_asked = answer.reach == Reach::kAsked;
  if (!is_asked || entry->found.reach != Reach::kKnown) entry->found = answer;
  // The first answer that an address is unreachable may be old. The question makes the kernel ask
  // the network again, so the answer may change soon.
  const bool is_first = !is_asked && !std::exchange(entry->answered, true);
  const bool is_soon = is_asked || (is_first && answer.reach == Reach::kUnreachable);
  entry->due = now + (is_soon ? options_.retry : options_.renewal);
}

Nanos HopTable::next_deadline() const {
  Nanos next = kForever;
  for (const Entry& entry : entries_) next = std::min(next, entry.due);
  return next;
}

}  // namespace tally::transport::roce
