// One collective of device tensors in progress, as a torch.distributed Work. It waits as NCCL's
// works do: wait() makes the current stream wait, and returns to the host at once.
#pragma once

#include <ATen/ATen.h>
#include <c10/core/Event.h>

#include <torch/csrc/distributed/c10d/Work.hpp>

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "integrations/python/src/communicator.h"

namespace tally::python {

// The first failure of a group's collectives on devices. The streams go on after a failure, with
// results that are wrong, so the failure must reach the program before it uses them: all later
// calls throw it. Any thread.
class DeviceFailure {
 public:
  void set(const Failure& failure);
  void throw_if_set() const;

 private:
  mutable std::mutex mutex_;
  std::optional<Failure> failure_;
};

class DeviceWork final : public c10d::Work {
 public:
  struct Call {
    c10d::OpType kind;
    std::uint64_t sequence;
    std::vector<at::Tensor> inputs;  // for the profiler
    std::vector<at::Tensor> outputs;
    c10::Device device;
  };
  // `value` and `type` are what the future returns; without a value it returns the outputs.
  DeviceWork(const std::shared_ptr<Communicator>& communicator,
             std::shared_ptr<DeviceFailure> failure, const Call& call, c10::IValue value = {},
             const c10::TypePtr& type = nullptr);
  // Memory that no wait() has released is in use until the stream has done the work.
  ~DeviceWork() override;

  // -- while the collective is enqueued ----------------------------------------------------------

  // An operation begins, which end_one() ends.
  void begin_one() { left_.fetch_add(1, std::memory_order_relaxed); }
  void end_one(const Outcome& outcome);
  // All of it is enqueued: `stream` has the results when it has done its work. `stash` has the
  // tensors that other streams than those of their allocation use.
  void enqueued(const c10::Stream& stream, std::vector<at::Tensor> stash);

  // -- as c10d::Work -----------------------------------------------------------------------------

  // With a timeout the host waits, too.
  bool wait(std::chrono::milliseconds timeout) override;
  void synchronize() override { wait(std::chrono::milliseconds(0)); }
  void blockCurrentStream() override { synchronize(); }
  // Whether the results are in the tensors.
  bool isCompleted() override;
  bool isSuccess() const override;
  std::vector<at::Tensor> result() override { return call_.outputs; }
  // It is complete from the beginning, and its users' streams wait for the collective. Failures
  // after the call are in getFutureResult().
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override { return future_; }
  c10::intrusive_ptr<c10::ivalue::Future> getFutureResult() override { return verdict_; }
  std::uint64_t getSequencenumber() const override { return call_.sequence; }
  void abort() override;

  bool ended() const { return ended_.load(std::memory_order_acquire); }
  // Sums over the operations of the collective, when it has ended and has asked for them.
  double sum_of_squares() const { return sum_of_squares_; }
  std::uint64_t nonfinite() const { return nonfinite_; }

 private:
  void end_all();
  bool wait_on_host(std::chrono::milliseconds timeout) const;

  std::weak_ptr<Communicator> communicator_;
  std::shared_ptr<DeviceFailure> group_failure_;
  Call call_;
  c10::IValue value_;
  c10::intrusive_ptr<c10::ivalue::Future> future_;
  c10::intrusive_ptr<c10::ivalue::Future> verdict_;
  std::optional<c10::Stream> stream_;
  std::optional<c10::Event> end_;  // of stream_
  std::mutex stash_mutex_;
  std::vector<at::Tensor> stash_;
  std::atomic<std::size_t> left_{1};  // one more than operations, until enqueued()
  std::mutex outcome_mutex_;          // guards the next three until ended()
  std::optional<Failure> failure_;
  double sum_of_squares_ = 0;
  std::uint64_t nonfinite_ = 0;
  std::atomic<bool> ended_{false};
};

}  // namespace tally::python
