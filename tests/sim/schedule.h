// What a seed means: which jobs a node serves, what their ranks do, and what goes wrong. Pure data;
// world.h runs it.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "dataplane/protocol/collective.h"
#include "dataplane/protocol/cut.h"
#include "dataplane/transport/faulty/random.h"
#include "dataplane/transport/loopback/loopback.h"
#include "dataplane/wire/completion.h"

namespace tally::sim {

using transport::Random;

inline constexpr std::uint16_t kNobody = wire::kNoRank;

// What may go wrong in a job. Jobs with none are healthy: everything there has to end well.
enum class Trouble : std::uint8_t {
  kMismatch,    // a rank announces an operation differently
  kBadRegion,   // a rank names memory that it does not have
  kCancel,      // ranks take operations back
  kAbsent,      // a rank stops announcing
  kLate,        // a rank announces after the deadline
  kDeath,       // a rank dies at some time
  kDeathOnUse,  // a rank dies while the node moves its bytes
  kGarbage,     // a rank sends bytes that no parser accepts
  kFence,       // a rank fences the node off, then closes its connection
  kLeave,       // a rank closes its session in good order
  kStop,        // a rank falls silent for a while, perhaps for good
  kTransfer,    // pulls and pushes fail
  kDuplicate,   // notices arrive twice
  kFlip,        // notices arrive with a bit turned
};
inline constexpr std::size_t kTroubles = 14;
std::string_view name(Trouble trouble);

struct OpPlan {
  std::uint32_t tag = 0;
  std::uint32_t round = 0;
  protocol::Shape shape;
  std::uint8_t priority = 0;
  std::uint32_t deadline_ms = 0;
  std::uint64_t in_place = 0;  // by rank, a bit each
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
  std::uint32_t troubles = 0;   // bits
  std::uint16_t victim = 0;     // of what befalls one rank
  Nanos when = 0;               // it befalls
  Nanos until = 0;              // it lasts
  bool for_good = false;        // kStop: ends in death
  std::uint64_t checksums = 0;  // by rank, a bit each
  double corruption = 0;        // chance of each pull to bring damaged bytes
  std::size_t after = 0;        // kAbsent, kLate, kLeave: after so many operations
  // In an order in which every rank can announce them within its credit if it goes through them in
  // blocks of `block`.
  std::vector<OpPlan> ops;
  std::size_t block = 1;
  std::uint32_t tags = 1;

  bool has(Trouble trouble) const { return (troubles >> static_cast<int>(trouble) & 1) != 0; }
  bool healthy() const { return troubles == 0; }
};

struct Schedule {
  std::uint64_t seed = 0;
  std::uint32_t shards = 1;
  protocol::Plan plan;
  std::uint64_t tile_bytes = 0;
  std::uint64_t window_bytes = 0;
  std::uint32_t tiles = 1;
  transport::LoopbackConfig loopback;
  double delay = 0;     // of notices, pulls and pushes
  double activity = 1;  // chance of each worker to act when it could
  std::vector<JobPlan> jobs;
};

Schedule make_schedule(std::uint64_t seed);

// One line, for the head of a trace.
std::string describe(const Schedule& schedule);

}  // namespace tally::sim
