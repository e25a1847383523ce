#include "client/device/device_session.h"

#include <poll.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <utility>

#include "base/idle.h"
#include "gpu_bridge/stream/progress_thread.h"

namespace tally::client {
namespace {

constexpr Nanos kDeviceClosing = 5 * kSecond;        // for the devices when a session ends
constexpr Nanos kFailuresEvery = 10 * kMillisecond;  // for devices that have failed

}  // namespace

Result<std::unique_ptr<DeviceSession>> DeviceSession::begin(const cuda::Driver& driver,
                                                            Session& session) {
  auto wake = gpu::make_event_fd();
  auto completed = gpu::make_event_fd();
  if (!wake) return wake.error();
  if (!completed) return completed.error();
  std::unique_ptr<DeviceSession> begun(
      new DeviceSession(driver, session, std::move(*wake), std::move(*completed)));
  begun->thread_ =
      gpu::start_progress_thread("tally-device", [self = begun.get()] { self->run(); });
  return begun;
}

DeviceSession::~DeviceSession() {
  auto lock = this->lock();
  const Nanos until = monotonic_now() + kDeviceClosing;
  operations_.cancel_all();
  wake();
  while (!operations_.is_idle() && monotonic_now() < until) {
    completion_.wait_for(lock, std::chrono::milliseconds(1));
  }
  if (!operations_.is_idle()) {
    session_.log(1,
                 "the session is closed although a CUDA stream has not reached an operation that "
                 "was posted to it: when it does, the result has undefined content; the "
                 "operation's pinned memory stays until the process ends");
  }
  ending_ = true;
  gpu::make_readable(wake_fd_.get());
  lock.unlock();
  if (thread_.joinable()) thread_.join();
}

// -- calls ---------------------------------------------------------------------------------------

Outcome DeviceSession::post(std::unique_lock<std::mutex>& lock, const Post& post,
                            cuda::Stream stream) {
  wake();
  const std::uint32_t tag = post.notice.tag;
  // Until the caller takes the completion, the operation is outstanding for it.
  if (operations_.has(tag) || has_completed(tag)) {
    return refusal(Status::kDuplicate, tag, session_.book_config().credit);
  }
  if (operations_.owns(post.in) || operations_.owns(post.out)) {
    return operations_.post(lock, post, stream);
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
      if (take_completions()) continue;  // of operations that the session has ended itself
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
  gpu::make_unreadable(completed_fd_.get());
  armed_ = completed_.empty() && !session_.held_back();
  return armed_;
}

// -- the thread ----------------------------------------------------------------------------------

void DeviceSession::wake() {
  if (sleeping_) gpu::make_readable(wake_fd_.get());
}

void DeviceSession::run() {
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

bool DeviceSession::take_completions() {
  bool any = false;
  Completed completed;
  while (session_.poll(completed)) {
    any = true;
    if (!operations_.take(completed)) completed_.push_back(std::move(completed));
  }
  return any;
}

bool DeviceSession::step() {
  const std::size_t before = completed_.size();
  bool worked = take_completions();
  worked |= operations_.progress();
  Completed completed;
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
  const bool has_more = completed_.size() != before;
  if (has_more) completion_.notify_all();
  // A session that is over also wakes the caller.
  if (armed_ && (has_more || session_.held_back())) {
    gpu::make_readable(completed_fd_.get());
    armed_ = false;
  }
  return worked || has_more;
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
      longest = gpu::sleep_after(now - waiting_since_);
    } else if (session_.outstanding() > 0) {
      longest = 20 * kMillisecond;
    }
    sleeping_ = true;
  }
  std::array<pollfd, 2> events{pollfd{wake_fd_.get(), POLLIN, 0}, pollfd{session_.fd(), POLLIN, 0}};
  gpu::sleep_until_event(events, longest);
  const auto lock = this->lock();
  sleeping_ = false;
  if (events[0].revents != 0) gpu::make_unreadable(wake_fd_.get());
}

}  // namespace tally::client
