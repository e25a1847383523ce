#include "control/node/shards/shard_tasks.h"

#include <asio/post.hpp>
#include <condition_variable>
#include <mutex>
#include <utility>

namespace tally::control {

struct ShardTasks::Task {
  const std::function<void(Transports&)> run;
  // -- protected by State's mutex
  bool begun = false;
  bool done = false;
  bool lacked_memory = false;
};

struct ShardTasks::State {
  std::mutex mutex;
  std::condition_variable changed;
  bool shards_ended = false;
  std::mutex in_place_of_shards;  // held while a task runs on a thread that waited for it

  // False: another thread has begun it, or will never need it.
  bool begin(Task& task) {
    const std::lock_guard lock(mutex);
    return !std::exchange(task.begun, true);
  }
  void end(Task& task, bool within) {
    const std::lock_guard lock(mutex);
    task.lacked_memory = !within;
    task.done = true;
    changed.notify_all();
  }
};

ShardTasks::ShardTasks(asio::io_context& io, ShardSet& shards)
    : io_(io), shards_(shards), state_(std::make_shared<State>()) {}

Outcome ShardTasks::run(std::uint32_t shard, const std::function<void(Transports&)>& task) {
  bool had_memory = false;
  if (within_memory([&] { had_memory = has_run(shard, task); }) && had_memory) return Unit{};
  return Error{Status::kNoMemory, "no memory for a task of a shard"};
}

bool ShardTasks::has_run(std::uint32_t shard, const std::function<void(Transports&)>& task) {
  const auto one = std::make_shared<Task>(Task{.run = task});
  const auto run_here = [state = state_, one](Transports& transports) {
    if (!state->begin(*one)) return;
    state->end(*one, within_memory([&] { one->run(transports); }));
  };
  asio::post(io_, [&shards = shards_, shard, run_here, state = state_, one] {
    const bool passed_on = within_memory([&] {
      shards.on_each(
          [shard, run_here](std::uint32_t index, auto&, Transports& transports) {
            if (index == shard) run_here(transports);
          },
          [] {});
    });
    if (!passed_on && state->begin(*one)) state->end(*one, false);
  });
  std::unique_lock lock(state_->mutex);
  state_->changed.wait(lock, [&] { return one->done || (state_->shards_ended && !one->begun); });
  if (!one->done) {
    lock.unlock();
    {
      const std::lock_guard alone(state_->in_place_of_shards);
      run_here(shards_.transports_of_ended(shard));
    }
    lock.lock();
  }
  return !one->lacked_memory;
}

void ShardTasks::shards_ended() {
  const std::lock_guard lock(state_->mutex);
  state_->shards_ended = true;
  state_->changed.notify_all();
}

}  // namespace tally::control
