#include "control/coordinator/store/write_queue.h"

#include <map>
#include <utility>

namespace tally::control {

void WriteQueue::add(Write write) {
  waiting_.push_back(std::move(write));
  ++added_;
}

WriteQueue::Batch WriteQueue::take() {
  Batch batch;
  std::map<std::string, std::size_t> places;  // of the keys in the batch
  std::size_t bytes = 0;
  while (!waiting_.empty()) {
    Write& next = waiting_.front();
    const std::size_t size = next.key.size() + (next.value ? next.value->size() : 0);
    const auto known = places.find(next.key);
    const bool is_new = known == places.end();
    const bool full = bytes + size > most_bytes_ || (is_new && places.size() == most_writes_);
    if (full && !batch.writes.empty()) break;
    bytes += size;
    if (is_new) {
      places[next.key] = batch.writes.size();
      batch.writes.push_back(std::move(next));
    } else {
      batch.writes[known->second].value = std::move(next.value);
    }
    waiting_.pop_front();
  }
  batch.last = added_ - waiting_.size();
  return batch;
}

}  // namespace tally::control
