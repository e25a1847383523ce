// A session's connection to the shards of its node: notices out, completions in, the memory that
// the shards may use. One implementation for each transport; nothing above knows which it is.
// Used by one thread at a time, as its session is.
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "base/ring.h"
#include "client/region.h"
#include "dataplane/wire/notice.h"

namespace tally::client {

// What a session's links ask of the memory of its regions.
struct MemoryNeeds {
  std::string_view transport;  // for messages
  bool shared = false;         // another process must be able to map it
  bool adapter = false;        // it may be an ibv_mr or a dma-buf
};

class Link {
 public:
  virtual ~Link() = default;

  // "shm", "verbs", "fabric": as users force them; and how, for the line that says what was chosen.
  virtual std::string_view transport() const = 0;
  virtual std::string description() const = 0;
  virtual std::uint32_t shards() const = 0;

  // False when there is no room, which a client within its credit never sees. `contribution`: all
  // that this rank gives to the operation, where it is not more than eager_bytes(), or nothing; it
  // may go with the notice, and stays as it is until the operation's completion.
  virtual bool send(std::uint32_t shard, const wire::Notice& notice,
                    std::span<const std::byte> contribution) = 0;
  virtual std::size_t eager_bytes() const { return 0; }
  // A message that is no notice: of a node that is a vertex below the other one. False as above.
  virtual bool send_message(std::uint32_t shard, const RingSlot& message) = 0;
  // Copies what is there to the front of `out`.
  virtual std::size_t receive(std::uint32_t shard, std::span<RingSlot> out) = 0;
  // The node says what no correct node says.
  virtual bool broken() const = 0;

  // What region.register tells the node of a region. The descriptors are borrowed.
  struct Offer {
    nlohmann::json params;
    std::vector<int> fds;
  };
  virtual Result<Offer> offer(const Region& region) = 0;
  // The node has let go of it.
  virtual void withdraw(const Region& region) = 0;
  // Must regions be of memory that another process can map?
  virtual bool wants_shared_memory() const = 0;
  // May they be given as an ibv_mr or a dma-buf?
  virtual bool has_adapter() const { return false; }

  // Before a sleep: false when a completion is there already. Readable fd(): doorbell or death.
  // fd() becomes readable at `until` too, so that an event loop comes back to a node that is
  // silent.
  virtual bool arm(Nanos until) = 0;
  virtual void disarm() = 0;
  virtual int fd() const = 0;
  // Takes the bytes off the doorbells; true when the node is gone. A few system calls.
  virtual bool hear() = 0;
  // What hear() has found out.
  virtual std::string why_gone() const { return "the node died or closed the connection"; }

  // From its return on no shard of the node reads or stores this session's memory; false when that
  // could not be had by `deadline` (a shard stopped in the middle of a tile).
  virtual bool fence(Nanos deadline) = 0;
  // The end, after the fence: the node sees it, and fd() has nothing more to say.
  virtual void hang_up() = 0;
};

}  // namespace tally::client
