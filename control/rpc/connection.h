// One connection of the server: lines in, with descriptors; replies out. Control thread only.
#pragma once

#include <asio.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/fd.h"
#include "control/rpc/server.h"
#include "control/rpc/service.h"

namespace tally::rpc {

class Connection : public ReplySink, public std::enable_shared_from_this<Connection> {
 public:
  // `ended` is called once, from the event loop, when the connection has ended by itself.
  Connection(asio::io_context& io, UniqueFd socket, ConnectionId id, const Limits& limits,
             Service& service, std::function<void(ConnectionId)> ended);

  void start();
  // Ends it without a word and without `ended`.
  void close();
  // Ends it, from any depth of calls; `ended` follows. An empty reason is the peer's hanging up.
  void end(std::string_view reason);

  // Sends a line, or ends the connection when too much waits for a peer that does not read.
  void send(std::string line);
  void answer(std::string line) override;

  const PeerCredentials& peer() const { return peer_; }

 private:
  enum class Read { kLine, kPart, kNothing, kEnd };

  void wait_readable();
  void watch_process();
  void wait_process();
  void on_process_end();
  void on_readable();
  // Takes at most one line's bytes from the socket, and their descriptors.
  Read read();
  void keep_fds(const msghdr& message);
  void on_line();
  void dispatch(std::string_view line);
  void flush();

  asio::posix::stream_descriptor socket_;
  asio::posix::stream_descriptor process_;  // the peer's, where the kernel tells
  const ConnectionId id_;
  const Limits limits_;
  Service& service_;
  std::function<void(ConnectionId)> ended_;
  PeerCredentials peer_;

  std::string line_;           // of the request that is arriving
  std::vector<UniqueFd> fds_;  // and its descriptors
  bool too_many_fds_ = false;  // more than limits_.fds came; the rest was closed
  bool lost_fds_ = false;      // the kernel could not hand over all of them

  std::list<std::string> output_;
  std::size_t output_bytes_ = 0;
  std::size_t sent_ = 0;        // of output_.front()
  std::size_t unanswered_ = 0;  // requests that the service has yet to answer
  bool waiting_writable_ = false;
  bool closed_ = false;
};

}  // namespace tally::rpc
