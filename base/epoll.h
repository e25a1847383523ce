// Adding to an epoll, level-triggered.
#pragma once

#include <sys/epoll.h>

#include <cstdint>

namespace tally {

// `data` comes back with the events. False with errno set when it cannot be watched.
inline bool watch(int epoll, int fd, std::uint32_t events, std::uint32_t data = 0) {
  epoll_event event{};
  event.events = events;
  event.data.u32 = data;
  return ::epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0;
}

}  // namespace tally
