// Which tile is next. Between jobs: weighted fair queueing on bytes pulled. Within a job: priority,
// then age. Bounds what is in flight: bytes by windows, of the shard and of each job, tiles by the
// slots, and a job to its share of the slots while others wait.
//
// A window bounds pulls, and pushes by as much again. More in flight than a network carries in a
// few milliseconds would only wait in its queues, and those who pull more from a worker than others
// get more of its link: windows in proportion to the weights of trees divide links as the plan
// does.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "dataplane/protocol/operation.h"

namespace tally::protocol {

// A job's number on this node, given by control.
using JobSlot = std::uint32_t;

class TileScheduler {
 public:
  struct Limits {
    std::uint64_t window_bytes = 0;  // in flight each way; one tile may always go
    std::uint32_t tiles = 0;         // tile slots of the shard
  };

  struct Choice {
    JobSlot job = 0;
    Slot operation = kNone;
  };

  explicit TileScheduler(Limits limits) : limits_(limits) {}

  // `operations`: how many can be ready at once. `window_bytes`: as the limit, of this job alone.
  // Allocates; for admission, not for the path.
  void add_job(JobSlot job, std::uint32_t weight, std::uint32_t operations,
               std::uint64_t window_bytes = UINT64_MAX);
  void remove_job(JobSlot job);

  void add(JobSlot job, Slot operation, std::uint8_t priority, std::uint64_t age);
  // The operation has no more tiles to start. Does nothing when it is not there.
  void remove(JobSlot job, Slot operation);

  // The operation whose tile goes next; nothing when none is ready or the bounds are reached.
  std::optional<Choice> next() const;

  // A tile was started, with so many bytes to pull; these have come, or will not; so many are being
  // pushed; have been, or will not be; it has ended.
  void started(JobSlot job, std::uint64_t bytes);
  void pulled(JobSlot job, std::uint64_t bytes);
  void pushing(JobSlot job, std::uint64_t bytes);
  void pushed(JobSlot job, std::uint64_t bytes);
  void finished(JobSlot job);

  std::uint32_t tiles_in_flight() const { return tiles_; }

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

  struct Job {
    std::uint32_t weight = 0;  // 0: no such job
    std::uint32_t tiles = 0;
    std::uint64_t window_bytes = UINT64_MAX;
    Flight flight;
    std::uint64_t served = 0;  // bytes over weight: virtual time
    std::vector<Ready> ready;  // a heap
  };

  bool has_room_for(const Job& job) const;

  Limits limits_;
  std::vector<Job> jobs_;
  std::uint64_t virtual_time_ = 0;  // of the job served last
  Flight flight_;
  std::uint32_t tiles_ = 0;
  std::uint32_t ready_jobs_ = 0;
  std::uint64_t ready_weight_ = 0;
};

}  // namespace tally::protocol
