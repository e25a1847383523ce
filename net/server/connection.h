// One connection of the server. It reads lines with descriptors and writes replies. Only the
// control thread uses it.
#pragma once

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/steady_timer.hpp>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/system/fd.h"
#include "net/server/connection_limits.h"
#include "net/server/door.h"
#include "net/server/peer.h"
#include "net/server/security.h"
#include "net/server/service.h"

namespace tally::rpc {

class Connection;

// Notifications from a connection. None comes after close() or on_end().
class ConnectionOwner {
 public:
  virtual ~ConnectionOwner() = default;
  // The connection sent a request, got an answer, or read some of a reply. Or it became anonymous,
  // or is no longer anonymous.
  virtual void on_activity(Connection& connection) = 0;
  // The bytes or descriptors that the connection holds have changed.
  virtual void on_holding(Connection& connection) = 0;
  // How long the connection's handshake waits, because its source showed wrong keys.
  virtual Nanos handshake_wait(const Connection& connection) = 0;
  // The peer has shown something that is not accepted: a wrong key, or no key.
  virtual void on_refused(Connection& connection, std::string_view reason, bool wrong_key) = 0;
  // The connection has ended by end(). The call may come from deep inside the service's handle().
  // An empty reason means that the peer hung up or ended.
  virtual void on_end(Connection& connection, std::string_view reason) = 0;
};

class Connection : public ReplySink, public std::enable_shared_from_this<Connection> {
 public:
  // Borrows `service` and `security`.
  Connection(asio::io_context& io, UniqueFd socket, ConnectionId id, Peer peer,
             const Limits& limits, const Security& security, Service& service,
             std::weak_ptr<ConnectionOwner> owner);

  // Starts to wait for requests. The event loop serves them, also those that have arrived already.
  void start();
  // Serves the requests that have arrived, and waits for none.
  void serve();
  // Closes the connection without a message to the peer and without a call of the owner.
  void close();
  // Closes the connection and notifies the owner. Callers at any depth may call this.
  void end(std::string_view reason);

  // Sends a line. Ends the connection when too many bytes wait for a peer that does not read.
  void send(std::string line);
  void answer(std::string line) override;
  void set_grant(Grant grant, bool held) override;

  ConnectionId id() const { return id_; }
  const Peer& peer() const { return peer_; }
  bool is_anonymous() const { return grants_ == 0; }
  bool is_busy() const { return unanswered_ > 0; }
  // Returns the bytes of unread replies and of incomplete requests.
  std::size_t held_bytes() const { return output_bytes_ + line_.size() + decrypted_.size(); }
  // Returns the number of descriptors of an incomplete request.
  std::size_t held_fds() const { return fds_.size(); }

 private:
  enum class Read { kLine, kPart, kNothing, kEnd };

  bool has(Grant grant) const { return (grants_ >> static_cast<unsigned>(grant) & 1U) != 0; }
  // Strangers have tighter limits; local operators do not.
  bool is_stranger() const { return is_anonymous() && !peer_.is_operator; }
  // Goes on with the handshake. When it is done, serves requests.
  void open_door();
  void wait_for_turn(Nanos span);
  void on_open();
  // Sends the reason in clear to a peer that speaks in clear and may not, or speaks TLS and cannot.
  // Takes no requests.
  void turn_away();
  void discard();
  void wait_readable();
  void watch_process();
  void wait_process();
  void on_process_end();
  void on_readable();
  // Takes at most one line's bytes from the socket, with their descriptors.
  Read read();
  Read read_secured();
  void keep_fds(const msghdr& message);
  void on_line();
  void dispatch(std::string_view line);
  void wait_writable();
  void on_writable();
  void flush();
  // Sends some of the bytes. Returns what send(2) returns.
  ssize_t send_some(std::string_view bytes);

  asio::posix::stream_descriptor socket_;
  asio::posix::stream_descriptor process_;  // the peer's pidfd, if the kernel gives one
  const ConnectionId id_;
  const Limits limits_;
  Service& service_;
  const std::weak_ptr<ConnectionOwner> owner_;
  Peer peer_;
  Door door_;
  std::unique_ptr<asio::steady_timer> turn_;  // of a handshake that must wait
  bool turned_away_ = false;
  unsigned grants_ = 0;  // one bit per Grant

  std::string line_;           // the bytes of the incomplete request
  std::string decrypted_;      // bytes that came by TLS after those of line_
  bool has_more_ = false;      // serve() has not taken all that has come
  std::vector<UniqueFd> fds_;  // its descriptors
  bool too_many_fds_ = false;  // more than limits_.fds came; the rest is closed
  bool lost_fds_ = false;      // the kernel could not pass all of them

  std::list<std::string> output_;
  std::size_t output_bytes_ = 0;
  std::size_t sent_ = 0;        // sent bytes of output_.front()
  std::size_t unanswered_ = 0;  // requests that the service has not answered yet
  bool waiting_writable_ = false;
  bool closed_ = false;
};

}  // namespace tally::rpc
