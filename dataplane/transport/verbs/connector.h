// Makes the node's ends of connections. The device decides how long it takes to make or end a
// connection; when no machine answers at the client's address, making one takes about a second. So
// any thread may make and end connections, while the shard's thread polls the completion queues.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "base/containers/ring.h"
#include "dataplane/transport/verbs/queue_pair.h"

namespace tally::transport::verbs {

// A completion queue that many connections share.
struct SharedQueue {
  CompletionQueue entries;
  std::size_t room = 0;                // completions that fit into the queue
  std::atomic<std::size_t> taken = 0;  // the most completions that its connections can have at once
};

// RingEntries at the end of Connection::messages: the pieces for bytes that come behind messages.
inline constexpr std::size_t kEagerArea = kEagerPieces * kEagerBytes / sizeof(RingEntry);

// A queue pair, and the messages to which its work requests refer.
struct Connection {
  // The connection's share of a completion queue. The share ends with the last copy of this
  // pointer. It also keeps the Connector and its device alive.
  std::shared_ptr<SharedQueue> place;
  // First the messages to receive, then those to send, then kEagerArea.
  std::span<RingEntry> messages;
  // Owns messages. The shard may read contributions there after the connection has ended, so each
  // contribution holds a copy of this pointer.
  std::shared_ptr<RingEntry[]> memory;
  MemoryRegion registered;  // of messages
  // The last member, so that it is destroyed first: then no work request refers to the others.
  QueuePair pair;

  // Receives that are posted at a time: a multiple of kEagerPieces. They are posted again in the
  // order in which messages come, so the number of a message gives the piece behind it.
  std::uint32_t receives() const { return pair.sizes().receives / kEagerPieces * kEagerPieces; }
};

// A device, and the completion queues of its connections: one for all connections, and more when
// one cannot have room for all. Each connection shares its ownership, so it lives at least as long
// as its last connection.
class Connector : public std::enable_shared_from_this<Connector> {
 public:
  // api is borrowed for the life of the Connector. usual: the queue sizes of most connections; the
  // first size of a completion queue follows from them.
  static Result<std::shared_ptr<Connector>> open(Api& api, const DeviceOptions& options,
                                                 const QueueSizes& usual);

  Device& device() const { return *device_; }
  ibv_comp_channel& channel() const { return *channel_.get(); }  // of all its completion queues

  // Makes a connection to the client and posts its receives, with the wr_id first_receive and the
  // numbers after it. Any thread; slow.
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
  std::size_t first_entries_;  // size of a new completion queue
  CompletionChannel channel_;
  std::mutex mutex_;  // protects queues_
  std::vector<std::unique_ptr<SharedQueue>> queues_;
};

// The piece for the bytes behind messages[index]. Every kEagerPieces-th message has the same piece.
std::span<std::byte> behind(Connection& connection, std::uint32_t index);

// Posts a receive with this wr_id into messages[index] and, behind it, into behind_bytes from the
// begin of its piece. Returns 0, or an errno.
int post_receive(Connection& connection, std::uint64_t number, std::uint32_t index,
                 std::uint32_t behind_bytes = kEagerBytes);

}  // namespace tally::transport::verbs
