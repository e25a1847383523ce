#include "net/line_channel.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <nlohmann/json.hpp>

#include "net/tcp.h"

namespace tally::net {
namespace {

// A reader that takes nothing for this long has stopped.
constexpr Nanos kSendTimeout = 20 * kSecond;

}  // namespace

bool Channel::send(const nlohmann::json& message) {
  const std::string line =
      message.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + '\n';
  const Nanos deadline = monotonic_now() + kSendTimeout;
  std::size_t sent = 0;
  while (sent < line.size()) {
    const ssize_t n =
        ::send(socket_.get(), line.data() + sent, line.size() - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n >= 0) {
      sent += static_cast<std::size_t>(n);
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      if (!net::wait_for(socket_.get(), POLLOUT, deadline)) return false;
    } else if (errno != EINTR) {
      return false;
    }
  }
  return true;
}

bool Channel::read_available() {
  char buffer[1 << 16];
  ssize_t n = 0;
  do {
    n = ::recv(socket_.get(), buffer, sizeof buffer, MSG_DONTWAIT);
  } while (n < 0 && errno == EINTR);
  if (n < 0) return errno == EAGAIN || errno == EWOULDBLOCK;
  received_.append(buffer, static_cast<std::size_t>(n));
  return n > 0 && !broken_;
}

std::optional<nlohmann::json> Channel::next() {
  const std::size_t end = received_.find('\n', searched_);
  if (end == std::string::npos) {
    searched_ = received_.size();
    broken_ = broken_ || received_.size() > max_line_;
    return std::nullopt;
  }
  searched_ = 0;
  auto message =
      nlohmann::json::parse(received_.begin(), received_.begin() + static_cast<long>(end), nullptr,
                            /*allow_exceptions=*/false);
  received_.erase(0, end + 1);
  if (message.is_object()) return message;
  broken_ = true;
  return std::nullopt;
}

std::optional<nlohmann::json> Channel::receive(Nanos deadline) {
  for (;;) {
    if (auto message = next()) return message;
    if (broken_ || !net::wait_for(socket_.get(), POLLIN, deadline) || !read_available()) {
      return std::nullopt;
    }
  }
}

}  // namespace tally::net
