// Chooses the next tile. Between owners of jobs, and then between an owner's jobs, it uses weighted
// fair queueing on bytes pulled. Within a job it goes by priority, then by age. It also bounds what
// is in flight. The shard's window bounds the bytes, and Limits::tiles the tiles. While others
// wait, an owner and a job get only their shares of the tiles.
//
// The window bounds the bytes of pulls. It bounds the bytes of pushes separately, by the same
// number. More bytes than a network carries in a few milliseconds would only wait in its queues. A
// full window of pushes keeps results back. Only a full window of such results keeps further tiles
// from starting. So pulls and pushes go on at the same time.
//
// A job that holds the window for long while other jobs wait for it is a slow job. Its bytes and
// tiles count in a pool that slow jobs share, and no longer against the window. Its allowance is
// the number of bytes that it turns over (Turnover) within a time limit that follows from the other
// jobs' turnovers. The allowance is at least kFirstAllowance. The job leaves the pool when its
// allowance reaches the window's size, or after kQuickRounds quick rounds. See
// docs/decisions/0022-slow-tenants.md.
//
// All bounds count for each class by itself. The class is the height of a vertex in its tree
// (vertex.h), less 1. Tiles of one class never keep a tile of another class from starting. So a
// tile waits only for tiles of lower classes, and tiles never wait in a circle
// (docs/decisions/0010-trees.md).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "dataplane/protocol/operations/operation.h"
#include "dataplane/protocol/scheduling/turnover.h"

namespace tally::protocol {

// A job's number on this node. Control gives it.
using JobId = std::uint32_t;

// The user or machine that has opened a job. Control gives the number. A job with kNoOwner counts
// by itself.
using OwnerId = std::uint32_t;
inline constexpr OwnerId kNoOwner = UINT32_MAX;

// 0 for vertices that have only ranks below them, such as stars; 1 for one level more, and so on.
using TileClass = std::uint32_t;

// Slow jobs together have at most this many windows of pulls in flight, and this many times the
// tiles. A job without tiles in flight may start one within these limits. Other tiles start only
// while the pool is less than half full. The rest is for tiles that jobs bring along when they
// become slow.
inline constexpr std::uint32_t kSlowPool = 2;

class TileScheduler {
 public:
  // The bounds of a class.
  struct Limits {
    // In flight: of all jobs' pulls, and of each job's pushes. One tile may always exceed it.
    std::uint64_t window_bytes = 0;
    std::uint32_t tiles = 0;  // in flight
  };

  // An operation that has tiles to start.
  struct Ready {
    std::uint8_t priority;
    std::uint64_t age;
    PoolIndex operation;

    // The order of a heap. Its top goes first.
    bool operator<(const Ready& other) const {
      return priority != other.priority ? priority < other.priority : age > other.age;
    }
  };

  struct Choice {
    JobId job = 0;
    PoolIndex operation = kNone;
  };

  // A job is slow when its turnover is longer than both kTimesOthers times that of the quickest job
  // that waits, and kShortestTimeout. This is long enough for any network in a data centre to
  // carry a window. It is short enough for the jobs that wait.
  static constexpr Nanos kTimesOthers = 4;
  static constexpr Nanos kShortestTimeout = 50 * kMillisecond;
  static constexpr Nanos kReviewEvery = 1 * kMillisecond;

  explicit TileScheduler(const std::vector<Limits>& classes);

  struct JobShare {
    // The weight among the owner's jobs. An owner has one share for all its jobs. A job without an
    // owner counts as an owner with this weight.
    std::uint32_t weight = 1;
    OwnerId owner = kNoOwner;
  };
  // add_job() and reserve() allocate, so they belong to admission and not to the data path.
  void add_job(JobId job, const JobShare& share);
  // `operations` more operations of this class can be ready at once. At most `tiles` tiles of the
  // job may be in flight there.
  void reserve(JobId job, TileClass cls, std::uint32_t operations,
               std::uint32_t tiles = UINT32_MAX);
  // The job begins as a slow job, until its turnover has been short for long enough.
  void on_probation(JobId job);
  void remove_job(JobId job);

  void add(JobId job, TileClass cls, PoolIndex operation, std::uint8_t priority, std::uint64_t age);
  // The operation has no more tiles to start. Does nothing when the operation is not in the queue.
  void remove(JobId job, TileClass cls, PoolIndex operation);

  bool has_ready() const { return ready_queues_ > 0; }
  // Returns the operation whose tile goes next; nothing when none is ready or the bounds are
  // reached.
  std::optional<Choice> next() const;

  // The events of a tile, in this order. It has started. `bytes` of it are being pulled, once for
  // each group. The group's inputs have all come, or will not come. `bytes` are being pushed. They
  // have been pushed, or will not be. The tile has ended. Inputs that have come wait in landing
  // memory for the last input of their group. They count until then, because the windows together
  // are the size of landing memory.
  void started(JobId job, TileClass cls);
  void pulling(JobId job, TileClass cls, std::uint64_t bytes);
  void pulled(JobId job, TileClass cls, std::uint64_t bytes, Nanos now);
  void pushing(JobId job, TileClass cls, std::uint64_t bytes, Nanos now);
  void pushed(JobId job, TileClass cls, std::uint64_t bytes, Nanos now);
  void finished(JobId job, TileClass cls);

  // Returns whether another tile of the job may push now. Only the job's own pushes count, because
  // other jobs must not keep back a result that is there.
  bool may_push(JobId job, TileClass cls) const;
  // keep_back(): a tile's result waits, because the tile may not push yet. let_go(): it no longer
  // waits.
  void keep_back(JobId job, TileClass cls, std::uint64_t bytes);
  void let_go(JobId job, TileClass cls, std::uint64_t bytes);

  // Finds the slow jobs. The caller must call it often, and at next_review().
  void review(Nanos now);
  Nanos next_review() const { return blocked_ ? reviewed_ + kReviewEvery : kForever; }
  bool is_slow(JobId job, TileClass cls) const { return classes_[cls].queues[job].slow; }
  // Returns the bytes that a slow job may have in flight in this class, each way; UINT64_MAX for
  // other jobs.
  std::uint64_t allowance(JobId job, TileClass cls) const;

 private:
  // Bytes in flight. One tile may always go.
  struct Flight {
    std::uint64_t bytes = 0;

    bool fills(std::uint64_t window) const { return bytes > 0 && bytes >= window; }
  };

  // Tiles in flight, and the bytes that they pull.
  struct Pool {
    Flight pulls;
    std::uint32_t tiles = 0;

    void add(const Pool& other);
    void subtract(const Pool& other);
    bool has_room(const Limits& limits, std::uint64_t times = 1) const {
      return tiles < times * limits.tiles && !pulls.fills(times * limits.window_bytes);
    }
  };

  // A job's operations of one class.
  struct Queue {
    std::uint32_t most = UINT32_MAX;  // tiles that may be in flight
    Pool pool;                        // the job's part of the class's pool
    Flight pushes;
    Flight kept_back;          // results that wait to be pushed
    std::vector<Ready> ready;  // a heap
    std::uint32_t place = 0;   // index in Class::ready
    Turnover turnover;
    bool slow = false;
    std::uint64_t allowance = 0;  // bytes that a slow job may have in flight, each way
    std::uint32_t quick_rounds = 0;
    std::uint64_t last_start = 0;  // number of the start of its latest tile as a slow job
  };

  struct Job {
    std::uint32_t weight = 0;        // 0: no such job
    std::uint32_t owner = 0;         // index in owners_
    std::uint32_t ready_queues = 0;  // queues with ready operations
    std::uint64_t served = 0;        // bytes over weight: virtual time within its owner
  };

  struct Owner {
    OwnerId id = kNoOwner;
    std::uint32_t weight = 1;
    std::uint32_t jobs = 0;  // 0: the entry is free
    std::uint32_t ready_queues = 0;
    std::uint64_t served = 0;        // bytes over weight: virtual time
    std::uint64_t virtual_time = 0;  // of the job that was served last
    std::uint64_t last_slow_start = 0;
  };

  // The owners, or an owner's jobs, that have ready operations and are not slow. They share the
  // tiles.
  struct Waiting {
    std::uint32_t count = 0;
    std::uint64_t weight = 0;
    std::uint32_t tiles = 0;  // of an owner: tiles in flight
  };

  struct Class {
    Limits limits;
    Pool quick;
    Pool slow;
    Nanos timeout = kForever;  // the longest round of a slow job that keeps its allowance
    std::uint32_t slow_jobs = 0;
    Waiting owners;
    std::vector<Waiting> jobs_of;  // by owner
    std::vector<Queue> queues;     // by job
    std::vector<JobId> ready;      // jobs whose queues have ready operations
  };

  std::uint32_t owner_of(const JobShare& share);
  bool may_start(const Class& cls, JobId job) const;
  bool within_share(const Class& cls, JobId job) const;
  bool goes_before(JobId job, const Queue& queue, JobId best_job, const Queue& best) const;
  void catch_up(Job& job);
  void count_waiting(Class& cls, JobId job, bool waits);
  static Pool& pool_of(Class& cls, const Queue& queue) { return queue.slow ? cls.slow : cls.quick; }

  // Slow jobs (slow_jobs.cc).
  Nanos reach(Nanos now);
  void review(Class& cls);
  void give(TileClass cls, JobId job, std::uint64_t bytes, Nanos now);
  void adapt(Class& cls, JobId job);
  void move(Class& cls, JobId job, bool to_slow);

  std::vector<Class> classes_;
  std::vector<Job> jobs_;
  std::vector<Owner> owners_;
  std::uint64_t virtual_time_ = 0;  // of the owner that was served last
  std::uint32_t ready_queues_ = 0;
  std::uint64_t slow_starts_ = 0;
  // A clock that counts at most 10 ms of a time in which the shard itself stands still. Such time
  // is not held against jobs.
  Nanos clock_ = 0;
  Nanos reached_ = 0;   // the caller's time at the last advance of clock_
  Nanos reviewed_ = 0;  // the caller's time of the last review
  bool blocked_ = false;
};

}  // namespace tally::protocol
