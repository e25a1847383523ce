#include "integrations/python/src/machine/comm_start.h"

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>

#include "base/system/blocked_signals.h"

namespace tally::python {
namespace {

constexpr std::chrono::milliseconds kSlice{100};  // between calls of interrupted()

// Shared with the thread that is in the call, which may never return.
struct Call {
  CommStart start;
  std::mutex mutex;  // guards all below
  std::condition_variable ended_now;
  bool ended = false;
  bool is_abandoned = false;
  nccl::Code code = nccl::Code::kSuccess;
  nccl::Comm comm = nullptr;
};

void run(const std::shared_ptr<Call>& call) {
  const CommStart& start = call->start;
  const cuda::CurrentContext current(*start.driver, start.context);
  cuda::allow_calls_during_captures(*start.driver);
  nccl::Comm comm = nullptr;
  const nccl::Code code = start.library->comm_init_rank(&comm, static_cast<int>(start.ranks),
                                                        start.id, static_cast<int>(start.rank));
  const std::lock_guard lock(call->mutex);
  if (call->is_abandoned) {
    if (comm != nullptr) start.library->comm_abort(comm);
    return;
  }
  call->ended = true;
  call->code = code;
  call->comm = comm;
  call->ended_now.notify_all();
}

// Abandons a call that the caller no longer waits for.
class Waiter {
 public:
  explicit Waiter(std::shared_ptr<Call> call) : call_(std::move(call)) {}
  ~Waiter() {
    const std::lock_guard lock(call_->mutex);
    call_->is_abandoned = !call_->ended;
  }
  Waiter(const Waiter&) = delete;
  Waiter& operator=(const Waiter&) = delete;

  bool ended_within(std::chrono::milliseconds time) const {
    std::unique_lock lock(call_->mutex);
    return call_->ended_now.wait_for(lock, time, [&] { return call_->ended; });
  }

 private:
  std::shared_ptr<Call> call_;
};

}  // namespace

Result<nccl::Comm> start_comm(const CommStart& start, std::chrono::milliseconds limit,
                              const std::function<void()>& interrupted) {
  const auto call = std::make_shared<Call>();
  call->start = start;
  const Waiter waiter(call);
  {
    const BlockedSignals blocked;
    std::thread([call] { run(call); }).detach();
  }
  const auto until = std::chrono::steady_clock::now() + limit;
  while (!waiter.ended_within(std::min(limit, kSlice))) {
    if (std::chrono::steady_clock::now() >= until) {
      return Error{Status::kDeadline,
                   fmt::format("ncclCommInitRank has not ended within {} ms", limit.count())};
    }
    if (interrupted) interrupted();
  }
  if (call->code == nccl::Code::kSuccess) return call->comm;
  return nccl::failure(*start.library, nullptr, "ncclCommInitRank", call->code);
}

}  // namespace tally::python
