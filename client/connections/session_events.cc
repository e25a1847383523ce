#include "client/connections/session_events.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>

#include "base/system/epoll.h"

namespace tally::client {

Result<SessionEvents> SessionEvents::make(int connection) {
  SessionEvents made;
  made.epoll_ = UniqueFd(::epoll_create1(EPOLL_CLOEXEC));
  if (!made.epoll_ || made.alarm_.fd() < 0 || !made.add(made.alarm_.fd(), EPOLLIN, kAlarm) ||
      !made.add(connection, EPOLLRDHUP, kConnection)) {
    return Error{Status::kNoMemory,
                 fmt::format("descriptors for a session: {}", std::strerror(errno))};
  }
  return made;
}

bool SessionEvents::add(int fd, std::uint32_t events, std::uint32_t data) {
  const bool watched = watch(epoll_.get(), fd, events, data);
  if (watched) watched_.push_back(fd);
  return watched;
}

void SessionEvents::own(std::uint32_t data) {
  if (data == kConnection) {
    ended_ = true;  // only hang-ups are watched there
    return;
  }
  alarm_.take();
}

void SessionEvents::forget_all() {
  for (const int fd : watched_) ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
  watched_.clear();
}

}  // namespace tally::client
