// A queue of tasks from the control thread to a shard. Tasks change the shard's state without a
// lock, because they run on the shard's thread. A task wakes a sleeping shard.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "base/containers/ring.h"
#include "base/system/fd.h"

namespace tally::engine {

class Mailbox {
 public:
  Mailbox();
  ~Mailbox();
  Mailbox(const Mailbox&) = delete;
  Mailbox& operator=(const Mailbox&) = delete;

  using Task = std::function<void()>;
  using OwnedTask = std::unique_ptr<Task>;

  // Only the control thread calls this. Waits, yielding the core, while the queue is full because
  // the shard is far behind. Allocates no memory.
  void post(OwnedTask task) noexcept;

  // The shard's thread: runs the waiting tasks and returns how many it ran.
  std::size_t run();

  // The shard's thread calls this before it sleeps. Returns false when a task is already waiting.
  bool arm();
  void disarm();
  int fd() const { return event_.get(); }

 private:
  RingIndices indices_;
  std::vector<RingEntry> entries_;
  RingProducer producer_;
  RingConsumer consumer_;
  alignas(kCacheLine) std::atomic<bool> sleeping_{false};
  UniqueFd event_;
};

}  // namespace tally::engine
