#include "net/rpc/rpc_channel.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>

#include "net/address.h"
#include "net/rpc/socket_owner.h"
#include "net/tcp.h"

namespace tally::rpc {
namespace {

using nlohmann::json;

// The limits of a node for one request (net/server/connection_limits.h has the same numbers).
constexpr std::size_t kMaxRequestBytes = 64 << 10;
constexpr std::size_t kMaxFds = 128;  // the segment and a doorbell for each of 127 shards
// Limits the memory that a broken node can make a client use.
constexpr std::size_t kMaxReplyBytes = 64 << 20;
constexpr int kMostOthers = 64;  // answers to other requests that one call of answer() skips
constexpr Nanos kConnectPause = 10 * kMillisecond;
constexpr Nanos kGoodbye = 10 * kMillisecond;  // from the node's last message to its hang-up

void pause(Nanos span) {
  const timespec time{static_cast<time_t>(span / kSecond), static_cast<long>(span % kSecond)};
  ::nanosleep(&time, nullptr);
}

// How connect() failed, and whether a node that is starting would explain it.
struct ConnectFailure {
  int number = 0;
  bool may_be_starting() const {
    return number == ENOENT || number == ECONNREFUSED || number == EAGAIN || number == EINTR;
  }
};

Error no_socket(int number) {
  return {Status::kNoMemory, fmt::format("cannot make a socket: {}", std::strerror(number))};
}

Error unavailable(const net::UnixAddress& address, int number) {
  const std::string_view path = address.path;
  switch (number) {
    case ENOENT:
      return {
          Status::kUnavailable,
          fmt::format("nobody listens at {0}: there is no such socket; is tallyd running? start "
                      "it with: tallyd --listen unix:{0}",
                      path)};
    case ECONNREFUSED:
      return {
          Status::kUnavailable,
          fmt::format("nobody listens at {0}: the socket is left over; is tallyd running? start "
                      "it with: tallyd --listen unix:{0}",
                      path)};
    case EACCES:
    case EPERM:
      return {Status::kRefused,
              fmt::format("no permission to connect to {}: the socket's owner sets who may "
                          "(listen_mode in tallyd's configuration)",
                          path)};
    case EAGAIN:
      return {Status::kUnavailable,
              fmt::format("tallyd at {} does not accept connections: it is overloaded or stopped",
                          path)};
    default:
      return {Status::kUnavailable,
              fmt::format("cannot connect to {}: {}", path, std::strerror(number))};
  }
}

// Returns nullopt when the line answers another request, such as a call that timed out.
std::optional<Result<json>> parse_reply(const std::string& line, std::uint64_t id) {
  json reply = json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!reply.is_object()) {
    return Error{Status::kProtocol, "the node answered with something that is not JSON-RPC"};
  }
  const auto answered = reply.find("id");
  // An error without an id is about a request that the node could not read, so it is this one.
  const bool ours = answered != reply.end() && (answered->is_null() || *answered == id);
  if (!ours) return std::nullopt;
  if (const auto result = reply.find("result"); result != reply.end()) return std::move(*result);
  Error error{Status::kProtocol, "the node answered without a result"};
  const auto sent = reply.find("error");
  if (sent == reply.end() || !sent->is_object()) return error;
  if (const auto message = sent->find("message"); message != sent->end() && message->is_string()) {
    error.message = message->get<std::string>();
  }
  constexpr int kMethodNotFound = -32601;  // JSON-RPC 2.0, section 5.1
  if (const auto code = sent->find("code"); code != sent->end() && *code == kMethodNotFound) {
    error.status = Status::kUnsupported;
  }
  const auto data = sent->find("data");
  if (data == sent->end() || !data->is_object()) return error;
  const auto status = data->find("status");
  if (status != data->end() && status->is_number_unsigned()) {
    const auto number = status->get<std::uint64_t>();
    if (number != 0 && number < kStatusCount) error.status = static_cast<Status>(number);
  }
  return error;
}

}  // namespace

Result<RpcChannel> RpcChannel::connect_tcp(std::string_view address, Nanos deadline,
                                           const net::tls::Credentials& credentials,
                                           Nanos handshake) {
  auto targets = net::resolve_tcp(address, false);
  if (!targets) return targets.error();
  for (;;) {
    int number = 0;
    for (const net::SocketAddress& target : *targets) {
      // The last attempt too leaves time for the network's answer.
      net::Attempt attempt = try_tcp(target, std::max(deadline, monotonic_now() + handshake));
      number = attempt.error;
      if (!attempt.socket) return no_socket(number);
      if (number != 0) continue;
      RpcChannel channel(std::move(attempt.socket), std::string(address), credentials);
      if (credentials.in_clear()) return channel;
      const auto secured = channel.secure(std::max(deadline, monotonic_now() + handshake));
      return secured ? Result<RpcChannel>(std::move(channel)) : secured.error();
    }
    const Nanos left = deadline - monotonic_now();
    if (number != ECONNREFUSED || left <= 0) {
      return Error{Status::kUnavailable,
                   fmt::format("cannot connect to {}: {}; is tallyd running there, with "
                               "--listen-tcp?",
                               address, std::strerror(number))};
    }
    pause(std::min(left, kConnectPause));
  }
}

Outcome RpcChannel::secure(Nanos deadline) {
  auto context = credentials_.context();
  if (!context) return context.error();
  // As the caller wrote it, because a certificate is for that.
  const auto where = net::parse_host_port("address", address_.substr(net::kTcpScheme.size()));
  std::string host = where ? where->host : remote_host();
  if (host.starts_with('[')) host = host.substr(1, host.size() - 2);
  auto stream = net::tls::Stream::client(*context, socket_.get(), host);
  if (!stream) return stream.error();
  stream_.emplace(std::move(stream).value());
  for (;;) {
    const auto step = stream_->handshake();
    if (step == net::tls::Handshake::kDone) return Unit{};
    if (step == net::tls::Handshake::kFailed) return no_handshake();
    const short events = step == net::tls::Handshake::kWantsRead ? POLLIN : POLLOUT;
    if (!net::wait_for(socket_.get(), events, deadline)) return no_answer();
  }
}

Error RpcChannel::no_handshake() const {
  switch (stream_->failure()) {
    case net::tls::Stream::Failure::kNetwork:
      return {Status::kUnavailable,
              fmt::format("tallyd at {} ended the connection: {}", address_, stream_->why())};
    case net::tls::Stream::Failure::kProtocol:
      return {Status::kRefused,
              fmt::format("tallyd at {} does not speak TLS: it has no secret, or is of an earlier "
                          "release; to use it in clear, set $TALLY_INSECURE=1",
                          address_)};
    case net::tls::Stream::Failure::kCertificate:
      return {Status::kRefused, fmt::format("the certificate of tallyd at {} is not accepted: {}",
                                            address_, stream_->why())};
    default:
      return {Status::kRefused,
              fmt::format(
                  "tallyd at {} and this process do not accept each other's token, "
                  "secret or certificate: is it one of this cluster, not expired, and not revoked? "
                  "(tallyd's log says why)",
                  address_)};
  }
}

Outcome RpcChannel::check_owner() const {
  if (stream_ || address_.starts_with(net::kTcpScheme)) return Unit{};
  return check_socket_owner(socket_.get(), address_);
}

std::string RpcChannel::local_host() const {
  return net::local_host(socket_.get());
}

std::string RpcChannel::remote_host() const {
  return net::remote_host(socket_.get());
}

Result<RpcChannel> RpcChannel::connect(std::string_view address, Nanos deadline,
                                       const net::tls::Credentials& credentials, Nanos handshake) {
  if (address.starts_with(net::kTcpScheme)) {
    return connect_tcp(address, deadline, credentials, handshake);
  }
  auto parsed = net::parse_address(address);
  if (!parsed) return parsed.error();
  const auto* target = reinterpret_cast<const sockaddr*>(&parsed->socket);
  for (;;) {
    // A fresh socket for each attempt. It is non-blocking because a full backlog must not block the
    // client for ever.
    UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!socket) return no_socket(errno);
    if (::connect(socket.get(), target, sizeof parsed->socket) == 0) {
      return RpcChannel(std::move(socket), std::string(address), credentials);
    }
    const ConnectFailure failure{errno};
    const Nanos left = deadline - monotonic_now();
    if (!failure.may_be_starting() || left <= 0) return unavailable(*parsed, failure.number);
    pause(std::min(left, kConnectPause));
  }
}

Result<RpcChannel> RpcChannel::connect_first(std::string_view addresses,
                                             const net::tls::Credentials& credentials,
                                             Nanos handshake) {
  Error all{Status::kUnavailable, {}};
  for (const std::string& address : net::split_addresses(addresses)) {
    auto channel = connect(address, 0, credentials, handshake);
    if (channel) return channel;
    all.status = channel.status();
    all.message += (all.message.empty() ? "" : "; ") + channel.error().message;
  }
  return all;
}

Result<RpcChannel> RpcChannel::connect_as_user(std::string_view addresses, Nanos handshake,
                                               std::string_view token) {
  const auto credentials = net::tls::Credentials::of_user(token);
  if (!credentials) return credentials.error();
  return connect_first(addresses, *credentials, handshake);
}

Error RpcChannel::lost(std::string_view why) {
  stream_.reset();
  socket_.reset();
  received_.clear();
  return {Status::kNodeLost,
          fmt::format("the connection to tallyd at {} is lost: {}", address_, why)};
}

Outcome RpcChannel::send(std::string_view text, std::span<const int> fds, Nanos deadline) {
  alignas(cmsghdr) char control[CMSG_SPACE(kMaxFds * sizeof(int))] = {};
  const std::size_t whole = text.size();
  while (!text.empty()) {
    iovec part{const_cast<char*>(text.data()), text.size()};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    if (text.size() == whole && !fds.empty()) {  // with the first byte
      message.msg_control = control;
      message.msg_controllen = CMSG_SPACE(fds.size_bytes());
      cmsghdr* header = CMSG_FIRSTHDR(&message);
      header->cmsg_level = SOL_SOCKET;
      header->cmsg_type = SCM_RIGHTS;
      header->cmsg_len = CMSG_LEN(fds.size_bytes());
      std::memcpy(CMSG_DATA(header), fds.data(), fds.size_bytes());
    }
    const ssize_t sent = stream_ ? stream_->write(text)
                                 : ::sendmsg(socket_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0) {
      text.remove_prefix(static_cast<std::size_t>(sent));
    } else if (errno == EAGAIN) {
      if (!net::wait_for(socket_.get(), POLLOUT, deadline)) {
        // The node has half a request: it would take anything that follows for the other half.
        return text.size() == whole ? Error{Status::kDeadline, "tallyd does not read its requests"}
                                    : lost("tallyd stopped in the middle of reading a request");
      }
    } else if (errno == EPIPE || errno == ECONNRESET || errno == EPROTO) {
      return Unit{};  // the node may have sent a reason before it hung up; the caller receives it
    } else if (errno != EINTR) {
      const std::string why = std::strerror(errno);
      if (text.size() != whole) return lost(why);
      return Error{Status::kInvalidArgument,
                   fmt::format("cannot send the request with {} descriptors: {}", fds.size(), why)};
    }
  }
  return Unit{};
}

Error RpcChannel::no_answer() const {
  return {Status::kDeadline, fmt::format("tallyd at {} did not answer in time", address_)};
}

Result<std::string> RpcChannel::receive_line(Nanos deadline) {
  std::size_t searched = 0;
  for (;;) {
    if (const auto end = received_.find('\n', searched); end != std::string::npos) {
      std::string line = received_.substr(0, end);
      received_.erase(0, end + 1);
      return line;
    }
    searched = received_.size();
    if (searched > kMaxReplyBytes) return lost("its reply has no end");
    char buffer[16 << 10];
    const ssize_t count = stream_ ? stream_->read(buffer, sizeof buffer)
                                  : ::recv(socket_.get(), buffer, sizeof buffer, MSG_DONTWAIT);
    if (count > 0) {
      received_.append(buffer, static_cast<std::size_t>(count));
    } else if (count == 0) {
      return lost("tallyd ended it (tallyd's log says why)");
    } else if (errno == EAGAIN) {
      if (!net::wait_for(socket_.get(), POLLIN, deadline)) {
        return no_answer();
      }
    } else if (errno == EPROTO) {
      // A node refuses a certificate after the client's end of the handshake is done.
      const Error refusal = no_handshake();
      static_cast<void>(lost(refusal.message));
      return refusal;
    } else if (errno != EINTR) {
      return lost(std::strerror(errno));
    }
  }
}

Result<std::uint64_t> RpcChannel::request(std::string_view method, json params,
                                          std::span<const int> fds, Nanos deadline) {
  if (!socket_) return lost("it ended before");
  const std::uint64_t id = ++last_id_;
  json request = {{"jsonrpc", "2.0"}, {"id", id}, {"method", method}};
  request["params"] = std::move(params);
  // `replace`, so that text that is not UTF-8 causes no exception.
  const std::string text = request.dump(-1, ' ', false, json::error_handler_t::replace) + '\n';
  if (text.size() > kMaxRequestBytes || fds.size() > kMaxFds) {
    return Error{Status::kInvalidArgument,
                 fmt::format("request {} has {} bytes and {} descriptors; a node takes {} and {}",
                             method, text.size(), fds.size(), kMaxRequestBytes, kMaxFds)};
  }
  if (auto sent = send(text, fds, deadline); !sent) return sent.error();
  return id;
}

Result<json> RpcChannel::call(std::string_view method, json params, std::span<const int> fds,
                              Nanos deadline) {
  const auto id = request(method, std::move(params), fds, deadline);
  if (!id) return id.error();
  for (;;) {
    auto line = receive_line(deadline);
    if (!line) return line.error();
    if (auto reply = parse_reply(*line, *id)) return std::move(*reply);
    // A node that answers other requests without end gets no more time than a silent one.
    if (monotonic_now() >= deadline) return no_answer();
  }
}

Result<json> RpcChannel::identify(std::string_view method, const json& params, Nanos deadline) {
  for (;;) {
    auto answer = call(method, params, {}, deadline);
    if (answer.status() != Status::kAgain || monotonic_now() + kConnectPause >= deadline) {
      return answer;
    }
    ::usleep(kConnectPause / kMicrosecond);
    auto again = connect(address_, deadline, credentials_);
    if (!again) return again.error();
    if (const auto trusted = again->check_owner(); !trusted) return trusted.error();
    *this = std::move(again).value();
  }
}

Result<json> RpcChannel::query(std::string_view method, const json& params, Nanos deadline) {
  auto answer = call(method, params, {}, deadline);
  // Before the node closes a connection to make room for another, it sends status `again` on it.
  const bool ended = answer.status() == Status::kNodeLost ||
                     (answer.status() == Status::kAgain &&
                      net::wait_for(socket_.get(), POLLRDHUP, monotonic_now() + kGoodbye));
  if (!ended) return answer;
  auto again = connect(address_, 0, credentials_, std::max<Nanos>(deadline - monotonic_now(), 0));
  if (!again) return answer;
  *this = std::move(again).value();
  return call(method, params, {}, deadline);
}

Result<std::uint64_t> RpcChannel::ask(std::string_view method, json params, Nanos deadline) {
  return request(method, std::move(params), {}, deadline);
}

std::optional<Result<json>> RpcChannel::answer(std::uint64_t id) {
  if (!socket_) return lost("it ended before");
  for (int others = 0; others < kMostOthers; ++others) {
    const auto line = receive_line(0);
    if (!line && line.status() == Status::kDeadline) break;
    if (!line) return line.error();
    if (auto reply = parse_reply(*line, id)) return reply;
  }
  return std::nullopt;
}

Error unreadable(std::string_view method, const RpcChannel& channel) {
  return {
      Status::kProtocol,
      fmt::format("the answer of the node at {} to {} cannot be read: is it of another version?",
                  channel.address(), method)};
}

}  // namespace tally::rpc
