#include "integrations/python/src/torch/work.h"

#include <ATen/record_function.h>

#include <string>
#include <thread>

#include "integrations/python/src/bindings.h"

namespace tally::python {

const char* title_of(c10d::OpType kind) {
  switch (kind) {
    case c10d::OpType::ALLREDUCE:
    case c10d::OpType::ALLREDUCE_COALESCED:
      return "tally:all_reduce";
    case c10d::OpType::REDUCE:
      return "tally:reduce";
    case c10d::OpType::BROADCAST:
      return "tally:broadcast";
    case c10d::OpType::BARRIER:
      return "tally:barrier";
    case c10d::OpType::REDUCE_SCATTER:
    case c10d::OpType::_REDUCE_SCATTER_BASE:
      return "tally:reduce_scatter";
    default:
      return "tally:all_gather";
  }
}

Failure with_known_words(const Failure& failure) {
  const char* words = "";
  if (failure.status == TALLY_DEADLINE) words = "Timed out: ";
  if (failure.status == TALLY_PEER_LOST || failure.status == TALLY_PEER_LEFT ||
      failure.status == TALLY_NODE_LOST) {
    words = "Connection closed by peer: ";
  }
  return {failure.status, words + std::string(failure.what()), failure.culprit,
          failure.inputs_gone};
}

Work::Work(const std::shared_ptr<Communicator>& communicator, c10d::OpType kind,
           std::uint64_t sequence, const std::vector<at::Tensor>& inputs,
           std::vector<at::Tensor> outputs, std::function<void()> finish)
    : c10d::Work(static_cast<int>(communicator->rank()), kind, title_of(kind), inputs),
      communicator_(communicator),
      sequence_(sequence),
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
    outcome = Outcome::of(failure);
  }
  for (; posted < requests.size(); ++posted) work->end_one(outcome);
  work->end_one(outcome);
}

void Work::end_one(const Outcome& outcome) {
  if (outcome.status != TALLY_OK) {
    const std::lock_guard lock(failure_mutex_);
    if (!failure_) failure_ = with_known_words(outcome.failure());
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

void Work::abort() {
  if (const auto communicator = communicator_.lock()) communicator->close();
}

// The communicator is being destroyed, which ends the work soon.
bool Work::await_close(std::optional<Nanos> until) const {
  while (!ended()) {
    if (until && monotonic_now() >= *until) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

bool Work::wait(std::chrono::milliseconds timeout) {
  RECORD_FUNCTION("tally:wait", std::vector<c10::IValue>());
  std::optional<Nanos> until;
  if (timeout.count() > 0) until = monotonic_now() + timeout.count() * kMillisecond;
  if (!ended()) {
    const auto communicator = communicator_.lock();
    const bool over = communicator == nullptr
                          ? await_close(until)
                          : communicator->await([&] { return ended(); }, until, check_signals);
    if (!over) {
      throw Failure(TALLY_AGAIN, "Timed out waiting " + std::to_string(timeout.count()) +
                                     "ms for the collective, which goes on");
    }
  }
  if (const std::exception_ptr error = exception()) std::rethrow_exception(error);
  return true;
}

}  // namespace tally::python
