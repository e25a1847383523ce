#include "control/rpc/connection.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/peer_process.h"
#include "control/log.h"
#include "control/rpc/message.h"

namespace tally::rpc {
namespace {

// Turns of the loop are short: a peer that sends without end must not keep others waiting.
constexpr int kReadsPerTurn = 16;
// What one sendmsg can carry (SCM_MAX_FD): with room for all, none is lost by truncation.
constexpr std::size_t kMaxFdsPerMessage = 253;

PeerCredentials credentials(int socket) {
  ucred read{};
  socklen_t bytes = sizeof read;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &read, &bytes) != 0) {
    // Nobody: better than 0, which is root.
    return {0, static_cast<uid_t>(-1), static_cast<gid_t>(-1)};
  }
  return {read.pid, read.uid, read.gid};
}

std::string descriptor_limit() {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  return fmt::format("{}", limit.rlim_cur);
}

}  // namespace

Connection::Connection(asio::io_context& io, UniqueFd socket, ConnectionId id, const Limits& limits,
                       Service& service, std::function<void(ConnectionId)> ended)
    : socket_(io, socket.get()),
      process_(io),
      id_(id),
      limits_(limits),
      service_(service),
      ended_(std::move(ended)),
      peer_(credentials(socket.get())) {
  socket.release();  // it is socket_'s now
}

void Connection::start() {
  watch_process();
  wait_readable();
}

// A dead peer's socket need not hang up: the child of a fork may hold it open.
void Connection::watch_process() {
  UniqueFd process = process_behind(socket_.native_handle());
  if (!process) return;
  std::error_code failed;
  process_.assign(process.get(), failed);
  if (failed) return;
  process.release();  // it is process_'s now
  wait_process();
}

void Connection::wait_process() {
  process_.async_wait(asio::posix::stream_descriptor::wait_read,
                      [self = shared_from_this()](const std::error_code& error) {
                        if (!error) self->on_process_end();
                      });
}

// What it sent before it ended is served first. A wait may end without a reason: the event loop
// uses its records again, and an event of the one before may still be on its way.
void Connection::on_process_end() {
  if (closed_) return;
  if (!has_ended(process_.native_handle())) return wait_process();
  on_readable();
  end("");
}

void Connection::close() {
  closed_ = true;
  std::error_code ignored;
  socket_.close(ignored);
  process_.close(ignored);
  fds_.clear();
}

void Connection::end(std::string_view reason) {
  if (closed_) return;
  if (!reason.empty()) {
    log::warning("disconnected",
                 {{"connection", id_}, {"pid", peer_.pid}, {"uid", peer_.uid}, {"reason", reason}});
  }
  const auto executor = socket_.get_executor();
  close();
  // Posted: this may be deep inside the service's handle().
  asio::post(executor, [self = shared_from_this()] {
    if (self->ended_) self->ended_(self->id_);
  });
}

void Connection::wait_readable() {
  socket_.async_wait(asio::posix::stream_descriptor::wait_read,
                     [self = shared_from_this()](const std::error_code& error) {
                       if (!error && !self->closed_) self->on_readable();
                     });
}

void Connection::on_readable() {
  for (int i = 0; i < kReadsPerTurn && !closed_; ++i) {
    switch (read()) {
      case Read::kLine:
        on_line();
        break;
      case Read::kPart:
        if (line_.size() < limits_.request_bytes) break;
        send(format_fault(
            nullptr, {Code::kInvalidRequest,
                      fmt::format("the request is longer than {} bytes", limits_.request_bytes)}));
        return end("a request without an end");
      case Read::kNothing:
        return wait_readable();
      case Read::kEnd:
        return end("");
    }
  }
  if (!closed_) wait_readable();
}

// Looks first and takes no more than one line: so the descriptors that come with the bytes belong
// to this line, whatever the peer has sent after it.
Connection::Read Connection::read() {
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
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  const ssize_t got = ::recvmsg(socket_.native_handle(), &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (got <= 0) return Read::kNothing;  // cannot be: the bytes were seen; the next turn tells
  keep_fds(message);
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
    // The service's fault or an allocation that failed: this request is lost, nothing else is. (Its
    // Reply, dropped on the way here, has answered.)
    log::error("request-failed", {{"connection", id_}, {"error", failure.what()}});
  }
  fds_.clear();
  too_many_fds_ = lost_fds_ = false;
}

void Connection::dispatch(std::string_view line) {
  Call call = parse_call(line);
  if (call.fault) return send(format_fault(call.id, *call.fault));
  // From here on the Reply answers, or stays silent for a notification.
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
  if (unanswered_ > limits_.unanswered) {
    return reply.error(
        Status::kRefused,
        fmt::format("{} requests of this connection wait for their answers: wait for "
                    "some of them first",
                    limits_.unanswered));
  }
  service_.handle(id_, Request{std::move(call.method), std::move(call.params), std::move(fds_)},
                  std::move(reply));
}

void Connection::answer(std::string line) {
  --unanswered_;
  if (!line.empty()) send(std::move(line));
}

void Connection::send(std::string line) {
  if (closed_) return;
  if (output_bytes_ > limits_.output_bytes) return end("does not read its replies");
  output_bytes_ += line.size();
  output_.push_back(std::move(line));
  if (!waiting_writable_) flush();
}

void Connection::flush() {
  while (!output_.empty() && !closed_) {
    const std::string& front = output_.front();
    const ssize_t sent = ::send(socket_.native_handle(), front.data() + sent_, front.size() - sent_,
                                MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0) {
      if (errno == EINTR) continue;
      if (errno != EAGAIN) return end("");  // it hung up
      waiting_writable_ = true;
      return socket_.async_wait(asio::posix::stream_descriptor::wait_write,
                                [self = shared_from_this()](const std::error_code& error) {
                                  self->waiting_writable_ = false;
                                  if (!error) self->flush();
                                });
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
