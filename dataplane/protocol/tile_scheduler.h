// Which tile is next. Between jobs: weighted fair queueing on bytes pulled. Within a job: priority,
// then age. Bounds what is in flight: bytes by windows, of the shard and of each job, tiles by the
// slots, and a job to its share of the slots while others wait.
//
// A window bounds pulls, and pushes by as much again. More in flight than a network carries in a
// few milliseconds would only wait in its queues, and those who pull more from a worker than others
// get more of its link: windows in proportion to the weights of trees divide links as the plan
// does.
//
// All bounds are counted by class, the height of a vertex in its tree (vertex.h), and none of one
// class keeps a tile of another from going: a tile waits only for tiles of lower classes, so there
// is no circle of them (docs/decisions/0010-trees.md).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "dataplane/protocol/operation.h"

namespace tally::protocol {

// A job's number on this node, given by control.
using JobSlot = std::uint32_t;

// 0: stars, and vertices that have nothing but ranks below them; 1: one level more; and so on.
using TileClass = std::uint32_t;

class TileScheduler {
 public:
  // Of a class.
  struct Limits {
    std::uint64_t window_bytes = 0;  // in flight each way; one tile may always go
    std::uint32_t tiles = 0;         // tile slots of the shard
  };

  struct Choice {
    JobSlot job = 0;
    Slot operation = kNone;
  };

  explicit TileScheduler(const std::vector<Limits>& classes);

  // `window_bytes`: as the limit, of this job alone. Allocates, as does reserve(): for admission,
  // not for the path.
  void add_job(JobSlot job, std::uint32_t weight, std::uint64_t window_bytes = UINT64_MAX);
  // So many more operations of this class can be ready at once, and at most `tiles` tiles of the
  // job may be in flight there.
  void reserve(JobSlot job, TileClass cls, std::uint32_t operations,
               std::uint32_t tiles = UINT32_MAX);
  void remove_job(JobSlot job);

  void add(JobSlot job, TileClass cls, Slot operation, std::uint8_t priority, std::uint64_t age);
  // The operation has no more tiles to start. Does nothing when it is not there.
  void remove(JobSlot job, TileClass cls, Slot operation);

  // The operation whose tile goes next; nothing when none is ready or the bounds are reached.
  std::optional<Choice> next() const;

  // A tile was started, with so many bytes to pull; all of these have come, or will not; so many
  // are being pushed; have been, or will not be; it has ended. Inputs that have come wait in
  // landing memory for the last one of their tile, and that memory is what the windows together
  // are: they are counted as long as they are there.
  void started(JobSlot job, TileClass cls, std::uint64_t bytes);
  void pulled(JobSlot job, TileClass cls, std::uint64_t bytes);
  void pushing(JobSlot job, TileClass cls, std::uint64_t bytes);
  void pushed(JobSlot job, TileClass cls, std::uint64_t bytes);
  void finished(JobSlot job, TileClass cls);

 private:
  struct Ready {
    std::uint8_t priority;
    std::uint64_t age;
    Slot operation;

    // Heap order: the top is what goes first.
    bool operator<(const Ready& other) const {
      return priority != other.priority ? priority < other.priority : age > other.age;
    }
  };

  // Bytes on their way.
  struct Flight {
    std::uint64_t pulls = 0;
    std::uint64_t pushes = 0;

    bool fills(std::uint64_t window) const {
      return (pulls > 0 && pulls >= window) || (pushes > 0 && pushes >= window);
    }
  };

  // A job's operations of one class.
  struct Lane {
    std::uint32_t most = UINT32_MAX;  // tiles in flight
    std::uint32_t tiles = 0;
    Flight flight;
    std::vector<Ready> ready;  // a heap
  };

  struct Job {
    std::uint32_t weight = 0;       // 0: no such job
    std::uint32_t ready_lanes = 0;  // that have something ready
    std::uint64_t window_bytes = UINT64_MAX;
    std::uint64_t served = 0;  // bytes over weight: virtual time
  };

  struct Class {
    Limits limits;
    Flight flight;
    std::uint32_t tiles = 0;
    std::uint32_t ready_jobs = 0;
    std::uint64_t ready_weight = 0;
    std::vector<Lane> lanes;  // by job

    bool has_room() const { return tiles < limits.tiles && !flight.fills(limits.window_bytes); }
    bool has_room_for(const Lane& lane, const Job& job) const;
  };

  std::vector<Class> classes_;
  std::vector<Job> jobs_;
  std::uint64_t virtual_time_ = 0;  // of the job served last
  std::uint32_t ready_lanes_ = 0;
};

}  // namespace tally::protocol
