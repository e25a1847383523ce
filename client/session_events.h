// What a session sleeps on: its link's doorbells, an alarm, and the end of the control connection.
#pragma once

#include <sys/epoll.h>

#include <array>
#include <cstdint>
#include <vector>

#include "base/clock.h"
#include "base/fd.h"
#include "base/result.h"

namespace tally::client {

class SessionEvents {
 public:
  // `connection`: of control, whose hang-up means that the node is gone; borrowed. It is read
  // elsewhere: only its end is news here.
  static Result<SessionEvents> make(int connection);

  // `data`: below kReserved; comes back in hear(). False with errno set.
  bool add(int fd, std::uint32_t events, std::uint32_t data);

  // Readable when something has happened, or the alarm has come.
  int fd() const { return epoll_.get(); }
  void set_alarm(Nanos when);  // kForever: none

  // Calls `happened(data)` for what was added; true when the connection has ended, also before. A
  // few system calls.
  template <typename Happened>
  bool hear(Happened happened) {
    std::array<epoll_event, 16> events;
    const int count = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), 0);
    for (int i = 0; i < count; ++i) {
      const std::uint32_t data = events[static_cast<std::size_t>(i)].data.u32;
      if (data < kReserved) {
        happened(data);
      } else {
        own(data);
      }
    }
    return ended_;
  }

  // Nothing is heard of any more.
  void forget_all();

 private:
  static constexpr std::uint32_t kReserved = UINT32_MAX - 1;
  static constexpr std::uint32_t kAlarm = kReserved;
  static constexpr std::uint32_t kConnection = kReserved + 1;

  void own(std::uint32_t data);

  UniqueFd epoll_;
  UniqueFd alarm_;
  std::vector<int> watched_;
  bool ended_ = false;
};

}  // namespace tally::client
