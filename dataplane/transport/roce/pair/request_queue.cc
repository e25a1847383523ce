#include "dataplane/transport/roce/pair/request_queue.h"

#include <algorithm>

namespace tally::transport::roce {

Request request_of(const Work& work, std::uint64_t serial, std::uint64_t offset,
                   std::uint32_t mtu) {
  Request request;
  request.kind = work.kind;
  request.serial = serial;
  request.offset = offset;
  request.bytes = work.bytes - offset;
  request.is_long = is_long_read(work, mtu);
  if (request.is_read()) {
    request.bytes = std::min(request.bytes, std::uint64_t{kReadPackets} * mtu);
  }
  request.packets = packets_of(request.bytes, mtu);
  if (request.is_read()) request.wanted = request.missing = request.all_packets();
  return request;
}

void RequestQueue::push_next(const Request& request) {
  requests_.insert(numbered_, request);
  waiting_reads_ += request.is_read() ? 1 : 0;
}

void RequestQueue::drop_done() {
  while (numbered_ > 0 && requests_.front().done) {
    reads_ -= requests_.front().is_read() ? 1 : 0;
    requests_.pop_front();
    --numbered_;
    if (place_ > 0) {
      --place_;
    } else {
      part_ = 0;
    }
  }
}

void RequestQueue::clear() {
  requests_.clear();
  numbered_ = place_ = 0;
  reads_ = waiting_reads_ = part_ = 0;
}

std::size_t RequestQueue::last_open() const {
  for (std::size_t i = numbered_; i > 0; --i) {
    if (!requests_[i - 1].done) return i - 1;
  }
  return numbered_;
}

Request* RequestQueue::find(Psn psn) {
  if (numbered_ == 0) return nullptr;
  Request& front = requests_.front();  // usually, because answers come in order
  if (psn.after(front.first) >= 0 && front.end().after(psn) > 0) return &front;
  std::size_t found = 0;  // the first that ends after it, in [found, end]
  for (std::size_t end = numbered_; found < end;) {
    const std::size_t middle = found + (end - found) / 2;
    if (requests_[middle].end().after(psn) > 0) {
      end = middle;
    } else {
      found = middle + 1;
    }
  }
  return found == numbered_ || psn.after(requests_[found].first) < 0 ? nullptr : &requests_[found];
}

Request* RequestQueue::current(Psn acknowledged_end) {
  for (; place_ < numbered_; ++place_, part_ = 0) {
    const Request& request = requests_[place_];
    if (request.done || (request.is_read() && request.is_touched())) continue;
    if (!request.is_read() && acknowledged_end.after(request.first + part_) > 0) {
      part_ = static_cast<std::uint32_t>(acknowledged_end.after(request.first));
    }
    if (part_ < (request.is_read() ? 1 : request.packets)) break;
  }
  return place_ < requests_.size() ? &requests_[place_] : nullptr;
}

void RequestQueue::number() {
  Request& request = requests_[place_];
  request.first = next_psn_;
  next_psn_ = next_psn_ + request.packets;
  ++numbered_;
  ++messages_;
  reads_ += request.is_read() ? 1 : 0;
  waiting_reads_ -= request.is_read() ? 1 : 0;
}

void RequestQueue::go_back_to(Psn psn) {
  for (std::size_t i = 0; i < numbered_; ++i) {
    const Request& request = requests_[i];
    if (request.end().after(psn) <= 0) continue;
    place_ = i;
    const std::int32_t part = request.is_read() ? 0 : psn.after(request.first);
    part_ = static_cast<std::uint32_t>(std::max(part, 0));
    return;
  }
}

void RequestQueue::go_back_to_first() {
  for (std::size_t i = 0; i < numbered_; ++i) {
    if (requests_[i].done) continue;
    place_ = i;
    part_ = 0;
    return;
  }
}

}  // namespace tally::transport::roce
