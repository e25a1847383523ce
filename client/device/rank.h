// A session of a rank with all kinds of memory: operations on host memory go to the session
// directly, until the first region is memory of a device. From then on all go through a
// DeviceSession. One thread at a time uses it, but for fd(). A caller holds lock() during the
// others.
#pragma once

#include <memory>
#include <mutex>
#include <utility>

#include "base/clock.h"
#include "base/result.h"
#include "base/system/fd.h"
#include "client/device/device_session.h"
#include "client/session/session.h"

namespace tally::client {

class Rank {
 public:
  using Lock = std::unique_lock<std::mutex>;

  explicit Rank(std::unique_ptr<Session> session) : session_(std::move(session)) {}

  Session& session() const { return *session_; }
  // Owns no mutex while the session has no memory of devices.
  Lock lock() const { return device_ != nullptr ? device_->lock() : Lock(); }

  // Registers `bytes` of memory of a CUDA device. kUnsupported: this machine has no CUDA.
  Result<Region*> add_cuda_region(std::uint64_t data, std::size_t bytes, Lock& lock);
  Outcome remove_region(Lock& lock, Region* region);
  // Between the caller's memory and the nodes', by the CPU and by devices.
  std::uint64_t copied_bytes() const;

  // `stream` orders the operation when a buffer is memory of a device, and must be null otherwise.
  Outcome post(Lock& lock, const Post& post, cuda::Stream stream);
  Outcome cancel(std::uint32_t tag);
  bool poll(Completed& completed);
  Outcome wait(Lock& lock, Completed& completed, Nanos until);
  // post() and the wait for its completion. Keeps other completions for poll() and wait().
  Outcome run(Lock& lock, const Post& post, cuda::Stream stream, Completed& completed);

  // The same descriptor for the life of the object; -1 when the process has no more. Any thread.
  int fd();
  bool arm();  // false when completions are there already, or with held_back() of the session

 private:
  Outcome check_stream(const Post& post, cuda::Stream stream) const;

  std::unique_ptr<Session> session_;
  std::unique_ptr<DeviceSession> device_;  // ends before the session
  std::mutex fd_mutex_;
  UniqueFd fd_;  // an epoll, over source_; made at the first call of fd()
  int source_ = -1;
};

}  // namespace tally::client
