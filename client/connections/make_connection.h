// Chooses the transport of a session: the best that both ends have, or the transport that the user
// asks for.
#pragma once

#include <memory>
#include <string>

#include "client/connections/connection.h"
#include "client/connections/shared_by_connections.h"
#include "net/rpc/rpc_channel.h"

struct ibv_pd;  // of libibverbs; NOLINT(readability-identifier-naming)

namespace tally::client {

struct ChosenConnection {
  std::unique_ptr<Connection> connection;
  std::string why;           // the reason for this transport
  bool second_best = false;  // the node offers a better transport that does not work
};

// The transport that the user asks for.
struct ConnectionWish {
  std::string transport;      // empty: the best
  std::string device;         // of verbs: "DEVICE[:PORT[:GID-INDEX]]"; empty: the device that fits
                              // the address
  ibv_pd* domain = nullptr;   // of verbs: the caller's protection domain; borrowed for the
                              // connection's life
  bool eager_results = true;  // small results may come behind completions
};

// Parses "shm", "verbs", "verbs:DEVICE[:PORT[:GID-INDEX]]", "fabric", or an empty text. A `domain`
// asks for verbs: with the name of another transport the result is kInvalidArgument.
Result<ConnectionWish> read_wish(const std::string& text, ibv_pd* domain);

struct ConnectionSize {
  std::uint32_t shards = 0;
  std::uint32_t credit = 0;  // for each shard
};

// Makes the best connection and attaches the session. The best is shm at the node's Unix socket;
// otherwise verbs when both ends have it and packets get through. The second choice after either is
// fabric, if its connections can be made. `opened` is the node's answer to session.open. The
// connection borrows the descriptor of `channel`. The error says why a transport that the user
// asked for does not work.
Result<ChosenConnection> make_connection(rpc::RpcChannel& channel, const nlohmann::json& opened,
                                         const ConnectionWish& wish, const ConnectionSize& size,
                                         const SharedByConnections& shared, Nanos deadline);

}  // namespace tally::client
