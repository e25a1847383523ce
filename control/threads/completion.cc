#include "control/threads/completion.h"

#include <asio/post.hpp>
#include <utility>

namespace tally::control {

template <typename T>
struct Completion::Allocator {
  using value_type = T;  // NOLINT(readability-identifier-naming): the standard's name

  explicit Allocator(Completion& completion) : owner(&completion) {}
  template <typename U>
  Allocator(const Allocator<U>& other) : owner(other.owner) {}

  T* allocate(std::size_t count) const {
    if (count * sizeof(T) > sizeof owner->memory_) throw std::bad_alloc();
    return reinterpret_cast<T*>(owner->memory_.data());
  }
  void deallocate(T*, std::size_t) const {}
  template <typename U>
  bool operator==(const Allocator<U>& other) const {
    return owner == other.owner;
  }

  Completion* owner;
};

// asio moves the handler out of the memory before it frees that memory, and then calls the handler.
struct Completion::Handler {
  // The name is the standard's. NOLINTNEXTLINE(readability-identifier-naming)
  using allocator_type = Allocator<std::byte>;

  allocator_type get_allocator() const { return allocator_type(*completion); }
  void operator()() const {
    const bool failed = completion->failed_.load(std::memory_order_relaxed);
    const WorkDone then = std::move(completion->then_);  // its captures end on this thread
    then(failed ? Outcome(Error{Status::kNoMemory, "no memory"}) : Outcome(Unit{}));
  }

  std::shared_ptr<Completion> completion;
};

// The queue's lock makes everything before the post happen before the call.
void Completion::post() noexcept {
  asio::post(io_, Handler{shared_from_this()});
}

}  // namespace tally::control
