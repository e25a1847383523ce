// JSON-RPC 2.0 over stream sockets, Unix and TCP (docs/control.md), with one request per line. On a
// Unix socket a client sends descriptors with the first byte of the request that they belong to.
// Only the thread of the io_context uses the server. Peers are hostile: what a peer sends, or does
// not read, harms that peer alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "net/server/connection_counts.h"
#include "net/server/connection_limits.h"
#include "net/server/listener.h"
#include "net/server/peer.h"
#include "net/server/security.h"
#include "net/server/service.h"

namespace asio {
class io_context;
}

namespace tally::rpc {

class Server {
 public:
  // Borrows `io` and `service`, which must outlive the server.
  // By default peers over TCP are served in clear.
  Server(asio::io_context& io, Service& service, Limits limits = {}, Security security = {});
  ~Server();

  // Starts to accept connections at another address. Returns the address with its actual port, also
  // when the options asked for port 0.
  Result<std::string> listen(const ListenOptions& options);

  // Serves a connected stream socket.
  ConnectionId adopt(UniqueFd socket);

  // Returns the id of the newest connection, also when it has ended. 0 before the first connection.
  ConnectionId latest() const;

  // Returns nullopt when the connection has ended.
  std::optional<Peer> peer(ConnectionId connection) const;

  ConnectionCounts counts() const;

  // Ends a connection that misbehaves. The event loop calls the service's closed() later.
  void disconnect(ConnectionId connection, std::string_view reason);

  // Stops accepting. Present connections continue.
  void stop_listening();
  // Ends all connections and calls closed() for each before it returns. Must not run inside
  // handle().
  void stop();

 private:
  class Core;
  std::shared_ptr<Core> core_;
};

}  // namespace tally::rpc
