// What a set of trees asks of the network, exactly: the load of every link, of every NIC and of
// every machine that sums. The measure of every planner; it knows nothing of how trees were chosen.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "control/plan/network.h"
#include "control/plan/plan.h"

namespace tally::plan {

// What bytes pass: a link, all links into or out of a machine, or the sums of a machine.
enum class Passage : std::uint8_t { kLink, kIn, kOut, kSum };

struct Load {
  Passage passage = Passage::kLink;
  VertexId from = 0;  // of a link; else the machine
  VertexId to = 0;    // of a link; else the machine
  double capacity = 0;
  double bytes = 0;  // per byte of operation

  double seconds() const { return bytes / capacity; }  // per byte of operation
};

// "a -> switch 3", "out of a", "sums of a".
std::string describe(const Load& load, const Network& network);

struct ClassLoad {
  std::vector<Load> loads;  // of every link, in its order; then of machines, by id
  double tau = 0;           // seconds per byte of operation: the largest of the loads' seconds
  std::size_t binds = 0;    // whose; the first of several. Nothing binds where tau is 0
  // Filling the pipeline: of the tree that takes longest, hops less one, up and down together, and
  // the time that a byte takes over its slowest edge.
  double fill_hops = 0;
  double edge_seconds = 0;
};

// The trees carry these shares of each operation. Sums count what comes from children: a worker's
// own gradient never passes the network.
// Preconditions: the trees have passed validate(); one share for each.
ClassLoad evaluate(Routes& routes, std::span<const Tree> trees, std::span<const double> shares);

// With the shares of the weights.
ClassLoad evaluate(Routes& routes, const SizeClass& size_class);

// Seconds for an operation of so many bytes that is divided over the trees: tau x bytes, and
// filling the pipeline chunk by chunk; `hop` is the latency of one hop in seconds.
double predicted_seconds(const ClassLoad& load, double bytes, double chunk, double hop);

}  // namespace tally::plan
