// How the bytes of a connection cross its socket: in clear, or by TLS. On TCP the peer's first byte
// decides. Never waits. Only the control thread uses it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "net/server/security.h"
#include "net/tls/tls_stream.h"

namespace tally::rpc {

class Door {
 public:
  enum class Step : std::uint8_t {
    kOpen,        // requests may come
    kWaitsRead,   // call step() again when the socket is readable
    kWaitsWrite,  // call step() again when the socket is writable
    kTurnedAway,  // the peer speaks in clear and may not, or speaks TLS and cannot; message() is
                  // for it
    kFailed,      // why() says the reason; empty: the connection broke
  };

  // Borrows both. Precondition: `is_tcp` is false for Unix sockets, whose doors are open at once.
  Door(const Security& security, int socket, bool is_tcp)
      : security_(security), socket_(socket), step_(is_tcp ? Step::kWaitsRead : Step::kOpen) {}

  // Whether requests may come.
  bool is_open() const { return step_ == Step::kOpen; }
  bool is_secured() const { return stream_.has_value(); }
  // Whether the peer has sent anything.
  bool has_begun();
  // Goes on with the handshake.
  Step step();

  // What the peer has proved.
  const std::optional<net::auth::Proof>& proof() const;
  // For the log.
  const std::string& why() const { return why_; }
  // For the peer, in clear.
  std::string_view message() const { return message_; }
  // Whether the peer showed a key that is not accepted.
  bool is_wrong_key() const;

  // Of a door that is secured and open.
  net::tls::Stream& stream() { return *stream_; }

 private:
  Step decide();

  const Security& security_;
  int socket_;
  Step step_;
  std::optional<net::tls::Stream> stream_;
  std::string why_;
  std::string_view message_;
};

}  // namespace tally::rpc
