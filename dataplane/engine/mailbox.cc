#include "dataplane/engine/mailbox.h"

#include <sched.h>
#include <sys/eventfd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <system_error>

namespace tally::engine {
namespace {

constexpr std::size_t kSlots = 256;
using Task = std::function<void()>;

Task* task_in(const RingSlot& slot) {
  Task* task = nullptr;
  std::memcpy(&task, slot.bytes, sizeof task);
  return task;
}

}  // namespace

Mailbox::Mailbox()
    : slots_(kSlots),
      producer_(indices_, slots_),
      consumer_(indices_, slots_),
      event_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  if (!event_) throw std::system_error(errno, std::generic_category(), "eventfd for a shard");
}

Mailbox::~Mailbox() {
  RingSlot slot;
  while (consumer_.pop({&slot, 1}) > 0) delete task_in(slot);
}

void Mailbox::post(Task task) {
  auto owned = std::make_unique<Task>(std::move(task));
  Task* raw = owned.get();
  RingSlot slot{};
  std::memcpy(slot.bytes, &raw, sizeof raw);
  while (!producer_.push(slot)) ::sched_yield();
  static_cast<void>(owned.release());  // the ring's now; run() frees it
  // Pairs with the exchange in arm(). One of the two comes first: if this one, the shard's acquires
  // the task; else this one sees that the shard sleeps. (Exchanges, since ThreadSanitizer does not
  // understand fences.)
  if (sleeping_.exchange(false, std::memory_order_acq_rel)) {
    const std::uint64_t one = 1;
    static_cast<void>(!::write(event_.get(), &one, sizeof one));  // full: it is awake anyway
  }
}

std::size_t Mailbox::run() {
  RingSlot slot;
  std::size_t ran = 0;
  while (consumer_.pop({&slot, 1}) > 0) {
    const std::unique_ptr<Task> task(task_in(slot));
    (*task)();
    ++ran;
  }
  return ran;
}

bool Mailbox::arm() {
  sleeping_.exchange(true, std::memory_order_acq_rel);  // pairs with the one in post()
  return consumer_.empty();
}

void Mailbox::disarm() {
  sleeping_.store(false, std::memory_order_relaxed);
  std::uint64_t count = 0;
  static_cast<void>(!::read(event_.get(), &count, sizeof count));  // nothing there is fine
}

}  // namespace tally::engine
