// JSON-RPC 2.0 over stream sockets, Unix and TCP (docs/control.md): one request per line, on Unix
// sockets descriptors with the first byte of the request that they belong to. One thread, the one
// that runs the io_context. Peers are hostile: whatever they send or do not read, they harm
// themselves alone.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "control/rpc/listener.h"
#include "control/rpc/service.h"

namespace asio {
class io_context;
}

namespace tally::rpc {

struct Limits {
  std::size_t connections = 4096;
  std::size_t request_bytes = 64 << 10;  // with the newline
  std::size_t fds = 128;                 // per request
  std::size_t unanswered = 64;           // requests of a connection that the service holds
  std::size_t output_bytes = 4 << 20;    // replies that wait for a peer that does not read
};

// Who connected, by the kernel's word.
struct PeerCredentials {
  pid_t pid = 0;
  uid_t uid = 0;
  gid_t gid = 0;
};

class Server {
 public:
  // Borrows both; they outlive the server.
  Server(asio::io_context& io, Service& service, Limits limits = {});
  ~Server();

  // Starts to accept connections there, besides where it does already. Gives the address: with a
  // port, also where 0 was asked for.
  Result<std::string> listen(const ListenOptions& options);

  // Serves a connected stream socket.
  ConnectionId adopt(UniqueFd socket);

  // The last to be made, also if it is over; 0: none has been.
  ConnectionId latest() const;

  // nullopt when the connection is over.
  std::optional<PeerCredentials> peer(ConnectionId connection) const;

  // Ends a connection that misbehaves; closed() follows from the event loop.
  void disconnect(ConnectionId connection, std::string_view reason);

  // No new connections; those there are served on.
  void stop_listening();
  // Ends all; calls closed() for each before it returns. Not from inside handle().
  void stop();

 private:
  class Core;
  std::shared_ptr<Core> core_;
};

}  // namespace tally::rpc
