// Accepts the connections of one listener, a few per turn of the event loop, so other work gets its
// turn. Each acceptor pauses on its own, so a problem of one does not stop another.
#pragma once

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/steady_timer.hpp>
#include <functional>
#include <memory>
#include <string>

#include "base/result.h"
#include "base/system/fd.h"
#include "net/server/listener.h"

namespace tally::rpc {

class Acceptor : public std::enable_shared_from_this<Acceptor> {
 public:
  struct Owner {
    // Takes a new connection.
    std::function<void(UniqueFd)> take;
    // No descriptor or no memory is left; `error` is the errno. True means that the owner has freed
    // some, so the acceptor tries again at once.
    std::function<bool(int error)> make_room;
  };

  // Opens the listener. Accepting begins in the event loop, after this function has returned.
  static Result<std::shared_ptr<Acceptor>> open(asio::io_context& io, const ListenOptions& options,
                                                Owner owner);
  explicit Acceptor(asio::io_context& io) : socket_(io), pause_(io) {}

  const std::string& address() const { return listener_.address(); }
  void close();

 private:
  void wait();
  void pause();
  void accept();

  Owner owner_;
  Listener listener_;
  asio::posix::stream_descriptor socket_;  // a duplicate of the listener's descriptor
  asio::steady_timer pause_;
};

}  // namespace tally::rpc
