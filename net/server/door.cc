#include "net/server/door.h"

#include <sys/socket.h>

#include <cerrno>

namespace tally::rpc {

using Failure = net::tls::Stream::Failure;

namespace {

constexpr std::string_view kShowSomething =
    "this node serves TCP only to who shows a token or the cluster's secret: set $TALLY_TOKEN "
    "(`tallyctl token make` "
    "makes one), or start the node with --insecure; clients of earlier releases cannot show one "
    "over TCP";
constexpr std::string_view kNoTls =
    "this node has no secret, so it does not speak TLS: set $TALLY_INSECURE=1 to use it in clear, "
    "or give it a secret";

}  // namespace

bool Door::has_begun() {
  unsigned char first = 0;
  return stream_ || ::recv(socket_, &first, 1, MSG_PEEK | MSG_DONTWAIT) >= 0 || errno != EAGAIN;
}

// Looks at the peer's first byte.
Door::Step Door::decide() {
  unsigned char first = 0;
  const ssize_t seen = ::recv(socket_, &first, 1, MSG_PEEK | MSG_DONTWAIT);
  if (seen < 0 && (errno == EAGAIN || errno == EINTR)) return Step::kWaitsRead;
  if (seen <= 0) return Step::kFailed;  // it hung up
  if (first != net::tls::kFirstByte) {
    if (security_.plaintext) return Step::kOpen;
    why_ = "it shows no token and no secret";
    message_ = kShowSomething;
    return Step::kTurnedAway;
  }
  if (security_.tls == nullptr) {
    why_ = "it speaks TLS, and this node has no secret";
    message_ = kNoTls;
    return Step::kTurnedAway;
  }
  auto stream = net::tls::Stream::server(security_.tls, socket_);
  if (!stream) {
    why_ = stream.error().message;
    return Step::kFailed;
  }
  stream_.emplace(std::move(stream).value());
  return Step::kWaitsRead;
}

Door::Step Door::step() {
  if (!stream_ && step_ == Step::kWaitsRead) step_ = decide();
  if (!stream_) return step_;
  switch (stream_->handshake()) {
    case net::tls::Handshake::kDone:
      return step_ = Step::kOpen;
    case net::tls::Handshake::kWantsRead:
      return step_ = Step::kWaitsRead;
    case net::tls::Handshake::kWantsWrite:
      return step_ = Step::kWaitsWrite;
    case net::tls::Handshake::kFailed:
      break;
  }
  why_ = stream_->failure() == Failure::kNetwork ? "" : stream_->why();
  return step_ = Step::kFailed;
}

const std::optional<net::auth::Proof>& Door::proof() const {
  static const std::optional<net::auth::Proof> kNone;
  return stream_ ? stream_->proof() : kNone;
}

bool Door::is_wrong_key() const {
  if (!stream_) return false;
  const Failure failure = stream_->failure();
  return failure == Failure::kUnknown || failure == Failure::kExpired ||
         failure == Failure::kRevoked || failure == Failure::kWrongKey ||
         failure == Failure::kCertificate;
}

}  // namespace tally::rpc
