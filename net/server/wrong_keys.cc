#include "net/server/wrong_keys.h"

#include <algorithm>

namespace tally::rpc {

namespace {

// More would not make the wait longer, and would take longer to be forgiven.
constexpr int kMostWrong = 12;

}  // namespace

int WrongKeys::wrong_now(const Source& source, Nanos now) {
  return std::max<int>(0, source.wrong - static_cast<int>((now - source.since) / kForgiven));
}

void WrongKeys::add(const std::string& source, Nanos now) {
  // A source with few wrong keys may be forgotten, so the table stays small.
  if (sources_.size() >= kMostSources && !sources_.contains(source)) {
    std::erase_if(sources_,
                  [&](const auto& entry) { return wrong_now(entry.second, now) <= kFree; });
    if (sources_.size() >= kMostSources) sources_.erase(sources_.begin());
  }
  Source& entry = sources_[source];
  entry = {.wrong = std::min(wrong_now(entry, now) + 1, kMostWrong), .since = now};
}

Nanos WrongKeys::wait_of(const std::string& source, Nanos now) const {
  const auto found = sources_.find(source);
  const int wrong = found == sources_.end() ? 0 : wrong_now(found->second, now);
  if (wrong <= kFree) return 0;
  return std::min(kLongestWait, kFirstWait << (wrong - kFree - 1));
}

bool WrongKeys::must_wait(const std::string& source, Nanos now) const {
  const Nanos wait = wait_of(source, now);
  return wait > 0 && now < sources_.at(source).since + wait;
}

}  // namespace tally::rpc
