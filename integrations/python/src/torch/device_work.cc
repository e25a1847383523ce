#include "integrations/python/src/torch/device_work.h"

#include <ATen/record_function.h>
#include <c10/core/StreamGuard.h>

#include <utility>

#include "integrations/python/src/bindings.h"
#include "integrations/python/src/torch/work.h"

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
                       std::shared_ptr<DeviceFailure> failure, const Call& call, c10::IValue value,
                       const c10::TypePtr& type)
    : c10d::Work(static_cast<int>(communicator->rank()), call.kind, title_of(call.kind),
                 call.inputs),
      communicator_(communicator),
      group_failure_(std::move(failure)),
      call_(call),
      value_(value.isNone() ? c10::IValue(call.outputs) : std::move(value)),
      future_(c10::make_intrusive<c10::ivalue::Future>(
          type != nullptr ? type : c10::ListType::create(c10::TensorType::get()),
          std::vector<c10::Device>{call.device})),
      verdict_(c10::make_intrusive<c10::ivalue::Future>(c10::IntType::get())) {}

DeviceWork::~DeviceWork() {
  if (!stream_) return;
  const c10::impl::VirtualGuardImpl guard(call_.device.type());
  for (const at::Tensor& tensor : stash_) {
    guard.recordDataPtrOnStream(tensor.storage().data_ptr(), *stream_);
  }
}

void DeviceWork::end_one(const Outcome& outcome) {
  {
    const std::lock_guard lock(outcome_mutex_);
    if (outcome.status != TALLY_OK && !failure_) failure_ = with_known_words(outcome.failure());
    sum_of_squares_ += outcome.sum_of_squares;
    nonfinite_ += outcome.nonfinite;
  }
  if (left_.fetch_sub(1, std::memory_order_acq_rel) == 1) end_all();
}

void DeviceWork::enqueued(const c10::Stream& stream, std::vector<at::Tensor> stash) {
  stream_ = stream;
  end_.emplace(call_.device.type());
  end_->record(stream);
  stash_ = std::move(stash);
  std::optional<Failure> failure;
  {
    const std::lock_guard lock(outcome_mutex_);
    failure = failure_;
  }
  if (failure) {
    future_->setError(std::make_exception_ptr(*failure));
  } else {
    const c10::StreamGuard guard(stream);  // markCompleted() records an event of this stream
    future_->markCompleted(std::exchange(value_, {}));
  }
  end_one({});
}

void DeviceWork::end_all() {
  if (failure_) group_failure_->set(*failure_);
  const auto exception = failure_ ? std::make_exception_ptr(*failure_) : nullptr;
  finish(exception);
  ended_.store(true, std::memory_order_release);
  using c10d::WorkResult;
  WorkResult verdict = WorkResult::SUCCESS;
  if (failure_) {
    verdict = failure_->status == TALLY_DEADLINE ? WorkResult::TIMEOUT : WorkResult::COMM_ERROR;
  }
  verdict_->markCompleted(c10::IValue(static_cast<std::int64_t>(verdict)));
}

bool DeviceWork::isCompleted() {
  if (const auto communicator = ended() ? nullptr : communicator_.lock()) communicator->poll();
  return ended() && end_->query();
}

bool DeviceWork::isSuccess() const {
  return ended() && exception() == nullptr;
}

void DeviceWork::abort() {
  if (const auto communicator = communicator_.lock()) communicator->close();
}

bool DeviceWork::wait_on_host(std::chrono::milliseconds timeout) const {
  const auto communicator = communicator_.lock();
  return communicator == nullptr ||
         communicator->await([&] { return ended(); },
                             monotonic_now() + timeout.count() * kMillisecond, check_signals);
}

bool DeviceWork::wait(std::chrono::milliseconds timeout) {
  RECORD_FUNCTION("tally:wait", std::vector<c10::IValue>());
  if (timeout.count() > 0 && !ended() && !wait_on_host(timeout)) {
    throw Failure(TALLY_AGAIN, "Timed out waiting " + std::to_string(timeout.count()) +
                                   "ms for the collective, which goes on");
  }
  if (ended()) {
    if (const std::exception_ptr error = exception()) std::rethrow_exception(error);
  }
  end_->block(c10::impl::VirtualGuardImpl(call_.device.type()).getStream(call_.device));
  const std::lock_guard lock(stash_mutex_);
  stash_.clear();
  return true;
}

}  // namespace tally::python
