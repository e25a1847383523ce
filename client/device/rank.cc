#include "client/device/rank.h"

#include <fmt/format.h>
#include <sys/epoll.h>

#include "base/system/epoll.h"

namespace tally::client {

Result<Region*> Rank::add_cuda_region(std::uint64_t data, std::size_t bytes, Lock& lock) {
  const auto driver = cuda::system_driver();
  if (!driver) {
    return Error{
        Status::kUnsupported,
        fmt::format("TALLY_MEMORY_CUDA: {}; or copy to host memory first", driver.error().message)};
  }
  if (device_ == nullptr) {
    auto begun = DeviceSession::begin(**driver, *session_);
    if (!begun) return begun.error();
    const std::lock_guard guard(fd_mutex_);
    device_ = std::move(begun).value();
    lock = device_->lock();
    if (fd_) {
      ::epoll_ctl(fd_.get(), EPOLL_CTL_DEL, source_, nullptr);
      source_ = device_->fd();
      watch(fd_.get(), source_, EPOLLIN, 0);
    }
  }
  return device_->operations().add_region(lock, data, bytes);
}

std::uint64_t Rank::copied_bytes() const {
  return session_->copied_bytes() + (device_ != nullptr ? device_->operations().copied_bytes() : 0);
}

Outcome Rank::remove_region(Lock& lock, Region* region) {
  if (device_ != nullptr && device_->operations().owns(region)) {
    return device_->operations().remove_region(lock, region);
  }
  return session_->remove_region(region);
}

Outcome Rank::check_stream(const Post& post, cuda::Stream stream) const {
  if (stream == nullptr) return Unit{};
  if (device_ != nullptr &&
      (device_->operations().owns(post.in) || device_->operations().owns(post.out))) {
    return Unit{};
  }
  return invalid(
      fmt::format("tag {}: stream {}: must be NULL, because no buffer is a region of kind "
                  "TALLY_MEMORY_CUDA that the library has registered",
                  post.notice.tag, static_cast<void*>(stream)));
}

Outcome Rank::post(Lock& lock, const Post& post, cuda::Stream stream) {
  if (auto fine = check_stream(post, stream); !fine) return fine;
  if (device_ != nullptr) return device_->post(lock, post, stream);
  const auto posted = session_->post(post);
  return posted ? Outcome(Unit{}) : posted.error();
}

Outcome Rank::cancel(std::uint32_t tag) {
  return device_ != nullptr ? device_->cancel(tag) : session_->cancel(tag);
}

bool Rank::poll(Completed& completed) {
  return device_ != nullptr ? device_->poll(completed) : session_->poll(completed);
}

Outcome Rank::wait(Lock& lock, Completed& completed, Nanos until) {
  if (device_ != nullptr) return device_->wait(lock, completed, until);
  return session_->wait(completed, until);
}

Outcome Rank::run(Lock& lock, const Post& post, cuda::Stream stream, Completed& completed) {
  if (device_ == nullptr && stream == nullptr) {
    const auto round = session_->post(post);
    return round ? session_->wait_for(post.notice.tag, *round, completed) : round.error();
  }
  if (auto fine = check_stream(post, stream); !fine) return fine;
  const auto capturing = device_->operations().is_capturing(post, stream);
  if (!capturing) return capturing.error();
  if (*capturing) {
    return invalid(
        fmt::format("tag {}: tally_run waits for a completion, and an operation that is "
                    "captured into a CUDA graph has none: use tally_post",
                    post.notice.tag));
  }
  if (auto posted = this->post(lock, post, stream); !posted) return posted;
  return device_->wait_for(lock, post.notice.tag, completed);
}

int Rank::fd() {
  const std::lock_guard guard(fd_mutex_);
  if (fd_) return fd_.get();
  UniqueFd made(::epoll_create1(EPOLL_CLOEXEC));
  source_ = device_ != nullptr ? device_->fd() : session_->fd();
  if (!made || !watch(made.get(), source_, EPOLLIN, 0)) return -1;
  fd_ = std::move(made);
  return fd_.get();
}

bool Rank::arm() {
  return device_ != nullptr ? device_->arm() : session_->arm();
}

}  // namespace tally::client
