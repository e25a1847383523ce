// The plan for full bisection: every machine is joined to the others by its NIC alone. A star at
// every machine, weighted by what each NIC can carry; no protocol that sends gradients as they are
// does better, as long as nothing but NICs that are as fast in as out limits it.
//
// Source: BytePS (Jiang et al., OSDI '20, section 4.1) for equal NICs. For unequal ones its
// generalisation, with the proof of its bound, in docs/planning.md. O((n + k) log(n + k)).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "control/plan/plan.h"

namespace tally::plan {

inline constexpr std::size_t kMaxStarMachines = 1024;  // a star for each: the plan grows squared

struct StarShares {
  std::vector<double> shares;  // by machine: of the bytes, its star's; they sum to 1
  double tau = 0;              // seconds per byte, exactly, before weights are rounded
  double lower_bound = 0;      // of any plan on these NICs
};

// Workers and helpers in any order; at least one worker. A NIC counts with the slower of its
// directions; the bound takes their mean. A machine that sums slower than it receives has a share
// that it can sum.
StarShares star_shares(std::span<const Vertex> machines);

// The shares that BytePS gives when all NICs are taken to be equal, whatever they are: what uneven
// NICs are compared with. tau and lower_bound are those of NICs of 1 byte per second.
StarShares uniform_shares(std::span<const Vertex> machines);

// Integers that sum to kWeightUnit and differ from share x kWeightUnit by less than 1: largest
// remainder, ties to the lower index. Precondition: shares >= 0 with sum 1, at least one.
std::vector<std::uint32_t> round_weights(std::span<const double> shares);

struct StarOptions {
  std::uint64_t chunk = 256 << 10;  // bytes
  std::uint32_t window = 0;
  std::uint64_t epoch = 1;
  // Operations below so many bytes travel whole; 0: the coordinator decides.
  std::uint64_t split_bytes = 0;
  std::vector<Tensor> tensors{};  // that workers will post, by rising tag
};

// One domain, "all", of all workers; one class, or two of the same trees: what travels whole comes
// first. Trees that would get no weight are left out. The
// certificate has the loads' own tau, which the rounding of weights makes a little more than that
// of star_shares(). An error names what is wrong with the machines.
Result<Plan> plan_star(std::vector<Vertex> machines, const StarOptions& options);

}  // namespace tally::plan
