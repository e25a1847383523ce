// Makes and ends the queue pairs of sessions, on threads of its own, because a device may take long
// for both. It does not attach them: the shards' transports do (transports.h). Callbacks run on the
// control thread, which also calls all functions.
#pragma once

#include <asio/io_context.hpp>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "control/threads/thread_pool.h"
#include "dataplane/transport/verbs/verbs_transport.h"

namespace tally::control {

class QueuePairs {
 public:
  using Connections = std::vector<std::optional<transport::verbs::Connection>>;

  // An attempt to make the queue pairs of one session, one for each shard.
  struct Attempt {
    // By shard index; borrowed for the node's life.
    std::vector<const transport::verbs::VerbsTransport*> transports;
    std::vector<transport::verbs::Address> clients;
    transport::Peer peer = 0;
    std::uint32_t credit = 0;           // messages that each queue pair must be able to receive
    std::atomic<bool> given_up{false};  // the control thread sets it when the queue pairs are no
                                        // longer wanted

    Connections made;  // by shard index: all of them, or none
    std::optional<Error> why_not;
  };

  // io is the control thread's loop; borrowed. offered: whether the node offers verbs at all;
  // without it there are no threads.
  QueuePairs(asio::io_context& io, bool offered)
      : makers_(io, offered ? kMakers : 0), ender_(io, offered ? 1 : 0) {}

  // Makes the queue pairs one after the other, and stops at the first that fails. Then calls
  // `then`, whose argument says whether memory ran out.
  void make(const std::shared_ptr<Attempt>& attempt, WorkDone then);
  // Ends the queue pairs, then calls `then`. A second end() waits for the first.
  void end(const std::shared_ptr<Connections>& connections, std::function<void()> then);

 private:
  // A client that names an address without a responder blocks one of these threads for a second. A
  // client that disconnects gives up its turn.
  ThreadPool makers_;
  ThreadPool ender_;
};

}  // namespace tally::control
