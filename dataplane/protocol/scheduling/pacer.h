// Lets the roots of trees start tiles at the pace that the plan gives them. Trees of one operation
// share links. Without a pace, trees that are quick at the beginning fill the links' queues, the
// others fall behind, and at the end they run alone. After a pause each tree continues at a phase
// of its own, so that the tiles of all trees do not reach a link together.
//
// A plan may know less than the network can carry. So a root goes faster for as long as it has few
// tiles in flight, and back to the plan's pace when tiles pile up. A plan may also know too much.
// So a root has at most kMostTiles tiles in flight for each level of its tree. See
// docs/decisions/0041-the-pace-of-a-plan.md.
//
// An operation whose root is not due is *held*: it leaves the TileScheduler until then. Of a root's
// held operations one at a time returns, in the scheduler's order. It belongs to the shard's
// thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/clock.h"
#include "dataplane/protocol/scheduling/tile_scheduler.h"

namespace tally::protocol {

class Pacer {
 public:
  // A root may make up for this much lost time, or for one tile. Threads often wake up late.
  static constexpr Nanos kCatchUp = 5 * kMillisecond;
  // For each level of the tree. Where links are slow, 16 tiles are what the pace carries in 320 ms.
  // Trees of two levels had up to 30 tiles in flight there (docs/perf.md).
  static constexpr std::uint32_t kMostTiles = 16;

  struct Root {
    JobId job = 0;
    std::uint32_t vertex = 0;            // its number in the job
    std::uint32_t tree = 0;              // of the partition
    std::uint32_t height = 1;            // of the vertex
    std::uint64_t bytes_per_second = 0;  // of the operation; 0: without a pace
    std::uint32_t operations = 1;        // the most that may be held
  };

  // Both belong to admission, not to the data path. add() allocates; when it throws, remove_job()
  // undoes it.
  void add(const Root& root);
  void remove_job(JobId job);

  // The time has come to `now`. It never goes back.
  void reach(Nanos now) { now_ = now; }
  // Whether the vertex may start a tile.
  bool is_due(JobId job, std::uint32_t vertex) const;
  // Precondition: !is_due().
  void hold(JobId job, std::uint32_t vertex, const TileScheduler::Ready& operation);
  // The operation has no more tiles to start. Does nothing when it is not held.
  void remove(JobId job, std::uint32_t vertex, PoolIndex operation);

  // A tile of this many bytes of the operation has started. It has ended.
  void started(JobId job, std::uint32_t vertex, std::uint64_t bytes);
  void ended(JobId job, std::uint32_t vertex);

  // When false, release() gives nothing back.
  bool has_held() const { return !waiting_.empty(); }
  // Calls back(job, vertex, operation) for the first held operation of each root that is due.
  template <typename Back>
  void release(Back back) {
    for (std::size_t i = waiting_.size(); i-- > 0;) {
      const auto [job, vertex] = waiting_[i];
      if (is_due(job, vertex)) back(job, vertex, take(i));
    }
  }
  Nanos next_release() const;

 private:
  static constexpr Nanos kLongAgo = kForever / 2;

  // A root with a pace.
  struct Paced {
    double nanos_per_byte = 0;  // 0: without a pace
    std::uint32_t few = 2;      // so many tiles in flight do not wait in queues
    std::uint32_t most = 0;     // tiles in flight
    std::uint32_t tiles = 0;    // in flight
    double speed = 1;           // in multiples of the pace; at least 1
    double phase = 0;           // in [0, 1), different for each tree
    bool waited = false;        // an operation was held until now, so a late start is no pause
    Nanos due = -kLongAgo;
    std::vector<TileScheduler::Ready> held;  // a heap
  };
  struct Place {
    JobId job;
    std::uint32_t vertex;
  };

  Paced* find(JobId job, std::uint32_t vertex);
  const Paced* find(JobId job, std::uint32_t vertex) const;
  TileScheduler::Ready take(std::size_t waiting);
  static void go_faster(Paced& root);

  std::vector<std::vector<Paced>> roots_;  // by job, and by vertex
  std::vector<Place> waiting_;             // roots that hold operations
  std::size_t roots_with_pace_ = 0;
  Nanos now_ = 0;
};

}  // namespace tally::protocol
