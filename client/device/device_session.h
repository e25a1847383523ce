// A session that has memory of devices. A thread of its own follows the devices and the nodes, so
// that a stream goes on while the caller does other things. Calls of the caller and steps of the
// thread alternate under a lock, which the caller holds for all functions but the first three.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "base/clock.h"
#include "base/result.h"
#include "base/system/fd.h"
#include "client/device/device_operations.h"
#include "client/session/session.h"

namespace tally::client {

class DeviceSession {
 public:
  // Uses the session from now on, which must outlive the object. Begins the thread.
  static Result<std::unique_ptr<DeviceSession>> begin(const cuda::Driver& driver, Session& session);
  // Cancels what is outstanding and waits a few seconds for the devices. Ends the thread. No stream
  // waits for an operation afterwards.
  ~DeviceSession();
  std::unique_lock<std::mutex> lock() { return std::unique_lock(mutex_); }

  DeviceOperations& operations() { return operations_; }
  // As Session's, for operations on memory of devices and others.
  Outcome post(std::unique_lock<std::mutex>& lock, const Post& post, cuda::Stream stream);
  Outcome cancel(std::uint32_t tag);
  bool poll(Completed& completed);
  // Gives the lock up while it waits.
  Outcome wait(std::unique_lock<std::mutex>& lock, Completed& completed, Nanos until);
  // Waits for an operation of this tag.
  Outcome wait_for(std::unique_lock<std::mutex>& lock, std::uint32_t tag, Completed& completed);

  // Becomes readable when there are completions.
  int fd() const { return completed_fd_.get(); }
  bool arm();  // false when completions are there already, or with held_back() of the session

 private:
  DeviceSession(const cuda::Driver& driver, Session& session, UniqueFd wake, UniqueFd completed)
      : session_(session),
        wake_fd_(std::move(wake)),
        completed_fd_(std::move(completed)),
        operations_(driver, session, wake_fd_.get()) {}

  void run();
  bool step();              // true when it has done something
  bool take_completions();  // of the session
  void rest(Nanos now);
  void wake();
  std::uint32_t outstanding() const;
  // Whether there is a completion of this tag that the caller has not taken.
  bool has_completed(std::uint32_t tag) const;
  template <typename Wanted>
  Outcome wait_until(std::unique_lock<std::mutex>& lock, Completed& completed, Nanos until,
                     Wanted wanted);

  Session& session_;
  UniqueFd wake_fd_;
  UniqueFd completed_fd_;
  std::mutex mutex_;
  std::condition_variable completion_;
  DeviceOperations operations_;
  std::deque<Completed> completed_;
  bool ending_ = false;
  bool sleeping_ = false;
  // Whether a completion makes fd() readable. From the beginning, because the caller may have armed
  // the session before.
  bool armed_ = true;
  Nanos waiting_since_ = 0;  // for a device; 0: not
  Nanos next_look_ = 0;
  std::thread thread_;
};

}  // namespace tally::client
