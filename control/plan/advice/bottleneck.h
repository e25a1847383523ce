// Where the time of a plan goes: which places of the network are full, how busy the others are, and
// which places its lower bound comes from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "control/plan/model/load.h"
#include "control/plan/model/passages.h"
#include "control/plan/model/plan.h"

namespace tally::plan {

// A place that is busy for this part of the time of an operation counts as full. Weights are
// rounded, so places that limit together are not equally busy.
inline constexpr double kFull = 0.999;

enum class PlaceKind : std::uint8_t {
  kMachineLink,  // between a machine and a switch
  kMachinePair,  // between two machines
  kSwitchLink,   // between two switches
  kNic,          // all links into or out of a machine
  kSum,
};

// "links of machines", "links between switches" and so on.
std::string_view plural_name(PlaceKind kind);

PlaceKind kind_of(const Network& network, Passage passage, VertexId from, VertexId to);

// The places of one kind.
struct KindLoad {
  PlaceKind kind = PlaceKind::kMachineLink;
  std::size_t places = 0;
  std::size_t full = 0;     // of these
  double mean_busy = 0;     // 1 is full
  std::size_t busiest = 0;  // index in ClassLoad::loads
};

struct Bottleneck {
  ClassLoad load;
  std::vector<std::size_t> places;  // distinct_loads(), the busiest first
  // Those that the network has. The one with the largest part of full places is first, because it
  // limits as a whole; among equals the one with the busiest place.
  std::vector<KindLoad> kinds;

  // The place that limits: the busiest of the first kind. It is within rounding as busy as any.
  std::size_t binds() const { return kinds.front().busiest; }
  // The part of the time in which the place is in use; 0 when nothing travels.
  double busy(std::size_t index) const {
    return load.tau > 0 ? load.loads[index].seconds() / load.tau : 0;
  }
};

// Precondition: the trees have passed validate().
Bottleneck find_bottleneck(Routes& routes, const SizeClass& size_class);

// Returns, by index of a passage, its share of the lower bound that these prices prove: capacity x
// price, over the sum of these. The shares sum to 1. If the place alone gets faster by a small
// part, the bound falls by at most this share of that part. Precondition: the prices have passed
// dual_bound().
std::vector<double> bound_shares(const Passages& passages, std::span<const DualValue> dual);

}  // namespace tally::plan
