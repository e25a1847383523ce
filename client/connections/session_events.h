// The events for which a session sleeps: the doorbells of its connection, an alarm, and the end of
// the control connection.
#pragma once

#include <sys/epoll.h>

#include <array>
#include <cstdint>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "base/system/alarm.h"
#include "base/system/fd.h"

namespace tally::client {

class SessionEvents {
 public:
  // `connection` is the control connection, borrowed. Its hang-up means that the node is gone.
  // Another reader takes its data; only its end is an event here.
  static Result<SessionEvents> make(int connection);

  // `data` must be below kReserved; read() passes it to its callback. False with errno set.
  bool add(int fd, std::uint32_t events, std::uint32_t data);

  // Readable when an event has happened or the alarm has come.
  int fd() const { return epoll_.get(); }
  // As Alarm::set().
  void set_alarm(Nanos when) { alarm_.set(when); }

  // Calls `happened(data)` for each event of an added descriptor. Returns true when the control
  // connection has ended, also in an earlier call. Takes a few system calls.
  template <typename Happened>
  bool read(Happened happened) {
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

  // Removes all descriptors, so that no event comes any more.
  void forget_all();

 private:
  static constexpr std::uint32_t kReserved = UINT32_MAX - 1;
  static constexpr std::uint32_t kAlarm = kReserved;
  static constexpr std::uint32_t kConnection = kReserved + 1;

  void own(std::uint32_t data);

  UniqueFd epoll_;
  Alarm alarm_;
  std::vector<int> watched_;
  bool ended_ = false;
};

}  // namespace tally::client
