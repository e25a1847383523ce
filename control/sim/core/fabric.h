// Moves chunks over the passages of a network, event by event. It knows the time, and nothing of
// trees or collectives. A Receiver decides what to send next.
//
// A passage serves one chunk at a time, at the passage's speed. Other chunks wait there: in the
// order of their arrival, the oldest first, or fairly. Fairly means that each flow gets the same
// share of the bytes, by self-clocked fair queueing (Golestani, INFOCOM '94). A flow is what goes
// from one machine to another, as over one connection.
//
// Between two passages a chunk travels in one of two ways. Store-and-forward: it enters the next
// passage when it has left the one before. Cut-through: it enters when its first bytes have come,
// but not so early that a faster passage would wait for bytes in its middle. A machine sums a chunk
// when all of it has come.
//
// O(log chunks waiting) for each chunk and passage. Nothing is allocated for an event, except when
// a list has grown, and for each flow that is new to a fair passage.
#pragma once

#include <cstdint>
#include <limits>
#include <unordered_map>
#include <vector>

#include "control/sim/core/event_queue.h"
#include "control/sim/core/passages.h"

namespace tally::simulator {

enum class Order : std::uint8_t { kFifo, kOldest, kFair };
enum class Forwarding : std::uint8_t { kStore, kCut };

struct FabricOptions {
  Order order = Order::kOldest;
  Forwarding forwarding = Forwarding::kCut;
  double hop_seconds = 0;  // latency from machine to machine, besides the time in passages
};

struct Message {
  std::uint32_t way = 0;
  std::uint32_t bytes = 0;
  std::uint32_t age = 0;   // lower is older
  std::uint32_t what = 0;  // what and who are the receiver's
  std::uint32_t who = 0;
  bool counts = true;  // whether Fabric::bytes() counts its bytes
};

class Receiver {
 public:
  virtual ~Receiver() = default;
  virtual void delivered(const Message& message) = 0;
  virtual void timer(std::uint32_t number) = 0;
};

class Fabric {
 public:
  // `passages` must outlive this object. It may get further ways later.
  Fabric(const Passages& passages, const FabricOptions& options);

  double now() const { return now_; }
  double hop_seconds() const { return options_.hop_seconds; }

  void send(const Message& message);
  // Calls timer(number) at that time. Precondition: time >= now().
  void at(double time, std::uint32_t number) { events_.add(time, kTimer, number); }
  // Runs until nothing is left to do, or until the next event is after `until`.
  void run(Receiver& receiver, double until = std::numeric_limits<double>::infinity());

  // Returns the bytes of messages that count and have passed, by passage.
  std::vector<double> bytes() const;
  // Returns the largest number of messages that have waited at one passage.
  std::size_t longest_queue() const { return longest_queue_; }
  std::uint64_t events() const { return events_taken_; }

 private:
  enum Kind : std::uint32_t { kServed, kArrives, kDelivered, kTimer };

  struct Travelling {
    Message message;
    std::uint32_t next = 0;  // the next passage of its way, as an index in the way
    std::uint32_t left = 0;  // passages of its way that have not served it
  };

  struct Waiting {
    std::uint64_t key = 0;  // the lowest goes first
    std::uint32_t travelling = 0;
    std::uint32_t hop = 0;

    bool operator>(const Waiting& other) const { return key > other.key; }
  };

  struct Server {
    double seconds_per_byte = 0;
    double bytes = 0;
    std::uint32_t serves = kNone;  // a Travelling
    std::uint32_t hop = 0;         // its index in the way of that chunk
    bool sums = false;
    std::vector<Waiting> queue;  // a heap
    // With Order::kFair, in bytes: the tag of the chunk in service, and the last tag of each flow.
    std::uint64_t clock = 0;
    std::unordered_map<std::uint32_t, std::uint64_t> tags;
  };

  // Whether a chunk enters the passage only when all of it has come.
  bool waits_for_all(std::uint32_t passage) const {
    return options_.forwarding == Forwarding::kStore || servers_[passage].sums;
  }
  void enter(std::uint32_t travelling);
  void start(std::uint32_t passage, std::uint32_t travelling, std::uint32_t hop);
  void start_next(std::uint32_t passage);
  void served(std::uint32_t passage, Receiver& receiver);
  void deliver(std::uint32_t travelling, Receiver& receiver);
  std::uint64_t key_of(Server& server, const Message& message);

  const Passages& passages_;
  FabricOptions options_;
  double now_ = 0;
  EventQueue events_;
  std::vector<Server> servers_;
  std::vector<Travelling> travelling_;
  std::vector<std::uint32_t> free_;
  std::uint32_t arrivals_ = 0;
  std::size_t longest_queue_ = 0;
  std::uint64_t events_taken_ = 0;
};

}  // namespace tally::simulator
