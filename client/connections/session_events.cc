#include "client/connections/session_events.h"

#include <fmt/format.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/system/epoll.h"

namespace tally::client {

Result<SessionEvents> SessionEvents::make(int connection) {
  SessionEvents made;
  made.epoll_ = UniqueFd(::epoll_create1(EPOLL_CLOEXEC));
  made.alarm_ = UniqueFd(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  if (!made.epoll_ || !made.alarm_ || !made.add(made.alarm_.get(), EPOLLIN, kAlarm) ||
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

void SessionEvents::set_alarm(Nanos when) {
  if (when == std::exchange(alarm_at_, when)) return;
  itimerspec time{};  // all zero: none
  if (when != kForever) time.it_value = {when / kSecond, when % kSecond};
  ::timerfd_settime(alarm_.get(), TFD_TIMER_ABSTIME, &time, nullptr);
}

void SessionEvents::own(std::uint32_t data) {
  if (data == kConnection) {
    ended_ = true;  // only hang-ups are watched there
    return;
  }
  alarm_at_ = kForever;
  std::uint64_t ticks = 0;
  static_cast<void>(!::read(alarm_.get(), &ticks, sizeof ticks));
}

void SessionEvents::forget_all() {
  for (const int fd : watched_) ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
  watched_.clear();
}

}  // namespace tally::client
