#include "control/sim/core/fabric.h"

#include <algorithm>
#include <functional>

namespace tally::simulator {
namespace {

// A key with a tag has the order of arrival in its low bits. The 44 bits above hold tags of up to
// 16 TiB.
constexpr unsigned kArrivalBits = 20;

}  // namespace

Fabric::Fabric(const Passages& passages, const FabricOptions& options)
    : passages_(passages), options_(options), servers_(passages.size()) {
  for (std::size_t i = 0; i < servers_.size(); ++i) {
    servers_[i].seconds_per_byte = 1 / passages[i].capacity;
    servers_[i].sums = passages[i].passage == plan::Passage::kSum;
  }
}

// Chunks of one age or tag go in the order of their arrival. Arrivals may wrap around: a passage
// never has that many chunks. The tags of a flow rise, so with tags arrivals decide only between
// flows.
std::uint64_t Fabric::key_of(Server& server, const Message& message) {
  const std::uint64_t arrival = arrivals_++;
  switch (options_.order) {
    case Order::kFifo:
      return arrival;
    case Order::kOldest:
      return (std::uint64_t{message.age} << 32) | arrival;
    case Order::kFair:
      break;
  }
  std::uint64_t& tag = server.tags[passages_.flow(message.way)];
  tag = std::max(tag, server.clock) + message.bytes;
  return (tag << kArrivalBits) | (arrival & ((1U << kArrivalBits) - 1));
}

void Fabric::send(const Message& message) {
  std::uint32_t number = 0;
  if (free_.empty()) {
    number = static_cast<std::uint32_t>(travelling_.size());
    travelling_.emplace_back();
  } else {
    number = free_.back();
    free_.pop_back();
  }
  const auto hops = static_cast<std::uint32_t>(passages_.of(message.way).size());
  travelling_[number] = {message, 0, hops};
  enter(number);
}

void Fabric::enter(std::uint32_t number) {
  Travelling& chunk = travelling_[number];
  const std::uint32_t hop = chunk.next++;
  const std::uint32_t passage = passages_.of(chunk.message.way)[hop];
  Server& server = servers_[passage];
  const std::uint64_t key = key_of(server, chunk.message);
  if (server.serves == kNone) {
    server.clock = key >> kArrivalBits;
    return start(passage, number, hop);
  }
  server.queue.push_back({key, number, hop});
  std::push_heap(server.queue.begin(), server.queue.end(), std::greater<>());
  longest_queue_ = std::max(longest_queue_, server.queue.size());
}

void Fabric::start(std::uint32_t passage, std::uint32_t number, std::uint32_t hop) {
  Server& server = servers_[passage];
  const Message& message = travelling_[number].message;
  server.serves = number;
  server.hop = hop;
  const double takes = message.bytes * server.seconds_per_byte;
  events_.add(now_ + takes, kServed, passage);
  const auto way = passages_.of(message.way);
  if (hop + 1 == way.size() || waits_for_all(way[hop + 1])) return;
  const double ahead = takes - message.bytes * servers_[way[hop + 1]].seconds_per_byte;
  ahead > 0 ? events_.add(now_ + ahead, kArrives, number) : enter(number);
}

void Fabric::start_next(std::uint32_t passage) {
  Server& server = servers_[passage];
  server.serves = kNone;
  if (server.queue.empty()) return;
  std::pop_heap(server.queue.begin(), server.queue.end(), std::greater<>());
  const Waiting next = server.queue.back();
  server.queue.pop_back();
  server.clock = next.key >> kArrivalBits;
  start(passage, next.travelling, next.hop);
}

// The chunk goes on before the passage takes the next one, because it may lead to an older one. It
// is delivered when all passages have served it: by rounding, the last may end a little before the
// one before it.
void Fabric::served(std::uint32_t passage, Receiver& receiver) {
  const std::uint32_t number = servers_[passage].serves;
  const std::uint32_t hop = servers_[passage].hop;
  Travelling& chunk = travelling_[number];
  if (chunk.message.counts) servers_[passage].bytes += chunk.message.bytes;
  const auto way = passages_.of(chunk.message.way);
  if (--chunk.left > 0) {
    if (hop + 1 < way.size() && waits_for_all(way[hop + 1])) enter(number);
  } else if (options_.hop_seconds > 0) {
    events_.add(now_ + options_.hop_seconds, kDelivered, number);
  } else {
    deliver(number, receiver);
  }
  start_next(passage);
}

void Fabric::deliver(std::uint32_t number, Receiver& receiver) {
  const Message message = travelling_[number].message;
  free_.push_back(number);
  receiver.delivered(message);
}

void Fabric::run(Receiver& receiver, double until) {
  while (!events_.empty() && events_.next_time() <= until) {
    const Event event = events_.take();
    now_ = event.time;
    ++events_taken_;
    switch (event.kind) {
      case kServed:
        served(event.number, receiver);
        break;
      case kArrives:
        enter(event.number);
        break;
      case kDelivered:
        deliver(event.number, receiver);
        break;
      default:
        receiver.timer(event.number);
    }
  }
}

std::vector<double> Fabric::bytes() const {
  std::vector<double> bytes(servers_.size());
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const std::uint32_t link = passages_.only_link(i);
    bytes[i] = servers_[link == kNone ? i : link].bytes;
  }
  return bytes;
}

}  // namespace tally::simulator
