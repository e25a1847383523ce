#include "perf/channel.h"

#include <sys/socket.h>

#include <cerrno>
#include <nlohmann/json.hpp>

namespace tally::perf {

bool Channel::send(const nlohmann::json& message) {
  const std::string line =
      message.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + '\n';
  std::size_t sent = 0;
  while (sent < line.size()) {
    const ssize_t n = ::send(socket_.get(), line.data() + sent, line.size() - sent, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return false;
    sent += static_cast<std::size_t>(n);
  }
  return true;
}

bool Channel::read_some(int flags) {
  char buffer[1 << 16];
  ssize_t n = 0;
  do {
    n = ::recv(socket_.get(), buffer, sizeof buffer, flags);
  } while (n < 0 && errno == EINTR);
  if (n < 0) return errno == EAGAIN || errno == EWOULDBLOCK;
  received_.append(buffer, static_cast<std::size_t>(n));
  return n > 0;
}

std::optional<nlohmann::json> Channel::next() {
  const std::size_t end = received_.find('\n');
  if (end == std::string::npos) return std::nullopt;
  auto message =
      nlohmann::json::parse(received_.begin(), received_.begin() + static_cast<long>(end), nullptr,
                            /*allow_exceptions=*/false);
  received_.erase(0, end + 1);
  if (message.is_discarded()) return std::nullopt;
  return message;
}

std::optional<nlohmann::json> Channel::receive() {
  for (;;) {
    if (auto message = next()) return message;
    if (!read_some(0)) return std::nullopt;
  }
}

bool Channel::read_available() {
  return read_some(MSG_DONTWAIT);
}

}  // namespace tally::perf
