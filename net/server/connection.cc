#include "net/server/connection.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <asio/post.hpp>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

#include "base/log/log.h"
#include "base/system/peer_process.h"
#include "net/rpc/message.h"

namespace tally::rpc {
namespace {

// Keeps turns of the loop short, because a peer that sends without end must not delay others.
constexpr int kReadsPerTurn = 16;
// What one sendmsg() can carry (SCM_MAX_FD). With room for all, truncation loses none.
constexpr std::size_t kMaxFdsPerMessage = 253;

std::string descriptor_limit() {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  return fmt::format("{}", limit.rlim_cur);
}

}  // namespace

Connection::Connection(asio::io_context& io, UniqueFd socket, ConnectionId id, Peer peer,
                       const Limits& limits, const Security& security, Service& service,
                       std::weak_ptr<ConnectionOwner> owner)
    : socket_(io, socket.get()),
      process_(io),
      id_(id),
      limits_(limits),
      service_(service),
      owner_(std::move(owner)),
      peer_(std::move(peer)),
      door_(security, socket.get(), !peer_.host.empty()) {
  socket.release();  // socket_ owns it now
}

// Does not read immediately: the server first reports connections that ended before this one began.
void Connection::start() {
  wait_readable();
}

void Connection::set_grant(Grant grant, bool held) {
  if (closed_) return;
  const unsigned bit = 1U << static_cast<unsigned>(grant);
  grants_ = held ? grants_ | bit : grants_ & ~bit;
  if (!is_anonymous() && !process_.is_open()) watch_process();
  if (const auto owner = owner_.lock()) owner->on_activity(*this);
}

// When a peer's process has ended, its socket may not hang up, because a forked child may hold it
// open.
void Connection::watch_process() {
  UniqueFd process = process_behind(socket_.native_handle());
  if (!process) return;
  std::error_code failed;
  process_.assign(process.get(), failed);
  if (failed) return;
  process.release();  // process_ owns it now
  wait_process();
}

void Connection::wait_process() {
  process_.async_wait(asio::posix::stream_descriptor::wait_read,
                      [self = shared_from_this()](const std::error_code& error) {
                        if (!error) self->on_process_end();
                      });
}

// Serves first what the peer sent before it ended. A wait may end without a reason: the event loop
// reuses its records, and an event of a record's earlier use may still be on its way.
void Connection::on_process_end() {
  if (closed_) return;
  if (!has_ended(process_.native_handle())) return wait_process();
  serve();
  end("");
}

void Connection::close() {
  if (!closed_ && door_.is_secured() && door_.is_open()) door_.stream().close();
  closed_ = true;
  if (turn_) turn_->cancel();
  std::error_code ignored;
  socket_.close(ignored);
  process_.close(ignored);
  fds_.clear();
}

void Connection::end(std::string_view reason) {
  if (closed_) return;
  close();
  if (const auto owner = owner_.lock()) owner->on_end(*this, reason);
}

void Connection::wait_readable() {
  socket_.async_wait(asio::posix::stream_descriptor::wait_read,
                     [self = shared_from_this()](const std::error_code& error) {
                       if (!error && !self->closed_) self->on_readable();
                     });
}

void Connection::on_readable() {
  if (turned_away_) return discard();
  if (!door_.is_open()) return open_door();
  serve();
  if (closed_) return;
  if (!has_more_) return wait_readable();
  // TLS has taken bytes from the socket already, so the socket may never be readable again.
  asio::post(socket_.get_executor(), [self = shared_from_this()] {
    if (!self->closed_) self->on_readable();
  });
}

// -- the door --------------------------------------------------------------------------------

void Connection::open_door() {
  const auto owner = owner_.lock();
  if (owner == nullptr) return;
  const Nanos wait =
      !door_.is_secured() && !turn_ && door_.has_begun() ? owner->handshake_wait(*this) : 0;
  if (wait > 0) return wait_for_turn(wait);
  switch (door_.step()) {
    case Door::Step::kOpen:
      return on_open();
    case Door::Step::kWaitsRead:
      return wait_readable();
    case Door::Step::kWaitsWrite:
      return wait_writable();
    case Door::Step::kTurnedAway:
      return turn_away();
    case Door::Step::kFailed:
      if (!door_.why().empty()) owner->on_refused(*this, door_.why(), door_.is_wrong_key());
      return end("");
  }
}

void Connection::wait_for_turn(Nanos span) {
  turn_ = std::make_unique<asio::steady_timer>(socket_.get_executor());
  turn_->expires_after(std::chrono::nanoseconds(span));
  turn_->async_wait([self = shared_from_this()](const std::error_code& error) {
    if (!error && !self->closed_) self->open_door();
  });
}

void Connection::on_open() {
  peer_.proof = door_.proof();
  if (peer_.proof) set_grant(Grant::kProof, true);
  on_readable();
}

void Connection::turn_away() {
  turned_away_ = true;
  send(format_error(nullptr, Status::kRefused, door_.message()));
  if (const auto owner = owner_.lock()) owner->on_refused(*this, door_.why(), false);
  if (closed_) return;
  ::shutdown(socket_.native_handle(), SHUT_WR);
  discard();
}

// Reads until the peer hangs up: a socket that is closed with unread bytes loses what was sent to
// the peer.
void Connection::discard() {
  std::array<char, 4 << 10> ignored;
  const ssize_t got = ::recv(socket_.native_handle(), ignored.data(), ignored.size(), MSG_DONTWAIT);
  if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) return end("");
  wait_readable();
}

// -- requests --------------------------------------------------------------------------------

void Connection::serve() {
  has_more_ = false;
  if (!door_.is_open()) return;
  for (int i = 0; i < kReadsPerTurn && !closed_; ++i) {
    switch (read()) {
      case Read::kLine:
        on_line();
        break;
      case Read::kPart:
        if (line_.size() < limits_.request_bytes) {
          if (const auto owner = owner_.lock()) owner->on_holding(*this);
          break;
        }
        send(format_fault(
            nullptr, {Code::kInvalidRequest,
                      fmt::format("the request is longer than {} bytes", limits_.request_bytes)}));
        return end("a request without an end");
      case Read::kNothing:
        return;
      case Read::kEnd:
        return end("");
    }
  }
  has_more_ = door_.is_secured();
}

// Takes at most one line's bytes from those that came by TLS.
Connection::Read Connection::read_secured() {
  if (decrypted_.empty()) {
    std::array<char, 16 << 10> buffer;
    const ssize_t got = door_.stream().read(buffer.data(), buffer.size());
    if (got <= 0) return got < 0 && errno == EAGAIN ? Read::kNothing : Read::kEnd;
    decrypted_.assign(buffer.data(), static_cast<std::size_t>(got));
  }
  const std::size_t newline = decrypted_.find('\n');
  const std::size_t whole = newline == std::string::npos ? decrypted_.size() : newline + 1;
  const std::size_t take = std::min(whole, limits_.request_bytes - line_.size());
  line_.append(decrypted_, 0, take);
  decrypted_.erase(0, take);
  if (decrypted_.empty()) decrypted_ = {};  // gives its memory back
  return line_.back() == '\n' ? Read::kLine : Read::kPart;
}

// Peeks first and takes no more than one line. So the descriptors that come with the bytes belong
// to this line, whatever the peer has sent after it. Descriptors of a peer without a session have
// no use, and this process never receives them.
Connection::Read Connection::read() {
  if (door_.is_secured()) return read_secured();
  std::array<char, 16 << 10> buffer;
  const std::size_t room = std::min(buffer.size(), limits_.request_bytes - line_.size());
  const ssize_t seen =
      ::recv(socket_.native_handle(), buffer.data(), room, MSG_PEEK | MSG_DONTWAIT);
  if (seen == 0) return Read::kEnd;
  if (seen < 0) return errno == EAGAIN || errno == EINTR ? Read::kNothing : Read::kEnd;

  const void* newline = std::memchr(buffer.data(), '\n', static_cast<std::size_t>(seen));
  const std::size_t take =
      newline == nullptr
          ? static_cast<std::size_t>(seen)
          : static_cast<std::size_t>(static_cast<const char*>(newline) - buffer.data()) + 1;
  iovec part{buffer.data(), take};
  alignas(cmsghdr) char control[CMSG_SPACE(kMaxFdsPerMessage * sizeof(int))];
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  const bool takes_fds = has(Grant::kSession);
  message.msg_control = takes_fds ? control : nullptr;
  message.msg_controllen = takes_fds ? sizeof control : 0;
  const ssize_t got = ::recvmsg(socket_.native_handle(), &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (got <= 0) return Read::kNothing;  // should not happen; the next turn finds the cause
  if (takes_fds) keep_fds(message);
  line_.append(buffer.data(), static_cast<std::size_t>(got));
  return line_.back() == '\n' ? Read::kLine : Read::kPart;
}

void Connection::keep_fds(const msghdr& message) {
  auto* readable = const_cast<msghdr*>(&message);
  for (cmsghdr* header = CMSG_FIRSTHDR(readable); header != nullptr;
       header = CMSG_NXTHDR(readable, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(header) + i * sizeof(int), sizeof fd);
      UniqueFd owned(fd);
      if (fds_.size() < limits_.fds) {
        fds_.push_back(std::move(owned));
      } else {
        too_many_fds_ = true;
      }
    }
  }
  if ((message.msg_flags & MSG_CTRUNC) != 0) lost_fds_ = true;
}

void Connection::on_line() {
  std::string line = std::exchange(line_, {});
  line.resize(line.find_last_not_of(" \t\r\n") + 1);  // empty lines mean nothing
  try {
    if (!line.empty()) dispatch(line);
  } catch (const std::exception& failure) {
    // The service failed, or an allocation did. Only this request is lost. Its Reply was destroyed
    // on the way here and has answered.
    log::error("request-failed", {{"connection", id_}, {"error", failure.what()}});
  }
  fds_.clear();
  too_many_fds_ = lost_fds_ = false;
  if (closed_) return;
  const auto owner = owner_.lock();
  if (owner == nullptr) return;
  owner->on_holding(*this);
  owner->on_activity(*this);
}

void Connection::dispatch(std::string_view line) {
  Call call = parse_call(line);
  if (call.fault) return send(format_fault(call.id, *call.fault));
  // From here on the Reply answers; for a notification it sends nothing.
  ++unanswered_;
  Reply reply(weak_from_this(), std::move(call.id), call.wants_reply);
  if (too_many_fds_) {
    return reply.error(
        Status::kInvalidArgument,
        fmt::format("too many descriptors: a request carries at most {}", limits_.fds));
  }
  if (lost_fds_) {
    return reply.error(Status::kNoMemory,
                       fmt::format("the node is out of descriptors and lost those of this request: "
                                   "raise its limit (RLIMIT_NOFILE is {})",
                                   descriptor_limit()));
  }
  const std::size_t most = is_stranger() ? limits_.anonymous.unanswered : limits_.unanswered;
  if (unanswered_ > most) {
    return reply.error(
        Status::kRefused,
        fmt::format("{} requests of this connection wait for their answers: wait for "
                    "some of them first",
                    most));
  }
  Request request{std::move(call.method), std::move(call.params), std::move(fds_)};
  service_.handle(id_, request, std::move(reply));
}

void Connection::answer(std::string line) {
  --unanswered_;
  if (!line.empty()) send(std::move(line));
  if (closed_) return;
  if (const auto owner = owner_.lock()) owner->on_activity(*this);
}

void Connection::send(std::string line) {
  if (closed_) return;
  const std::size_t most = is_stranger() ? limits_.anonymous.reply_bytes : limits_.output_bytes;
  if (output_bytes_ > most) return end("does not read its replies");
  output_bytes_ += line.size();
  output_.push_back(std::move(line));
  if (!waiting_writable_) flush();
  if (closed_ || output_.empty()) return;
  if (const auto owner = owner_.lock()) owner->on_holding(*this);
}

void Connection::wait_writable() {
  waiting_writable_ = true;
  socket_.async_wait(asio::posix::stream_descriptor::wait_write,
                     [self = shared_from_this()](const std::error_code& error) {
                       self->waiting_writable_ = false;
                       if (!error) self->on_writable();
                     });
}

void Connection::on_writable() {
  if (closed_) return;
  if (!door_.is_open()) return open_door();
  flush();
  const auto owner = owner_.lock();
  if (closed_ || owner == nullptr) return;
  owner->on_holding(*this);
  owner->on_activity(*this);
}

ssize_t Connection::send_some(std::string_view bytes) {
  if (door_.is_secured()) return door_.stream().write(bytes);
  return ::send(socket_.native_handle(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
}

void Connection::flush() {
  while (!output_.empty() && !closed_) {
    const std::string& front = output_.front();
    const ssize_t sent = send_some(std::string_view(front).substr(sent_));
    if (sent < 0) {
      if (errno == EINTR) continue;
      if (errno != EAGAIN) return end("");  // it hung up
      return wait_writable();
    }
    sent_ += static_cast<std::size_t>(sent);
    output_bytes_ -= static_cast<std::size_t>(sent);
    if (sent_ == front.size()) {
      output_.pop_front();
      sent_ = 0;
    }
  }
}

}  // namespace tally::rpc
