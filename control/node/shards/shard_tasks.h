// Lets a thread that may block run a task on the thread of a shard, and wait for it. The control
// thread passes the task on.
#pragma once

#include <asio/io_context.hpp>
#include <cstdint>
#include <functional>
#include <memory>

#include "base/result.h"
#include "control/node/shards/shard_set.h"

namespace tally::control {

class ShardTasks {
 public:
  // io is the control thread's loop; both are borrowed.
  ShardTasks(asio::io_context& io, ShardSet& shards);

  // Returns when the task has run; kNoMemory when it ran out of memory. Any thread but the control
  // thread and those of shards, unless shards_ended() was called.
  Outcome run(std::uint32_t shard, const std::function<void(Transports&)>& task);
  // No shard runs any more. From here on tasks run on the threads that ask for them, also those
  // that wait already. Control thread.
  void shards_ended();

 private:
  struct Task;
  struct State;

  // False: it ran out of memory.
  bool has_run(std::uint32_t shard, const std::function<void(Transports&)>& task);

  asio::io_context& io_;
  ShardSet& shards_;
  const std::shared_ptr<State> state_;
};

}  // namespace tally::control
