#include "integrations/python/src/torch/work.h"

#include "integrations/python/src/bindings.h"

namespace tally::python {

Work::Work(const std::shared_ptr<Communicator>& communicator, c10d::OpType kind,
           std::vector<at::Tensor> outputs, std::function<void()> finish)
    : c10d::Work(static_cast<int>(communicator->rank()), kind),
      communicator_(communicator),
      outputs_(std::move(outputs)),
      finish_(std::move(finish)),
      future_(
          c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()))) {
}

void Work::start(const c10::intrusive_ptr<Work>& work, const std::vector<Request>& requests,
                 std::vector<at::Tensor> keep) {
  work->keep_ = std::move(keep);
  // One more than there are requests, so that the work cannot end before all are posted.
  work->left_ = requests.size() + 1;
  std::size_t posted = 0;
  Outcome outcome;
  try {
    const auto communicator = work->communicator_.lock();
    for (const Request& request : requests) {
      communicator->post(request, [work](const Outcome& one) { work->end_one(one); });
      ++posted;
    }
  } catch (const Failure& failure) {
    outcome = {failure.status, failure.culprit, failure.inputs_gone, 0, 0, failure.what()};
  }
  for (; posted < requests.size(); ++posted) work->end_one(outcome);
  work->end_one(outcome);
}

void Work::end_one(const Outcome& outcome) {
  if (outcome.status != TALLY_OK) {
    const std::lock_guard lock(failure_mutex_);
    if (!failure_) failure_ = outcome.failure();
  }
  if (left_.fetch_sub(1, std::memory_order_acq_rel) == 1) end_all();
}

void Work::end_all() {
  std::exception_ptr exception;
  try {
    if (failure_) throw Failure(*failure_);
    if (finish_) finish_();
  } catch (...) {
    exception = std::current_exception();
  }
  finish_ = nullptr;
  keep_.clear();
  finish(exception);
  ended_.store(true, std::memory_order_release);
  if (exception != nullptr) {
    future_->setErrorIfNeeded(exception);
  } else {
    future_->markCompleted(c10::IValue(outputs_));
  }
}

bool Work::isCompleted() {
  if (const auto communicator = ended() ? nullptr : communicator_.lock()) communicator->poll();
  return ended();
}

bool Work::isSuccess() const {
  return ended() && exception() == nullptr;
}

// A user of the future waits for it in torch's way and takes no completions. So the communicator
// watches the session.
c10::intrusive_ptr<c10::ivalue::Future> Work::getFuture() {
  if (const auto communicator = ended() ? nullptr : communicator_.lock()) communicator->watch();
  return future_;
}

bool Work::wait(std::chrono::milliseconds timeout) {
  std::optional<Nanos> until;
  if (timeout.count() > 0) until = monotonic_now() + timeout.count() * kMillisecond;
  if (!ended()) {
    const auto communicator = communicator_.lock();
    const bool over = communicator == nullptr ||
                      communicator->await([&] { return ended(); }, until, check_signals);
    if (!over) throw Failure(TALLY_AGAIN, "no completion in time; the operation goes on");
  }
  if (const std::exception_ptr error = exception()) std::rethrow_exception(error);
  return true;
}

}  // namespace tally::python
