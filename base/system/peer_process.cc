#include "base/system/peer_process.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace tally {
namespace {

constexpr int kPeerPidfd = 77;  // SO_PEERPIDFD, Linux 6.5; Debian 12's headers do not have it

}  // namespace

UniqueFd process_behind(int socket) {
  int process = -1;
  socklen_t length = sizeof process;
  if (::getsockopt(socket, SOL_SOCKET, kPeerPidfd, &process, &length) == 0) {
    return UniqueFd(process);
  }
  // By number. This is wrong only when the peer has ended and another process has its number. Then
  // the session ends later than it could, by the hang-up.
  ucred peer{};
  length = sizeof peer;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0 || peer.pid <= 0) {
    return UniqueFd();
  }
  return UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, peer.pid, 0)));
}

bool has_ended(int process) {
  pollfd waiter{process, POLLIN, 0};
  return process >= 0 && ::poll(&waiter, 1, 0) > 0;
}

}  // namespace tally
