// Tasks for a shard, from the control thread: how state that the shard owns is changed without a
// lock. Wakes a sleeping shard.
#pragma once

#include <functional>
#include <vector>

#include "base/fd.h"
#include "base/ring.h"

namespace tally::engine {

class Mailbox {
 public:
  Mailbox();
  ~Mailbox();
  Mailbox(const Mailbox&) = delete;
  Mailbox& operator=(const Mailbox&) = delete;

  // One thread, the control thread. Waits, yielding, for a place when the shard is far behind.
  void post(std::function<void()> task);

  // The shard's thread: runs what is there; returns how many.
  std::size_t run();

  // The shard's thread, before a sleep: false when there is a task already.
  bool arm();
  void disarm();
  int fd() const { return event_.get(); }

 private:
  RingIndices indices_;
  std::vector<RingSlot> slots_;
  RingProducer producer_;
  RingConsumer consumer_;
  alignas(kCacheLine) std::atomic<bool> sleeping_{false};
  UniqueFd event_;
};

}  // namespace tally::engine
