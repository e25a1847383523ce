#include "net/tls/tunnel.h"

#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "base/clock.h"

namespace tally::net::tls {
namespace {

constexpr Nanos kHandshake = 10 * kSecond;
constexpr Nanos kLinger = kSecond;
constexpr int kLookMs = 50;  // how often the thread looks whether it is to end

bool is_busy() {
  return errno == EAGAIN || errno == EINTR;
}

}  // namespace

Result<std::unique_ptr<Tunnel>> Tunnel::client(std::shared_ptr<const ClientContext> context,
                                               UniqueFd socket, const std::string& host) {
  std::unique_ptr<Tunnel> tunnel(new Tunnel(std::move(socket)));
  auto stream = Stream::client(std::move(context), tunnel->socket_.get(), host);
  return start(std::move(tunnel), std::move(stream));
}

Result<std::unique_ptr<Tunnel>> Tunnel::server(std::shared_ptr<const ServerContext> context,
                                               UniqueFd socket, std::string answer) {
  std::unique_ptr<Tunnel> tunnel(new Tunnel(std::move(socket)));
  tunnel->answer_ = std::move(answer);
  auto stream = Stream::server(std::move(context), tunnel->socket_.get());
  return start(std::move(tunnel), std::move(stream));
}

Result<std::unique_ptr<Tunnel>> Tunnel::start(std::unique_ptr<Tunnel> tunnel,
                                              Result<Stream> stream) {
  if (!stream) return stream.error();
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    return Error{Status::kNoMemory, std::string("cannot make a socket: ") + std::strerror(errno)};
  }
  tunnel->ours_.reset(ends[0]);
  tunnel->theirs_.reset(ends[1]);
  tunnel->stream_ = std::make_unique<Stream>(std::move(stream).value());
  tunnel->thread_ =
      std::jthread([self = tunnel.get()](const std::stop_token& stop) { self->run(stop); });
  return tunnel;
}

Tunnel::~Tunnel() {
  thread_.request_stop();
  if (thread_.joinable()) thread_.join();
}

std::string Tunnel::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

void Tunnel::fail(std::string why) {
  const std::lock_guard lock(mutex_);
  failure_ = std::move(why);
}

// The first byte of TLS is that of a handshake record (RFC 8446, section 5.1).
bool Tunnel::speaks_tls(const std::stop_token& stop) const {
  constexpr char kHandshakeRecord = 22;
  for (const Nanos end = monotonic_now() + kHandshake;
       monotonic_now() < end && !stop.stop_requested();) {
    char first = 0;
    const ssize_t got = ::recv(socket_.get(), &first, 1, MSG_PEEK | MSG_DONTWAIT);
    if (got > 0) return first == kHandshakeRecord;
    if (got == 0 || !is_busy()) return true;  // the handshake finds the reason
    pollfd entry{socket_.get(), POLLIN, 0};
    ::poll(&entry, 1, kLookMs);
  }
  return true;
}

bool Tunnel::meet(const std::stop_token& stop) {
  if (!answer_.empty() && !speaks_tls(stop)) {
    fail("it speaks in clear");
    ::send(socket_.get(), answer_.data(), answer_.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    return false;
  }
  for (const Nanos end = monotonic_now() + kHandshake;
       monotonic_now() < end && !stop.stop_requested();) {
    const Handshake step = stream_->handshake();
    if (step == Handshake::kDone) return true;
    if (step == Handshake::kFailed) {
      fail(stream_->why());
      return false;
    }
    pollfd entry{socket_.get(),
                 static_cast<short>(step == Handshake::kWantsRead ? POLLIN : POLLOUT), 0};
    ::poll(&entry, 1, kLookMs);
  }
  return false;
}

// Returns whether any bytes moved.
bool Tunnel::move_out() {
  std::array<char, 16 << 10> buffer;
  if (out_.empty() && !local_closed_) {
    const ssize_t got = ::recv(ours_.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (got > 0) out_.assign(buffer.data(), static_cast<std::size_t>(got));
    if (got == 0 || (got < 0 && !is_busy())) local_closed_ = true;
  }
  if (out_.empty()) return false;
  const ssize_t sent = stream_->write(out_);
  if (sent > 0) out_.erase(0, static_cast<std::size_t>(sent));
  if (sent < 0 && !is_busy()) remote_closed_ = true;
  return sent > 0;
}

bool Tunnel::move_in() {
  std::array<char, 16 << 10> buffer;
  if (in_.empty() && !remote_closed_) {
    const ssize_t got = stream_->read(buffer.data(), buffer.size());
    if (got > 0) in_.assign(buffer.data(), static_cast<std::size_t>(got));
    if (got == 0 || (got < 0 && !is_busy())) remote_closed_ = true;
  }
  if (in_.empty()) return false;
  const ssize_t sent = ::send(ours_.get(), in_.data(), in_.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  if (sent > 0) in_.erase(0, static_cast<std::size_t>(sent));
  if (sent < 0 && !is_busy()) local_closed_ = true;
  return sent > 0;
}

void Tunnel::run(const std::stop_token& stop) {
  Nanos end = kForever;
  bool open = meet(stop);
  while (open) {
    const bool out = move_out();
    const bool in = move_in();
    if (remote_closed_ && in_.empty()) break;
    if (local_closed_ && (out_.empty() || remote_closed_)) break;
    if (stop.stop_requested() && end == kForever) end = monotonic_now() + kLinger;
    open = monotonic_now() < end;
    if (out || in) continue;
    pollfd entries[] = {{ours_.get(), 0, 0}, {socket_.get(), 0, 0}};
    if (!local_closed_ && out_.empty()) entries[0].events |= POLLIN;
    if (!in_.empty()) entries[0].events |= POLLOUT;
    if (in_.empty()) entries[1].events |= POLLIN;
    if (!out_.empty()) entries[1].events |= POLLOUT;
    ::poll(entries, 2, kLookMs);
  }
  stream_->close();
  ::shutdown(socket_.get(), SHUT_RDWR);
  ::shutdown(ours_.get(), SHUT_RDWR);
}

}  // namespace tally::net::tls
