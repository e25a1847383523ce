#include "client/device/device_session.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

#include "base/idle.h"

namespace tally::client {
namespace {

constexpr Nanos kDeviceClosing = 5 * kSecond;        // for the devices when a session ends
constexpr Nanos kFailuresEvery = 10 * kMillisecond;  // for devices that have failed
// A device writes its words without waking a thread. A thread that has waited for a time sleeps a
// fraction of it more, so that it costs little and is late by little.
constexpr Nanos kShortestSleep = 20 * kMicrosecond;
constexpr Nanos kLongestSleep = 500 * kMicrosecond;
constexpr Nanos kSleepFraction = 16;

void make_readable(int fd) {
  const std::uint64_t one = 1;
  static_cast<void>(::write(fd, &one, sizeof one));
}

void make_silent(int fd) {
  std::uint64_t count = 0;
  static_cast<void>(::read(fd, &count, sizeof count));
}

}  // namespace

Result<std::unique_ptr<DeviceSession>> DeviceSession::begin(const cuda::Driver& driver,
                                                            Session& session) {
  UniqueFd wake(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  UniqueFd completed(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake || !completed) {
    return Error{Status::kNoMemory, std::string("eventfd: ") + std::strerror(errno)};
  }
  std::unique_ptr<DeviceSession> begun(
      new DeviceSession(driver, session, std::move(wake), std::move(completed)));
  begun->thread_ = std::thread([self = begun.get()] { self->run(); });
  return begun;
}

DeviceSession::~DeviceSession() {
  auto lock = this->lock();
  const Nanos until = monotonic_now() + kDeviceClosing;
  operations_.cancel_all();
  while (operations_.outstanding() > 0 && monotonic_now() < until) {
    completion_.wait_for(lock, std::chrono::milliseconds(20));
  }
  if (operations_.outstanding() > 0) {
    session_.log(1,
                 "the session is closed although a CUDA stream has not reached an operation that "
                 "was posted to it: its buffers keep their old bytes");
  }
  ending_ = true;
  make_readable(wake_fd_.get());
  lock.unlock();
  thread_.join();
}

// -- calls ---------------------------------------------------------------------------------------

Outcome DeviceSession::post(const Post& post, cuda::Stream stream) {
  wake();
  const std::uint32_t tag = post.notice.tag;
  // Until the caller takes the completion, the operation is outstanding for it.
  if (operations_.has(tag) || has_completed(tag)) {
    return refusal(Status::kDuplicate, tag, session_.book_config().credit);
  }
  if (operations_.owns(post.in) || operations_.owns(post.out)) {
    return operations_.post(post, stream);
  }
  if (tag >= Chunks::kFirstTag) {
    return invalid("tag " + std::to_string(tag) +
                   ": must be below 2147483648 in a session with memory of devices, because the "
                   "chunks of their operations have the tags from there on");
  }
  const auto posted = session_.post(post);
  return posted ? Outcome(Unit{}) : posted.error();
}

Outcome DeviceSession::cancel(std::uint32_t tag) {
  wake();
  if (operations_.cancel(tag)) return Unit{};
  return has_completed(tag) ? Outcome(Unit{}) : session_.cancel(tag);
}

bool DeviceSession::has_completed(std::uint32_t tag) const {
  return std::any_of(completed_.begin(), completed_.end(),
                     [&](const Completed& one) { return one.tag == tag; });
}

bool DeviceSession::poll(Completed& completed) {
  if (completed_.empty()) return false;
  completed = std::move(completed_.front());
  completed_.pop_front();
  return true;
}

std::uint32_t DeviceSession::outstanding() const {
  return operations_.outstanding() + session_.outstanding();
}

template <typename Wanted>
Outcome DeviceSession::wait_until(std::unique_lock<std::mutex>& lock, Completed& completed,
                                  Nanos until, Wanted wanted) {
  for (;;) {
    const auto found = std::find_if(completed_.begin(), completed_.end(), wanted);
    if (found != completed_.end()) {
      completed = std::move(*found);
      completed_.erase(found);
      return Unit{};
    }
    if (session_.held_back()) return *session_.held_back();
    if (outstanding() == 0) {
      if (session_.lost()) return *session_.lost();
      return invalid("nothing is outstanding: there is nothing to wait for; post first");
    }
    const Nanos now = monotonic_now();
    if (now >= until) {
      return Error{Status::kAgain, "no completion in time: " + std::to_string(outstanding()) +
                                       " operations are outstanding"};
    }
    // The loop also looks every 100 ms, because held_back() wakes no thread.
    const Nanos longest = std::min(until - now, 100 * kMillisecond);
    completion_.wait_for(lock, std::chrono::nanoseconds(longest));
  }
}

Outcome DeviceSession::wait(std::unique_lock<std::mutex>& lock, Completed& completed, Nanos until) {
  return wait_until(lock, completed, until, [](const Completed&) { return true; });
}

Outcome DeviceSession::wait_for(std::unique_lock<std::mutex>& lock, std::uint32_t tag,
                                Completed& completed) {
  return wait_until(lock, completed, kForever,
                    [&](const Completed& one) { return one.tag == tag; });
}

bool DeviceSession::arm() {
  make_silent(completed_fd_.get());
  armed_ = completed_.empty();
  return armed_;
}

// -- the thread ----------------------------------------------------------------------------------

void DeviceSession::wake() {
  if (sleeping_) make_readable(wake_fd_.get());
}

void DeviceSession::run() {
  ::prctl(PR_SET_NAME, "tally-device");
  ::prctl(PR_SET_TIMERSLACK, 1);  // short sleeps are short
  operations_.allow_calls_during_captures();
  IdlePolicy idle;
  for (;;) {
    const Nanos now = monotonic_now();
    bool worked = false;
    {
      const auto lock = this->lock();
      if (ending_) return;
      worked = step();
    }
    if (worked) {
      idle.worked(now);
    } else {
      idle.rest(now, [&] { rest(now); });
    }
  }
}

bool DeviceSession::step() {
  bool worked = false;
  const std::size_t before = completed_.size();
  Completed completed;
  while (session_.poll(completed)) {
    worked = true;
    if (!operations_.take(completed)) completed_.push_back(std::move(completed));
  }
  worked |= operations_.progress();
  while (operations_.take_finished(completed)) completed_.push_back(std::move(completed));
  const Nanos now = monotonic_now();
  if (worked || !operations_.waits_for_device()) {
    waiting_since_ = 0;
  } else if (waiting_since_ == 0) {
    waiting_since_ = now;
  }
  if (waiting_since_ != 0 && now >= next_look_) {
    operations_.look_for_failures();
    next_look_ = now + kFailuresEvery;
  }
  if (completed_.size() == before) return worked;
  completion_.notify_all();
  if (armed_) make_readable(completed_fd_.get());
  armed_ = false;
  return true;
}

// Sleeps until the session or the caller has something, or for as long as a device may take.
void DeviceSession::rest(Nanos now) {
  Nanos longest = kSecond;
  {
    const auto lock = this->lock();
    if (!session_.held_back() && !session_.arm()) return;
    // A post since the last step has begun to wait for a device.
    if (waiting_since_ == 0 && operations_.waits_for_device()) return;
    if (waiting_since_ != 0) {
      longest = std::clamp((now - waiting_since_) / kSleepFraction, kShortestSleep, kLongestSleep);
    } else if (session_.outstanding() > 0) {
      longest = 20 * kMillisecond;
    }
    sleeping_ = true;
  }
  std::array<pollfd, 2> events{pollfd{wake_fd_.get(), POLLIN, 0}, pollfd{session_.fd(), POLLIN, 0}};
  const timespec time{longest / kSecond, longest % kSecond};
  ::ppoll(events.data(), events.size(), &time, nullptr);
  const auto lock = this->lock();
  sleeping_ = false;
  if (events[0].revents != 0) make_silent(wake_fd_.get());
}

}  // namespace tally::client
