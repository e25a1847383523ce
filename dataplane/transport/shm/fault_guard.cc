#include "dataplane/transport/shm/fault_guard.h"

#include <sched.h>
#include <signal.h>
#include <sys/mman.h>

#include <array>
#include <cerrno>
#include <memory>
#include <mutex>
#include <system_error>
#include <utility>
#include <vector>

namespace tally::transport::shm {

// A handler may read an entry at any moment, while the guard's owner changes it. So the handler
// holds the entry first: it increments `handlers`, then reads `live`. The owner of the guard clears
// `live`, then waits until `handlers` is 0. Both are sequentially consistent, so one of the two
// sees the other. An entry that a handler has found live stays unchanged and mapped until the
// handler lets go of it.
struct FaultGuard::Entry {
  std::atomic<std::uint32_t> handlers{0};  // number that hold it, or check whether they may
  // The fields below are written while live is false and no handler holds the entry.
  std::atomic<bool> live{false};
  std::atomic<std::uintptr_t> begin{0};
  std::atomic<std::uintptr_t> end{0};
  std::atomic<FaultWord*> faulted{nullptr};
};

namespace {

// A list that only grows, so that a handler can walk it at any moment without a lock.
struct Chunk {
  std::array<FaultGuard::Entry, 64> entries;
  Chunk* next = nullptr;
};
std::atomic<Chunk*> chunks{nullptr};
static_assert(std::atomic<Chunk*>::is_always_lock_free && FaultWord::is_always_lock_free &&
                  std::atomic<bool>::is_always_lock_free &&
                  std::atomic<std::uintptr_t>::is_always_lock_free,
              "used in a signal handler");

std::atomic<void (*)(FaultStep)> watcher{nullptr};

void pass(FaultStep step) {
  if (auto* seen = watcher.load(std::memory_order_acquire)) seen(step);
}

// The free entries. Threads that make guards use them, the handler does not.
struct FreeEntries {
  std::mutex mutex;
  std::vector<FaultGuard::Entry*> entries;
};
FreeEntries& free_entries() {
  static auto* free = new FreeEntries;  // outlives every guard
  return *free;
}

FaultGuard::Entry* take_entry() {
  FreeEntries& free = free_entries();
  const std::lock_guard lock(free.mutex);
  if (free.entries.empty()) {
    auto chunk = std::make_unique<Chunk>();
    for (auto& entry : chunk->entries) free.entries.push_back(&entry);
    chunk->next = chunks.load(std::memory_order_relaxed);
    chunks.store(chunk.release(), std::memory_order_release);
  }
  FaultGuard::Entry* entry = free.entries.back();
  free.entries.pop_back();
  return entry;
}

bool covers(const FaultGuard::Entry& entry, std::uintptr_t address) {
  return address >= entry.begin.load(std::memory_order_relaxed) &&
         address < entry.end.load(std::memory_order_relaxed);
}

// Replaces the mapping of an entry that the handler holds. Sets the word first, so that every
// thread that reads zeros of the new pages finds the word set afterwards.
bool replace(const FaultGuard::Entry& entry) {
  pass(FaultStep::kHeld);
  entry.faulted.load(std::memory_order_relaxed)->store(1, std::memory_order_seq_cst);
  const std::uintptr_t begin = entry.begin.load(std::memory_order_relaxed);
  // Replaces all of it, because a peer that removes every page would cause a signal for each.
  void* replaced = ::mmap(reinterpret_cast<void*>(begin),
                          entry.end.load(std::memory_order_relaxed) - begin, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
  pass(FaultStep::kReplaced);
  return replaced != MAP_FAILED;
}

// Returns true when the entry is that of the mapping that has faulted, and the mapping has been
// replaced. What a handler reads of an entry before it holds it may be of two owners, so it is only
// a hint. The wanted entry does not change, because its owner does not let go of memory that a
// thread is touching.
bool survive(FaultGuard::Entry& entry, std::uintptr_t address) {
  if (!covers(entry, address)) return false;
  entry.handlers.fetch_add(1, std::memory_order_seq_cst);
  const bool held = entry.live.load(std::memory_order_seq_cst) && covers(entry, address);
  const bool survived = held && replace(entry);
  // Release: reset() continues after all of the above.
  entry.handlers.fetch_sub(1, std::memory_order_release);
  return survived;
}

// Runs on the thread that touched the memory. Async-signal-safe.
void on_fault(int number, siginfo_t* info, void*) {
  const int saved = errno;
  const auto address = reinterpret_cast<std::uintptr_t>(info->si_addr);
  bool survived = false;
  for (Chunk* chunk = chunks.load(std::memory_order_acquire); chunk != nullptr && !survived;
       chunk = chunk->next) {
    for (FaultGuard::Entry& entry : chunk->entries) {
      survived = survived || survive(entry, address);
    }
  }
  // The processor repeats the access: now it succeeds, or it ends the process.
  if (!survived) ::signal(number, SIG_DFL);
  errno = saved;
}

}  // namespace

void survive_memory_faults() {
  struct sigaction action {};
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO;
  if (::sigaction(SIGBUS, &action, nullptr) != 0) {
    throw std::system_error(errno, std::generic_category(), "a handler for SIGBUS");
  }
}

void watch_faults(void (*seen)(FaultStep)) {
  watcher.store(seen, std::memory_order_release);
}

FaultGuard::FaultGuard(std::span<std::byte> mapping, FaultWord& faulted) : entry_(take_entry()) {
  const auto begin = reinterpret_cast<std::uintptr_t>(mapping.data());
  entry_->faulted.store(&faulted, std::memory_order_relaxed);
  entry_->begin.store(begin, std::memory_order_relaxed);
  entry_->end.store(begin + mapping.size(), std::memory_order_relaxed);
  entry_->live.store(true, std::memory_order_seq_cst);
}

FaultGuard::FaultGuard(FaultGuard&& other) noexcept
    : entry_(std::exchange(other.entry_, nullptr)) {}

FaultGuard& FaultGuard::operator=(FaultGuard&& other) noexcept {
  reset();
  entry_ = std::exchange(other.entry_, nullptr);
  return *this;
}

void FaultGuard::reset() {
  if (entry_ == nullptr) return;
  entry_->live.store(false, std::memory_order_seq_cst);
  // A handler that was first needs one or two more system calls. Sequentially consistent: this read
  // pairs with a handler's increment and its read of `live`, and acquires what the handler did.
  while (entry_->handlers.load(std::memory_order_seq_cst) != 0) ::sched_yield();
  entry_->end.store(0, std::memory_order_relaxed);  // handlers skip it
  FreeEntries& free = free_entries();
  const std::lock_guard lock(free.mutex);
  free.entries.push_back(std::exchange(entry_, nullptr));
}

}  // namespace tally::transport::shm
