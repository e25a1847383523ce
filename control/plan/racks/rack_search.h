// Finds which machines share a bottleneck on the way to the others, from speeds of flows between
// machines: racks, and the speeds of their links up and down.
//
// Pairs that are measured alone do not show a bottleneck that is as fast as one NIC. So the search
// asks for rounds of flows at the same time, in which each machine sends to one other machine and
// receives from one. A flow that is slower than both NICs crosses a bottleneck, so its ends are
// behind different ones. A fast flow says less, because its round may not have filled the
// bottleneck. Rounds are drawn by chance at first, and later such that many flows leave the racks
// that the search suspects. In the end it fills each link of a rack alone, for its speed.
//
// Flows that share a bottleneck may share it unevenly, because the search only counts slow ones. It
// finds no racks of racks, and no rack of a single machine, whose link is like a slow NIC.
//
// Pure values without clocks: the caller measures. The same measurements give the same racks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

namespace tally::plan::racks {

inline constexpr std::size_t kFewestMachines = 3;
inline constexpr std::size_t kMostMachines = 256;

// Bytes per second of a machine, with all others at once.
struct Speeds {
  double in = 0;
  double out = 0;
};

struct Flow {
  std::size_t from = 0;  // indices of machines
  std::size_t to = 0;
  double speed = 0;  // bytes per second; 0: not measured
};

struct Rack {
  std::vector<std::size_t> machines;  // ascending
  // Bytes per second to and from all other racks. A link that does not limit has what its machines
  // have together.
  double up = 0;
  double down = 0;
};

class RackSearch {
 public:
  // Preconditions: kFewestMachines to kMostMachines machines, speeds above 0.
  explicit RackSearch(std::vector<Speeds> machines);

  // Adds the speed of a flow in one direction of a pair, which was measured without other pairs.
  void add_alone(const Flow& flow) { alone_.push_back(flow); }

  // Returns the flows to measure at the same time next. Empty when the search is over. There are at
  // most kRounds rounds, and 2 more for each rack; fewer where the racks show sooner.
  std::vector<Flow> next();
  // Adds the flows of next() with their speeds.
  void add(const std::vector<Flow>& flows);

  // Returns the racks by their first machines. Empty when there are fewer than 2, because then
  // nothing but NICs limits the machines. Precondition: next() has returned nothing.
  std::vector<Rack> racks() const;

  static constexpr std::size_t kRounds = 40;

 private:
  struct Counts;

  // The speed of a flow that only the two machines limit.
  double free_speed(std::size_t from, std::size_t to) const;
  Counts count() const;
  std::vector<std::size_t> find_groups() const;
  bool is_certain() const;
  void end_rounds();
  std::vector<Flow> mixed(const std::vector<std::size_t>& groups);
  std::vector<Flow> crossing(std::size_t rack, bool out) const;
  double total(std::size_t index) const;  // speed of all flows of a round in crossings_
  double speed_of_link(std::size_t rack, bool out) const;

  std::vector<Speeds> machines_;
  std::vector<Flow> alone_;
  std::vector<std::vector<Flow>> rounds_;
  std::mt19937_64 random_;  // always from the same seed
  bool has_groups_ = false;
  std::vector<std::size_t> groups_;           // by machine; before has_groups_: the last guess
  std::size_t same_guesses_ = 0;              // in a row
  std::size_t count_ = 0;                     // of groups
  std::vector<std::vector<Flow>> crossings_;  // out of group 0, into it, out of group 1 ...
};

}  // namespace tally::plan::racks
