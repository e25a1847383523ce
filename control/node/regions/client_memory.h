// Memory of clients on this machine. Threads of its own map, populate and unmap it, because that
// takes a second for some GiB. Sessions take turns, so a small region does not wait for a large one
// of another session.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/system/fd.h"
#include "control/threads/fair_thread.h"
#include "dataplane/transport/shm/fault_guard.h"
#include "dataplane/transport/shm/memory.h"

namespace tally::control {

// Memory mapped from a peer, which may still take it away.
struct PeerMemory {
  PeerMemory() = default;
  PeerMemory(Mapping mapped, transport::shm::FaultWord& faulted)
      : mapping(std::move(mapped)), guard({mapping.data(), mapping.size()}, faulted) {}

  void reset() {
    guard.reset();
    mapping.reset();
  }

  Mapping mapping;
  transport::shm::FaultGuard guard;
};

// The calls that do the work; tests replace them by slow ones.
struct MemoryCalls {
  std::function<Result<Mapping>(int fd, std::size_t bytes)> map = [](int fd, std::size_t bytes) {
    return transport::shm::map_peer(fd, bytes, "region");
  };
  std::function<void(std::span<std::byte>)> populate = transport::shm::populate;
  std::function<void(std::span<std::byte>)> depopulate = transport::shm::depopulate;
};

class ClientMemory {
 public:
  // Identifies a session; unique among all sessions of the node, past and present.
  using Owner = FairThread::Owner;

  ClientMemory(asio::io_context& io, MemoryCalls calls)
      : calls_(std::move(calls)), mapper_(io), unmapper_(io) {}

  // A mapping in progress. The threads borrow the request until they have called `then`.
  struct Request {
    UniqueFd fd;
    std::uint64_t bytes = 0;
    transport::shm::FaultWord* faulted = nullptr;  // borrowed while the memory lives
    // The control thread sets it when the memory is no longer wanted; the threads then populate no
    // more of it.
    std::atomic<bool> given_up{false};
    Outcome outcome = Unit{};
    PeerMemory memory;
  };
  void map(Owner owner, const std::shared_ptr<Request>& request, WorkDone then);

  // Calls `then` when no mapping of the owner is in progress.
  void after_mapping(Owner owner, std::function<void()> then);
  // Unmaps the memory, then calls `then`. Precondition: no thread touches the memory any more.
  void unmap(Owner owner, std::vector<PeerMemory> memory, std::function<void()> then);

 private:
  const MemoryCalls calls_;
  // Unmapping the last reference to a dead client's memory frees it, and that step cannot be
  // divided into slices. unmapper_ unmaps large memory. mapper_ maps all memory and unmaps small
  // memory. So neither the mapping of a region nor the end of a small one waits for the end of a
  // large one.
  FairThread mapper_;
  FairThread unmapper_;
};

}  // namespace tally::control
