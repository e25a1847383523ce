#include "perf/channel.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <nlohmann/json.hpp>

namespace tally::perf {
namespace {

// A reader that takes nothing for so long has stopped.
constexpr Nanos kSendPatience = 20 * kSecond;

// False when the deadline came first.
bool wait_for(int fd, short events, Nanos deadline) {
  for (;;) {
    const Nanos left = deadline == kForever ? kSecond : deadline - monotonic_now();
    if (left <= 0) return false;
    pollfd entry{fd, events, 0};
    const Nanos ms = std::min<Nanos>(left / kMillisecond + 1, 1000);
    if (::poll(&entry, 1, static_cast<int>(ms)) > 0) return true;
  }
}

}  // namespace

bool Channel::send(const nlohmann::json& message) {
  const std::string line =
      message.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + '\n';
  const Nanos deadline = monotonic_now() + kSendPatience;
  std::size_t sent = 0;
  while (sent < line.size()) {
    const ssize_t n =
        ::send(socket_.get(), line.data() + sent, line.size() - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n >= 0) {
      sent += static_cast<std::size_t>(n);
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      if (!wait_for(socket_.get(), POLLOUT, deadline)) return false;
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
    broken_ = broken_ || received_.size() > kMaxLine;
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
    if (broken_ || !wait_for(socket_.get(), POLLIN, deadline) || !read_available()) {
      return std::nullopt;
    }
  }
}

}  // namespace tally::perf
