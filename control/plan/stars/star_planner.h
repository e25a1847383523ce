// The plan for a network of full bisection, where only the machines' NICs limit. It has a star at
// every machine, and the weight of a star follows from the speed of the machine's NIC. No protocol
// that sends gradients unchanged is faster, if only NICs limit it and each NIC is as fast in as
// out.
//
// Source: BytePS (Jiang et al., OSDI '20, section 4.1) for equal NICs. For unequal NICs this is a
// generalisation. docs/planning.md has it with the proof of its bound. O((n + k) log(n + k)) for n
// workers and k helpers.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "control/plan/model/plan.h"

namespace tally::plan {

inline constexpr std::size_t kMaxStarMachines = 1024;  // the plan grows with its square

struct StarShares {
  std::vector<double> shares;  // by machine: its star's share of the bytes; they sum to 1
  double tau = 0;              // seconds per byte, exact, before weights are rounded
  double lower_bound = 0;      // seconds per byte of any plan on these NICs
};

// Workers and helpers may come in any order. Precondition: at least one worker. A NIC counts with
// the slower of its two directions. The bound takes the mean of both. A machine that sums slower
// than it receives gets a share that it can sum.
StarShares star_shares(std::span<const Vertex> machines);

// Returns the shares that BytePS gives when it takes all NICs for equal, whatever their speeds are.
// They are a comparison for uneven NICs. tau and lower_bound are those of NICs of 1 byte per
// second.
StarShares uniform_shares(std::span<const Vertex> machines);

// Returns integers that sum to kWeightUnit. Each differs from share x kWeightUnit by less than 1.
// Method: largest remainder; on a tie the lower index wins. Precondition: at least one share, all
// shares >= 0, with sum 1.
std::vector<std::uint32_t> round_weights(std::span<const double> shares);

struct StarOptions {
  std::uint64_t chunk = 256 << 10;  // bytes
  std::uint32_t window = 0;
  std::uint64_t epoch = 1;
  // Operations of fewer bytes travel whole; 0: the coordinator decides.
  std::uint64_t split_bytes = 0;
  std::vector<Tensor> tensors{};  // operations that workers will post, by rising tag
};

// Returns a plan with one domain, "all", of all workers. It has one class, or two classes with the
// same trees. Of the two the first is for operations that travel whole. Trees without weight are
// left out. The certificate's tau comes from the loads. The rounding of weights makes it a little
// larger than that of star_shares(). An error says what is wrong with the machines.
Result<Plan> plan_star(std::vector<Vertex> machines, const StarOptions& options);

}  // namespace tally::plan
