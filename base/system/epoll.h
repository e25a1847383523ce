// Adds a descriptor to an epoll instance, level-triggered.
#pragma once

#include <sys/epoll.h>

#include <cstdint>

namespace tally {

// The events return `data`. Returns false and sets errno when the kernel cannot watch the
// descriptor.
inline bool watch(int epoll, int fd, std::uint32_t events, std::uint32_t data = 0) {
  epoll_event event{};
  event.events = events;
  event.data.u32 = data;
  return ::epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0;
}

}  // namespace tally
