#include "dataplane/transport/fabric/provider_sockets.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

namespace tally::transport::fabric {
namespace {

constexpr int kMostTurns = 100;  // of progress; some 3 are enough

// Returns the descriptors that an epoll watches; none when the descriptor is not an epoll.
std::vector<int> watched_by(int epoll) {
  std::ifstream info(fmt::format("/proc/self/fdinfo/{}", epoll));
  std::vector<int> found;
  for (std::string line; std::getline(info, line);) {
    int fd = -1;
    if (std::sscanf(line.c_str(), "tfd: %d", &fd) == 1) found.push_back(fd);
  }
  return found;
}

// The port has the same place in the addresses of IPv4 and IPv6.
static_assert(offsetof(sockaddr_in, sin_port) == offsetof(sockaddr_in6, sin6_port));

bool is_at(int socket, std::uint16_t port) {
  sockaddr_in6 name{};
  socklen_t bytes = sizeof name;
  return ::getsockname(socket, reinterpret_cast<sockaddr*>(&name), &bytes) == 0 &&
         (name.sin6_family == AF_INET || name.sin6_family == AF_INET6) &&
         ntohs(name.sin6_port) == port;
}

bool listens(int socket) {
  int listening = 0;
  socklen_t bytes = sizeof listening;
  return ::getsockopt(socket, SOL_SOCKET, SO_ACCEPTCONN, &listening, &bytes) == 0 && listening != 0;
}

}  // namespace

int sockets_behind(int wait_fd) {
  for (const int fd : watched_by(wait_fd)) {
    if (!watched_by(fd).empty()) return fd;
  }
  return wait_fd;
}

void end_connections(int sockets, std::uint16_t port, const std::function<void()>& progress) {
  std::vector<int> accepted;
  for (const int socket : watched_by(sockets)) {
    if (!is_at(socket, port)) continue;
    if (!listens(socket)) accepted.push_back(socket);
    ::shutdown(socket, SHUT_RDWR);
  }
  const auto is_open = [&](int socket) { return is_at(socket, port); };
  for (int turn = 0; turn < kMostTurns; ++turn) {
    if (std::none_of(accepted.begin(), accepted.end(), is_open)) return;
    progress();
  }
}

}  // namespace tally::transport::fabric
