#include "dataplane/transport/shm/fault_guard.h"

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

// `begin` is 0 while nobody uses the entry; it is written last and cleared first.
struct FaultGuard::Entry {
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
static_assert(std::atomic<Chunk*>::is_always_lock_free && FaultWord::is_always_lock_free,
              "used in a signal handler");

// Which entries are free: for those who make guards, not for the handler.
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

bool replace(const FaultGuard::Entry& entry, std::uintptr_t address) {
  const std::uintptr_t begin = entry.begin.load(std::memory_order_acquire);
  const std::uintptr_t end = entry.end.load(std::memory_order_relaxed);
  if (begin == 0 || address < begin || address >= end) return false;
  // All of it: a peer that punches every page would otherwise cost a signal for each.
  void* replaced = ::mmap(reinterpret_cast<void*>(begin), end - begin, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
  if (replaced == MAP_FAILED) return false;
  entry.faulted.load(std::memory_order_relaxed)->store(1, std::memory_order_release);
  return true;
}

// On the thread that touched the memory; async-signal-safe.
void on_fault(int number, siginfo_t* info, void*) {
  const int saved = errno;
  const auto address = reinterpret_cast<std::uintptr_t>(info->si_addr);
  bool survived = false;
  for (Chunk* chunk = chunks.load(std::memory_order_acquire); chunk != nullptr && !survived;
       chunk = chunk->next) {
    for (const FaultGuard::Entry& entry : chunk->entries) {
      survived = survived || replace(entry, address);
    }
  }
  // The access is made again: now it succeeds, or ends the process.
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

FaultGuard::FaultGuard(std::span<std::byte> mapping, FaultWord& faulted) : entry_(take_entry()) {
  const auto begin = reinterpret_cast<std::uintptr_t>(mapping.data());
  entry_->faulted.store(&faulted, std::memory_order_relaxed);
  entry_->end.store(begin + mapping.size(), std::memory_order_relaxed);
  entry_->begin.store(begin, std::memory_order_release);
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
  entry_->begin.store(0, std::memory_order_release);
  FreeEntries& free = free_entries();
  const std::lock_guard lock(free.mutex);
  free.entries.push_back(std::exchange(entry_, nullptr));
}

}  // namespace tally::transport::shm
