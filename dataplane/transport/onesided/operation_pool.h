// The operations on peers' memory, from the request of the shard until the end of the operation. An
// entry keeps its address as long as the pool exists, because a provider identifies a request by
// its address. The pool uses free entries again, so it allocates only when more operations are open
// than ever before. An entry that is given back returns the memory that its operation used.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "base/view.h"
#include "dataplane/transport/onesided/landing.h"
#include "dataplane/transport/onesided/payloads.h"
#include "dataplane/transport/transport.h"

namespace tally::transport::onesided {

// A place in a peer's memory, as the network names it.
struct Remote {
  std::uint64_t address = 0;
  std::uint64_t key = 0;
};

// Stands for one request that the provider has. Its address identifies the request.
struct Context {
  enum class Kind : std::uint8_t { kReceive, kPull, kPush };

  std::array<void*, 8> room{};  // the provider's own, as fi_context2
  Kind kind = Kind::kReceive;
  Peer peer = 0;
};

// A pull, a push or a message.
struct Operation : Context {
  std::uint64_t user = 0;  // of the Pull or Push
  Remote remote;
  std::byte* local = nullptr;
  std::size_t bytes = 0;            // 0 in a free entry
  Span view{};                      // of a pull: the bytes that the shard gets
  std::uint32_t index = 0;          // its index in the pool
  LandingMemory* memory = nullptr;  // gave local and gets it back; null when local is borrowed
  bool under_way = false;           // the provider has it
  bool answered = false;            // it has ended; of a pull: the shard holds its view
  bool eager = false;               // a push that was answered before it was placed
  std::uint32_t payload = 0;        // of a pull of a payload: its region number; else 0
};

// One thread. Throws std::bad_alloc without memory.
class OperationPool {
 public:
  // payloads: of the pulls that read no peer; borrowed.
  explicit OperationPool(Payloads& payloads) : payloads_(payloads) {}

  // The reference is valid until give_back(). Precondition: bytes is not 0.
  Operation& take(Context::Kind kind, Peer peer, std::size_t bytes, std::uint64_t user);
  // Precondition: the operation is not given back yet.
  void give_back(Operation& operation);
  Operation& operator[](std::uint32_t index) { return operations_[index]; }
  // Calls function(operation) for every operation of the peer without an answer. The function may
  // give the operation back.
  template <typename Function>
  void for_each_open(Peer peer, Function function) {
    for (Operation& operation : operations_) {
      if (operation.bytes > 0 && operation.peer == peer && !operation.answered) function(operation);
    }
  }

 private:
  Payloads& payloads_;
  std::deque<Operation> operations_;  // by index; a deque keeps their addresses
  std::vector<std::uint32_t> free_;   // indices
};

}  // namespace tally::transport::onesided
