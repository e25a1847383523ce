// What the threads that follow devices have in common: their start, their sleep, and the
// descriptors that wake them. A device writes a word, or ends its work, without waking a thread.
#pragma once

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <span>
#include <string>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "base/result.h"
#include "base/system/blocked_signals.h"
#include "base/system/fd.h"

namespace tally::gpu {

// Starts a thread with this name, of at most 15 characters. It gets no signals, because their
// handlers belong to the program's own threads, and its short sleeps are short. Throws
// std::system_error when the process may have no more threads.
template <typename Body>
std::thread start_progress_thread(const char* name, Body body) {
  const BlockedSignals blocked;
  return std::thread([name, body = std::move(body)] {
    ::prctl(PR_SET_NAME, name);
    ::prctl(PR_SET_TIMERSLACK, 1);
    body();
  });
}

// How long a thread sleeps that has waited for a device for `waited`: a fraction of it, so that the
// thread costs little and is late by little.
inline Nanos sleep_after(Nanos waited) {
  constexpr Nanos kFraction = 16;
  constexpr Nanos kShortest = 20 * kMicrosecond;
  constexpr Nanos kLongest = 500 * kMicrosecond;
  return std::clamp(waited / kFraction, kShortest, kLongest);
}

inline Result<UniqueFd> make_event_fd() {
  UniqueFd made(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (made) return made;
  return Error{Status::kNoMemory, std::string("eventfd: ") + std::strerror(errno)};
}

// Both take a descriptor of make_event_fd(). Any thread, also in a host function of CUDA.
inline void make_readable(int event_fd) {
  const std::uint64_t one = 1;
  static_cast<void>(!::write(event_fd, &one, sizeof one));
}
inline void make_unreadable(int event_fd) {
  std::uint64_t count = 0;
  static_cast<void>(!::read(event_fd, &count, sizeof count));
}

// Sleeps until a descriptor has an event, but not longer than `longest`.
inline void sleep_until_event(std::span<pollfd> events, Nanos longest) {
  const timespec time{longest / kSecond, longest % kSecond};
  ::ppoll(events.data(), events.size(), &time, nullptr);
}

}  // namespace tally::gpu
