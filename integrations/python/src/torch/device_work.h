// One collective of device tensors in progress, as a torch.distributed Work. It waits as NCCL's
// works do: wait() makes the current stream wait, and returns to the host at once.
#pragma once

#include <ATen/ATen.h>
#include <c10/core/Event.h>

#include <memory>
#include <mutex>
#include <optional>

#include "integrations/python/src/torch/work.h"

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

class DeviceWork final : public CollectiveWork {
 public:
  // `value` and `type` are what the future returns; without a value it returns the outputs.
  DeviceWork(const std::shared_ptr<Communicator>& communicator,
             std::shared_ptr<DeviceFailure> failure, Call call, c10::Device device,
             c10::IValue value = {}, const c10::TypePtr& type = nullptr);
  // Memory that no wait() has released is in use until the stream has done the work.
  ~DeviceWork() override;

  // -- while the collective is enqueued ----------------------------------------------------------

  // An operation begins, which end_one() ends.
  void begin_one() { begin_operations(1); }
  void end_one(const Outcome& outcome);
  // All of it is enqueued: `stream` has the results when it has done its work. `stash` has the
  // tensors that other streams than those of their allocation use. in_graph: `stream` is being
  // captured, so the work has ended.
  void enqueued(const c10::Stream& stream, Tensors stash, bool in_graph);
  const std::shared_ptr<DeviceFailure>& group_failure() const { return group_failure_; }

  // -- as c10d::Work -----------------------------------------------------------------------------

  // The host waits, too, when there is a timeout, and when the session is being closed.
  bool wait(std::chrono::milliseconds timeout) override;
  void synchronize() override { wait(std::chrono::milliseconds(0)); }
  void blockCurrentStream() override { synchronize(); }
  // Whether the results are in the tensors.
  bool isCompleted() override;
  // It is complete from the beginning, and its users' streams wait for the collective. Failures
  // after the call are in getFutureResult().
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override { return future_; }
  c10::intrusive_ptr<c10::ivalue::Future> getFutureResult() override { return verdict_; }

  // Sums over the operations of the collective, when it has ended and has asked for them.
  double sum_of_squares() const { return sum_of_squares_; }
  std::uint64_t nonfinite() const { return nonfinite_; }

 private:
  void end_all() override;

  std::shared_ptr<DeviceFailure> group_failure_;
  const c10::Device device_;
  c10::IValue value_;
  c10::intrusive_ptr<c10::ivalue::Future> future_;
  c10::intrusive_ptr<c10::ivalue::Future> verdict_;
  std::optional<c10::Stream> stream_;
  std::optional<c10::Event> end_;  // of stream_
  bool in_graph_ = false;
  std::mutex stash_mutex_;
  Tensors stash_;
  std::mutex sums_mutex_;  // guards the next two until ended()
  double sum_of_squares_ = 0;
  std::uint64_t nonfinite_ = 0;
};

}  // namespace tally::python
