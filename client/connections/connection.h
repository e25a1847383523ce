// A session's connection to the shards of one node. It carries notices out and completions in, and
// offers regions to the shards. Each transport has one implementation, and its users do not depend
// on which. One thread at a time uses it, as with the session.
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/containers/ring.h"
#include "base/result.h"
#include "client/memory/region.h"
#include "dataplane/wire/notice.h"

namespace tally::client {

// What the connections of a session need of the memory of its regions.
struct MemoryNeeds {
  std::string_view transport;  // for messages
  bool shared = false;         // another process must be able to map the memory
  bool adapter = false;        // the memory may be an ibv_mr or a dma-buf
};

class Connection {
 public:
  virtual ~Connection() = default;

  // transport() is the name that users give: "shm", "verbs" or "fabric"; a node's own connections
  // have "roce" too. description() adds the details for the log line about the choice.
  virtual std::string_view transport() const = 0;
  virtual std::string description() const = 0;
  virtual std::uint32_t shards() const = 0;

  // Sends a notice. False when there is no room, which does not happen to a client within its
  // credit. `contribution` is empty, or all bytes that this rank gives to the operation when they
  // are at most eager_bytes(). The connection may send it with the notice. It is borrowed and must
  // not change until the completion of the operation.
  virtual bool send(std::uint32_t shard, const wire::Notice& notice,
                    std::span<const std::byte> contribution) = 0;
  virtual std::size_t eager_bytes() const { return 0; }
  // Sends a message that is not a notice, from a node that is a child vertex of the other node.
  // False as with send().
  virtual bool send_message(std::uint32_t shard, const RingEntry& message) = 0;
  // Copies completions to the front of `out` and returns how many.
  virtual std::size_t receive(std::uint32_t shard, std::span<RingEntry> out) = 0;
  // Whether the node sent something that no correct node sends.
  virtual bool broken() const = 0;

  // The parameters of region.register for a region. The descriptors are borrowed.
  struct Offer {
    nlohmann::json params;
    std::vector<int> fds;
  };
  virtual Result<Offer> offer(const Region& region) = 0;
  // Ends the use of a region after the node has released it.
  virtual void withdraw(const Region& region) = 0;
  // Whether regions must be of memory that another process can map.
  virtual bool wants_shared_memory() const = 0;
  // Whether regions may be given as an ibv_mr or a dma-buf.
  virtual bool has_adapter() const { return false; }

  // arm() prepares a sleep. It returns false when a completion is already there. fd() is readable
  // when a doorbell rings and when the node has gone. fd() also becomes readable at `until`, so
  // that an event loop notices a node that is silent.
  virtual bool arm(Nanos until) = 0;
  virtual void disarm() = 0;
  virtual int fd() const = 0;
  // Reads the doorbells. Returns true when the node is gone. It takes a few system calls, so the
  // caller uses it when fd() is readable or has_failed() is true.
  virtual bool read_events() = 0;
  // Whether receive() has found that the node is unreachable. read_events() then returns true.
  virtual bool has_failed() const { return false; }
  // The reason why read_events() returned true.
  virtual std::string why_gone() const { return "it died or closed the connection"; }

  // After it returns true no shard of the node reads or writes this session's memory. False when
  // that is not reached by `deadline`, because a shard has stopped in the middle of a tile.
  virtual bool fence(Nanos deadline) = 0;
  // Ends the connection after the fence. The node sees the end, and fd() stays silent.
  virtual void hang_up() = 0;
};

}  // namespace tally::client
