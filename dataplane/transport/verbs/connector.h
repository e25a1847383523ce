// How the node's ends of connections are made, and what they consist of. Making and ending one
// takes as long as the device takes, and about a second where nobody answers for the address of the
// client. So any thread may do either, while the shard's goes on polling the completion queues.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "base/ring.h"
#include "dataplane/transport/verbs/queue_pair.h"

namespace tally::transport::verbs {

// A completion queue of many connections.
struct SharedQueue {
  CompletionQueue entries;
  std::size_t room = 0;                // for so many completions
  std::atomic<std::size_t> taken = 0;  // of it: all that its connections can have posted
};

// Of a connection's messages, the last: what comes behind others.
inline constexpr std::size_t kEagerArea = kEagerSlots * kEagerBytes / sizeof(RingSlot);

// A queue pair, and the messages that its queues refer to.
struct Connection {
  std::shared_ptr<SharedQueue> place;  // in the queue, until it is let go; keeps the device open
  // To be received, then to be sent, then what comes behind those that are received.
  std::span<RingSlot> messages;
  // They are here, as long as what came with notices is looked at, which may be after the end.
  std::shared_ptr<RingSlot[]> memory;
  MemoryRegion registered;  // they are
  QueuePair pair;           // goes first: then nothing refers to the others

  // Messages that can have been posted to be received: a multiple of the pieces behind them, and in
  // the order in which messages come, so that a message's number says which piece it has.
  std::uint32_t receives() const { return pair.sizes().receives / kEagerSlots * kEagerSlots; }
};

// A device, and the completion queues of its connections: one for all, and more where one cannot
// have room for all. Lives as long as its last connection.
class Connector : public std::enable_shared_from_this<Connector> {
 public:
  // `api` is borrowed for its life. `usual`: of a connection's queues, mostly.
  static Result<std::shared_ptr<Connector>> open(Api& api, const DeviceOptions& options,
                                                 const QueueSizes& usual);

  Device& device() const { return *device_; }
  ibv_comp_channel& channel() const { return *channel_.get(); }  // of all its queues

  // Any thread. The receives are posted; the first has this number, the others follow it.
  Result<Connection> connect(std::uint64_t first_receive, const QueueSizes& sizes,
                             const Address& client);

 private:
  Connector(std::unique_ptr<Device> device, std::size_t first_entries)
      : device_(std::move(device)), first_entries_(first_entries) {}

  Result<std::shared_ptr<SharedQueue>> take_place(std::size_t entries);
  Result<SharedQueue*> queue_with_room(std::size_t entries);
  Result<SharedQueue*> another_queue();
  bool grow(SharedQueue& queue);
  const Choice& choice() const { return device_->choice(); }

  std::unique_ptr<Device> device_;
  std::size_t first_entries_;  // of a completion queue
  CompletionChannel channel_;
  std::mutex mutex_;  // of what follows
  std::vector<std::unique_ptr<SharedQueue>> queues_;
};

// What comes behind messages[index]; the same as behind kEagerSlots - 1 others.
std::span<std::byte> behind(Connection& connection, std::uint32_t index);

// Posts messages[index] to be received as `number`, and so much behind it. 0, or an errno.
int post_receive(Connection& connection, std::uint64_t number, std::uint32_t index,
                 std::uint32_t behind_bytes = kEagerBytes);

}  // namespace tally::transport::verbs
