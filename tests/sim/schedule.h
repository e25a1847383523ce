// The schedule that a seed stands for: which jobs a node serves, what their ranks do, and which
// faults occur. Pure data; world.h runs it.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "dataplane/partition/collective.h"
#include "dataplane/partition/partition.h"
#include "dataplane/wire/completion.h"
#include "tests/support/transport/loopback.h"
#include "tests/support/transport/random.h"

namespace tally::sim {

using transport::Random;

inline constexpr std::uint16_t kNobody = wire::kNoRank;

// The faults of a job. A job without any is healthy: all its operations must succeed.
enum class Trouble : std::uint8_t {
  kMismatch,    // a rank announces an operation differently
  kBadRegion,   // a rank names memory that it does not have
  kCancel,      // ranks cancel operations
  kAbsent,      // a rank stops announcing
  kLate,        // a rank announces after the deadline
  kDeath,       // a rank dies at a random time
  kDeathOnUse,  // a rank dies while the node moves its bytes
  kGarbage,     // a rank sends bytes that no parser accepts
  kFence,       // a rank sets its fence, then closes its connection
  kLeave,       // a rank closes its session in good order
  kStop,        // a rank is silent for a while, perhaps for good
  kTransfer,    // pulls and pushes fail
  kDuplicate,   // notices arrive twice
  kFlip,        // notices arrive with a flipped bit
};
inline constexpr std::size_t kTroubles = 14;
std::string_view name(Trouble trouble);

struct OpPlan {
  std::uint32_t tag = 0;
  std::uint32_t round = 0;
  protocol::Shape shape;
  std::uint8_t priority = 0;
  std::uint32_t deadline_ms = 0;
  std::uint64_t in_place = 0;  // one bit for each rank
  std::uint64_t wants_stats = 0;
  std::uint16_t odd_rank = kNobody;  // kMismatch: announces odd_shape
  protocol::Shape odd_shape;
  std::uint16_t bad_rank = kNobody;  // kBadRegion
};

struct JobPlan {
  std::uint16_t ranks = 1;
  std::uint32_t credit = 8;
  std::uint32_t weight = 1;
  std::uint32_t epoch = 1;
  std::uint32_t troubles = 0;   // one bit for each Trouble
  std::uint16_t victim = 0;     // the rank of a fault that has one rank
  Nanos when = 0;               // when the fault begins
  Nanos until = 0;              // when the fault ends
  bool for_good = false;        // kStop: the rank dies
  std::uint64_t checksums = 0;  // one bit for each rank
  double corruption = 0;        // probability that a pull brings damaged bytes
  std::size_t after = 0;        // kAbsent, kLate, kLeave: after so many operations
  // In an order in which every rank can announce them within its credit, when it goes through them
  // in blocks of `block`.
  std::vector<OpPlan> ops;
  std::size_t block = 1;
  std::uint32_t tags = 1;

  bool has(Trouble trouble) const { return (troubles >> static_cast<int>(trouble) & 1) != 0; }
  bool healthy() const { return troubles == 0; }
};

struct Schedule {
  std::uint64_t seed = 0;
  std::uint32_t shards = 1;
  protocol::Partition plan;
  std::uint64_t tile_bytes = 0;
  std::uint64_t window_bytes = 0;
  std::uint32_t tiles = 1;
  transport::LoopbackConfig loopback;
  double delay = 0;     // of notices, pulls and pushes
  double activity = 1;  // probability that a worker acts when it could
  std::vector<JobPlan> jobs;
};

Schedule make_schedule(std::uint64_t seed);

// One line, for the head of a trace.
std::string describe(const Schedule& schedule);

}  // namespace tally::sim
