#include "dataplane/engine/mailbox.h"

#include <sched.h>
#include <sys/eventfd.h>

#include <cerrno>
#include <cstring>
#include <system_error>

namespace tally::engine {
namespace {

constexpr std::size_t kEntries = 256;
using Task = Mailbox::Task;

Task* task_in(const RingEntry& entry) {
  Task* task = nullptr;
  std::memcpy(&task, entry.bytes, sizeof task);
  return task;
}

}  // namespace

Mailbox::Mailbox()
    : entries_(kEntries),
      producer_(indices_, entries_),
      consumer_(indices_, entries_),
      event_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  if (!event_) throw std::system_error(errno, std::generic_category(), "eventfd for a shard");
}

Mailbox::~Mailbox() {
  RingEntry entry;
  while (consumer_.pop({&entry, 1}) > 0) delete task_in(entry);
}

void Mailbox::post(OwnedTask task) noexcept {
  Task* raw = task.get();
  RingEntry entry{};
  std::memcpy(entry.bytes, &raw, sizeof raw);
  while (!producer_.push(entry)) ::sched_yield();
  static_cast<void>(task.release());  // the ring owns it now; run() frees it
  // Pairs with the exchange in arm(). When this one is first, the shard's exchange acquires the
  // task. Otherwise this one sees that the shard sleeps. (Both are exchanges, because
  // ThreadSanitizer does not support fences.)
  if (sleeping_.exchange(false, std::memory_order_acq_rel)) {
    const std::uint64_t one = 1;
    static_cast<void>(!::write(event_.get(), &one, sizeof one));  // full: the shard wakes anyway
  }
}

std::size_t Mailbox::run() {
  RingEntry entry;
  std::size_t ran = 0;
  while (consumer_.pop({&entry, 1}) > 0) {
    const std::unique_ptr<Task> task(task_in(entry));
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
  static_cast<void>(!::read(event_.get(), &count, sizeof count));  // it may have nothing to read
}

}  // namespace tally::engine
