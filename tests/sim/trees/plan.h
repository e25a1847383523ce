// What a seed means: jobs, their trees over nodes, their operations, and what goes wrong. Pure
// data; world.h runs it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "dataplane/protocol/aggregator.h"
#include "dataplane/transport/faulty/random.h"

namespace tally::sim::trees {

using transport::Random;

inline constexpr std::uint32_t kNone = UINT32_MAX;
inline constexpr std::uint32_t kNowhere = 0xffff;  // the number of no region

// A vertex of a tree, by the node whose shard it is.
struct TreeVertex {
  std::uint32_t node = 0;
  std::uint32_t parent = kNone;         // in the tree's list; the root comes first
  std::vector<std::uint16_t> ranks;     // children, ascending
  std::vector<std::uint32_t> branches;  // children, in the tree's list, by ascending node
  std::vector<std::uint16_t> below;     // all ranks below, ascending
  std::uint32_t height = 1;
};
using Tree = std::vector<TreeVertex>;

// At most one of them goes wrong in a job.
enum class Fault : std::uint8_t {
  kNothing,
  kRankLost,
  kNodeLost,  // which is a branch to some, a parent to others
  kAbsent,    // a rank does not announce an operation: the deadline names it
  kMismatch,  // a rank announces an operation differently
  kCancel,    // a rank takes operations back
  kBadRegion,
};
inline constexpr std::uint64_t kFaults = 7;
std::string_view name(Fault fault);

struct OpPlan {
  std::uint32_t tag = 0;
  std::uint32_t round = 0;
  protocol::Shape shape;
  std::uint8_t priority = 0;
  std::uint64_t in_place = 0;     // by rank, a bit each
  std::uint64_t wants_stats = 0;  // by rank
  bool faulty = false;            // of what befalls single operations
};

struct JobPlan {
  std::uint16_t ranks = 1;
  std::uint32_t weight = 1;
  protocol::Plan plan;
  std::vector<Tree> trees;
  protocol::SlotLayout slots;
  std::vector<OpPlan> ops;
  Fault fault = Fault::kNothing;
  std::uint16_t victim = 0;  // rank
  std::uint32_t victim_node = 0;
  std::uint64_t when = 0;   // it befalls: after so many events
  bool takes_back = false;  // of an operation with a failed part the ranks cancel the others
};

struct Schedule {
  std::uint64_t seed = 0;
  std::uint32_t nodes = 1;
  std::uint32_t tiles = 1;
  std::uint32_t upper_tiles = 1;
  std::uint64_t window_bytes = 0;
  std::uint64_t tile_bytes = 0;
  bool one_class = false;
  double laziness = 0;  // chance of a node not to look at what has come at once
  std::vector<JobPlan> jobs;

  std::uint32_t max_height() const;
};

Schedule make_schedule(std::uint64_t seed, bool healthy);

// One line.
std::string describe(const Schedule& schedule);

}  // namespace tally::sim::trees
