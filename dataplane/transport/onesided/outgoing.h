// Starts what waits for the peers' connections, in the order that each peer needs. It collects the
// sessions of a burst, so that a burst for many peers goes to each peer in one piece. What a
// connection does not take yet stays in its session's queues, and send_again() tries it once more.
#pragma once

#include <vector>

#include "base/containers/fifo.h"
#include "base/containers/ring.h"
#include "dataplane/transport/onesided/operation_pool.h"
#include "dataplane/transport/onesided/sessions.h"

namespace tally::transport::onesided {

// How a transport starts operations and sends completions.
class Network {
 public:
  // Gives the operation to the network, which then has it until it ends. Returns false when the
  // network cannot take it yet, and when the transport has refused the session.
  virtual bool start(Session& session, Operation& operation) = 0;
  // Sends a completion. Returns false as start() does.
  virtual bool send(Session& session, const RingEntry& message) = 0;
  // Sends the operations and messages that were started in this burst.
  virtual void flush(Session&) {}

 protected:
  ~Network() = default;
};

// One thread. Throws std::bad_alloc without memory. A session that the network refuses gets nothing
// more.
class Outgoing {
 public:
  // Both are borrowed.
  Outgoing(Network& network, OperationPool& operations)
      : network_(network), operations_(operations) {}

  // Each queues for the end of the burst. The operation must belong to the session's peer.
  void read(Session& session, const Operation& operation);
  void write(Session& session, const Operation& operation);
  void complete(Session& session, const RingEntry& message);
  // Ends the burst: starts what its sessions have. The sessions must still be attached.
  void send();
  // Starts what was not taken before.
  void send_again(const Sessions& sessions);

 private:
  void mark(Session& session);
  void send_waiting(Session& session);
  bool start_all(Session& session, Fifo<std::uint32_t>& waiting);

  Network& network_;
  OperationPool& operations_;
  std::vector<Session*> marked_;  // sessions with something to start at the end of the burst
  bool backlog_ = false;  // some session has something that its connection does not take yet
};

}  // namespace tally::transport::onesided
