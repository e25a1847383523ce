// Carries a local stream over TLS, for code that reads and writes a plain descriptor, or hands it
// to another process. A thread of the tunnel does the handshake and moves the bytes.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "base/result.h"
#include "base/system/fd.h"
#include "net/tls/tls_context.h"
#include "net/tls/tls_stream.h"

namespace tally::net::tls {

// One thread at a time uses a tunnel.
class Tunnel {
 public:
  // Takes the connected socket over. local_end() gives the descriptor for the bytes in clear.
  static Result<std::unique_ptr<Tunnel>> client(std::shared_ptr<const ClientContext> context,
                                                UniqueFd socket, const std::string& host);
  // `answer` is sent to a peer that speaks in clear.
  static Result<std::unique_ptr<Tunnel>> server(std::shared_ptr<const ServerContext> context,
                                                UniqueFd socket, std::string answer);
  // Sends what was written to the local end, for a second at most. Precondition: the local end is
  // closed.
  ~Tunnel();
  Tunnel(const Tunnel&) = delete;
  Tunnel& operator=(const Tunnel&) = delete;

  // Returns the local end, once. It ends when the other side does, or when the handshake fails.
  UniqueFd local_end() { return std::move(theirs_); }
  // Why the handshake failed; empty: it has not failed. Any thread may ask.
  std::string failure() const;

 private:
  explicit Tunnel(UniqueFd socket) : socket_(std::move(socket)) {}
  static Result<std::unique_ptr<Tunnel>> start(std::unique_ptr<Tunnel> tunnel,
                                               Result<Stream> stream);
  void run(const std::stop_token& stop);
  bool meet(const std::stop_token& stop);
  bool speaks_tls(const std::stop_token& stop) const;
  void fail(std::string why);
  bool move_out();
  bool move_in();

  UniqueFd socket_;
  UniqueFd ours_;  // of the local stream
  UniqueFd theirs_;
  std::unique_ptr<Stream> stream_;
  std::string answer_;  // for a peer that speaks in clear; empty: this is the client
  mutable std::mutex mutex_;
  std::string failure_;
  std::string out_;  // bytes for the other side
  std::string in_;   // bytes for the local end
  bool local_closed_ = false;
  bool remote_closed_ = false;
  std::jthread thread_;
};

}  // namespace tally::net::tls
