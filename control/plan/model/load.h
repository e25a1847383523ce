// The exact load that a set of trees puts on the network: on every link, on every NIC, and on every
// machine that sums. All planners are measured by it. It does not know how the trees were chosen.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "control/plan/model/network.h"
#include "control/plan/model/passages.h"
#include "control/plan/model/plan.h"

namespace tally::plan {

struct Load {
  Passage passage = Passage::kLink;
  VertexId from = 0;  // of a link, or the machine
  VertexId to = 0;    // of a link, or the machine
  double capacity = 0;
  double bytes = 0;  // per byte of an operation

  double seconds() const { return bytes / capacity; }  // per byte of an operation
};

// Returns a text such as "a -> switch 3", "out of a" or "sums of a".
std::string describe(const Load& load, const Network& network);

struct ClassLoad {
  std::vector<Load> loads;  // in the order of Passages
  double tau = 0;           // seconds per byte of an operation: the largest of all loads
  // Index of that load, the first of several equal ones. No load binds when tau is 0.
  std::size_t binds = 0;
  // The time to fill the pipeline follows from the tree that takes longest to fill. fill_hops: the
  // hops of its ways up and down together, less one. edge_seconds: the time of a byte over the
  // tree's slowest link.
  double fill_hops = 0;
  double edge_seconds = 0;
  // The same when the chunks of all children of a vertex pass its link one after the other, as
  // where links serve the oldest chunk first. fill_seconds: per byte of a chunk that goes up and
  // down alone over the tree where this takes longest, less tau, and at least 0.
  // small_fill_seconds: per byte of an operation whose parts are less than a chunk. Tiles of nodes
  // are smaller than chunks, so predicted_seconds() does not count this.
  double fill_seconds = 0;
  double small_fill_seconds = 0;
};

// Returns the loads when the trees carry these shares of each operation. The load of sums counts
// bytes from children only, because a worker's own gradient never passes the network.
// Preconditions: the trees have passed validate(), and there is one share for each tree.
ClassLoad evaluate(Routes& routes, std::span<const Tree> trees, std::span<const double> shares);

// Does the same with shares in proportion to the weights. If the class has rs_ag, an operation
// uses one way of the trees, and the result has the loads of the way that takes longer.
ClassLoad evaluate(Routes& routes, const SizeClass& size_class);

// Returns the indices of the loads without those of NICs that have a single link. This link has the
// same bytes and is no faster, so its load stands for both.
std::vector<std::size_t> distinct_loads(const ClassLoad& load, const Network& network);

// Returns the seconds of an operation of `bytes` bytes that is divided over the trees. This is tau
// x bytes, and the time to fill the pipeline with chunks of `chunk` bytes. `hop`: the latency of
// one hop in seconds.
double predicted_seconds(const ClassLoad& load, double bytes, double chunk, double hop);

// Returns the class that takes an operation of `bytes` bytes. Precondition: the domain has passed
// validate(), so its last class takes any size.
const SizeClass& size_class_of(const Domain& domain, std::uint64_t bytes);

// Returns the predicted seconds of an operation of `bytes` bytes that is alone in the network. In a
// class that is not divided the operation goes whole to one tree; the result is the mean over the
// trees by their weights. `hop`: the latency of one hop in seconds. Precondition: the trees have
// passed validate().
double operation_seconds(Routes& routes, const SizeClass& size_class, double bytes, double hop);

}  // namespace tally::plan
