// Two queue pairs and a network between them that loses, doubles, delays and reorders packets, from
// a seed. Both ends send, write and read at each other, and everything is checked against what
// should happen.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <queue>
#include <random>
#include <string>
#include <vector>

#include "dataplane/transport/roce/pair/requester.h"
#include "dataplane/transport/roce/pair/responder.h"

namespace tally::transport::roce {

struct Faults {
  double lost = 0;
  double doubled = 0;
  double reordered = 0;       // delayed for long
  Nanos delay = 5'000;        // of every packet
  Nanos more_delay = 60'000;  // at most, of a reordered one
};

struct Load {
  int works = 20;                  // of each end
  std::uint32_t most_packets = 8;  // of a work, but for a few long READs
  bool few_receives = false;
  bool changes_windows = false;
  double long_reads = 0.1;  // the share of READs that have up to kRegion / 4 bytes
};

class PairWorld {
 public:
  PairWorld(std::uint64_t seed, const PairOptions& options, const Faults& faults, const Load& load);

  ~PairWorld();

  // Runs until all work is done, or for a simulated minute. Returns what is wrong; empty: nothing.
  std::string run();
  Nanos now() const { return now_; }
  std::uint64_t packets() const { return packets_; }
  // How often a requester has waited in vain for an answer.
  std::uint64_t timeouts() const;

 private:
  struct End;
  struct Flight {
    Nanos at = 0;
    std::uint64_t number = 0;  // of the flight: those of the same time keep their order
    int to = 0;
    Packet packet{};
    std::vector<std::byte> payload{};
    bool operator<(const Flight& other) const {
      return at != other.at ? at > other.at : number > other.number;
    }
  };

  void plan(End& end);
  void post(End& end);
  void send(int from, const Outgoing& outgoing);
  void arrive(Flight flight);
  void deliver(End& end);
  void take_done(End& end);
  bool is_done() const;
  void wrong(std::string what);
  double chance() { return std::uniform_real_distribution<>(0, 1)(random_); }
  std::uint64_t below(std::uint64_t limit) {
    return std::uniform_int_distribution<std::uint64_t>(0, limit - 1)(random_);
  }

  std::mt19937_64 random_;
  PairOptions options_;
  Faults faults_;
  Load load_;
  std::vector<std::unique_ptr<End>> ends_;
  std::priority_queue<Flight> flights_;
  Nanos now_ = 1;
  std::uint64_t flight_numbers_ = 0;
  std::uint64_t packets_ = 0;
  std::string wrong_;
};

}  // namespace tally::transport::roce
