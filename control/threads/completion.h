// A call to the control thread that needs no memory when it is sent. The memory is allocated when
// the work is requested, because a lack of memory can still be reported then.
#pragma once

#include <array>
#include <asio/io_context.hpp>
#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <new>
#include <stdexcept>
#include <utility>

#include "base/result.h"

namespace tally::control {

// Receives the result of work that may run out of memory: success, or kNoMemory.
using WorkDone = std::function<void(const Outcome&)>;

// Calls `work`. Returns false when it ran out of memory, or asked for a vector longer than
// max_size().
template <typename Work>
bool within_memory(const Work& work) {
  try {
    work();
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  } catch (const std::length_error&) {
    return false;
  }
}

// Runs the action in the destructor unless keep() was called. It reverses earlier steps when memory
// runs out in a later step.
template <typename Action>
class Undo {
 public:
  explicit Undo(Action action) : action_(std::move(action)) {}
  ~Undo() {
    if (!kept_) action_();
  }
  Undo(const Undo&) = delete;
  Undo& operator=(const Undo&) = delete;

  void keep() { kept_ = true; }

 private:
  Action action_;
  bool kept_ = false;
};

class Completion : public std::enable_shared_from_this<Completion> {
 public:
  // io is the control thread's loop, borrowed.
  Completion(asio::io_context& io, WorkDone then) : io_(io), then_(std::move(then)) {}

  // Records that the work ran out of memory. Any thread, before post().
  void set_failed() noexcept { failed_.store(true, std::memory_order_relaxed); }
  // Calls `then` on the control thread. Any thread, once.
  void post() noexcept;

 private:
  struct Handler;
  template <typename T>
  struct Allocator;

  asio::io_context& io_;
  WorkDone then_;
  std::atomic<bool> failed_{false};
  // The memory that asio needs for one queued handler.
  alignas(std::max_align_t) std::array<std::byte, 256> memory_;
};

}  // namespace tally::control
