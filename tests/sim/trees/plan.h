// The schedule that a seed stands for: jobs, their trees over nodes, their operations, and which
// faults occur. Pure data; world.h runs it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "dataplane/protocol/aggregator.h"
#include "tests/support/transport/random.h"

namespace tally::sim::trees {

using transport::Random;

inline constexpr std::uint32_t kNone = UINT32_MAX;
inline constexpr std::uint32_t kNowhere = 0xffff;  // no region has this number

// A vertex of a tree, and the node whose shard it is.
struct TreeVertex {
  std::uint32_t node = 0;
  std::uint32_t parent = kNone;            // index in the tree's list; the root is first
  std::vector<std::uint16_t> ranks;        // children that are ranks, ascending
  std::vector<std::uint32_t> child_nodes;  // child nodes as indexes in the tree's list, by
                                           // ascending node
  std::vector<std::uint16_t> below;        // all ranks below, ascending
  std::uint32_t height = 1;
};
using Tree = std::vector<TreeVertex>;

// The faults; a job has at most one.
enum class Fault : std::uint8_t {
  kNothing,
  kRankLost,
  kNodeLost,  // the node is a child to some nodes and a parent to others
  kAbsent,    // a rank does not announce an operation: the verdict at the deadline names the rank
  kMismatch,  // a rank announces an operation differently
  kCancel,    // a rank cancels operations
  kBadRegion,
};
inline constexpr std::uint64_t kFaults = 7;
std::string_view name(Fault fault);

struct OpPlan {
  std::uint32_t tag = 0;
  std::uint32_t round = 0;
  protocol::Shape shape;
  std::uint8_t priority = 0;
  std::uint64_t in_place = 0;     // one bit for each rank
  std::uint64_t wants_stats = 0;  // one bit for each rank
  bool faulty = false;            // the fault hits this operation, when it hits single operations
};

struct JobPlan {
  std::uint16_t ranks = 1;
  std::uint32_t weight = 1;
  protocol::Partition plan;
  std::vector<Tree> trees;  // those that sum, then their result trees
  protocol::BufferLayout buffers;
  std::vector<OpPlan> ops;
  Fault fault = Fault::kNothing;
  std::uint16_t victim = 0;  // the rank that the fault hits
  std::uint32_t victim_node = 0;
  std::uint64_t when = 0;   // number of events after which the fault begins
  bool takes_back = false;  // when a part fails, ranks cancel the other parts of the operation
};

struct Schedule {
  std::uint64_t seed = 0;
  std::uint32_t nodes = 1;
  std::uint32_t tiles = 1;
  std::uint32_t upper_tiles = 1;
  std::uint64_t window_bytes = 0;
  std::uint64_t tile_bytes = 0;
  std::uint64_t pace = 0;  // of all roots
  bool one_class = false;
  double laziness = 0;  // probability that a node does not look at an arrival at once
  std::vector<JobPlan> jobs;

  std::uint32_t max_height() const;
};

Schedule make_schedule(std::uint64_t seed, bool healthy);

// A description in one line.
std::string describe(const Schedule& schedule);

}  // namespace tally::sim::trees
