#include "integrations/python/src/torch/device_work.h"

#include <ATen/record_function.h>
#include <c10/core/StreamGuard.h>

#include <utility>

namespace tally::python {

void DeviceFailure::set(const Failure& failure) {
  const std::lock_guard lock(mutex_);
  if (!failure_) failure_ = failure;
}

void DeviceFailure::throw_if_set() const {
  const std::lock_guard lock(mutex_);
  if (failure_) throw Failure(*failure_);
}

DeviceWork::DeviceWork(const std::shared_ptr<Communicator>& communicator,
                       std::shared_ptr<DeviceFailure> failure, Call call, c10::Device device,
                       c10::IValue value, const c10::TypePtr& type)
    : CollectiveWork(communicator, std::move(call)),
      group_failure_(std::move(failure)),
      device_(device),
      value_(value.isNone() ? c10::IValue(call_.outputs) : std::move(value)),
      future_(c10::make_intrusive<c10::ivalue::Future>(
          type != nullptr ? type : c10::ListType::create(c10::TensorType::get()),
          std::vector<c10::Device>{device})),
      verdict_(c10::make_intrusive<c10::ivalue::Future>(c10::IntType::get())) {}

DeviceWork::~DeviceWork() {
  if (!stream_) return;
  const c10::impl::VirtualGuardImpl guard(device_.type());
  for (const at::Tensor& tensor : stash_) {
    guard.recordDataPtrOnStream(tensor.storage().data_ptr(), *stream_);
  }
}

void DeviceWork::end_one(const Outcome& outcome) {
  {
    const std::lock_guard lock(sums_mutex_);
    sum_of_squares_ += outcome.sum_of_squares;
    nonfinite_ += outcome.nonfinite;
  }
  end_operation(outcome);
}

void DeviceWork::enqueued(const c10::Stream& stream, Tensors stash, bool in_graph) {
  stream_ = stream;
  in_graph_ = in_graph;
  end_.emplace(device_.type());
  end_->record(stream);
  stash_ = std::move(stash);
  if (const auto failed = failure()) {
    future_->setError(std::make_exception_ptr(*failed));
  } else {
    const c10::StreamGuard guard(stream);  // markCompleted() records an event of this stream
    future_->markCompleted(std::exchange(value_, {}));
  }
  end_operation({});
}

void DeviceWork::end_all() {
  const auto failed = failure();
  if (failed) group_failure_->set(*failed);
  finish(failed ? std::make_exception_ptr(*failed) : nullptr);
  set_ended();
  using c10d::WorkResult;
  WorkResult verdict = WorkResult::SUCCESS;
  if (failed) {
    verdict = failed->status == TALLY_DEADLINE ? WorkResult::TIMEOUT : WorkResult::COMM_ERROR;
  }
  verdict_->markCompleted(c10::IValue(static_cast<std::int64_t>(verdict)));
}

bool DeviceWork::isCompleted() {
  poll();
  return ended() && (in_graph_ || end_->query());
}

bool DeviceWork::wait(std::chrono::milliseconds timeout) {
  RECORD_FUNCTION("tally:wait", std::vector<c10::IValue>());
  // A session that ends cancels the collective, and its streams go on without the results.
  const auto open = communicator();
  if (timeout.count() > 0 || open == nullptr || open->closed()) wait_on_host(timeout);
  if (ended()) {
    if (const std::exception_ptr error = exception()) std::rethrow_exception(error);
  }
  end_->block(c10::impl::VirtualGuardImpl(device_.type()).getStream(device_));
  const std::lock_guard lock(stash_mutex_);
  stash_.clear();
  return true;
}

}  // namespace tally::python
