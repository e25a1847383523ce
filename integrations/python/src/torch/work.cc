#include "integrations/python/src/torch/work.h"

#include <ATen/record_function.h>

#include <string>
#include <thread>
#include <utility>

#include "integrations/python/src/bindings.h"

namespace tally::python {

namespace {

// The name of a collective's span in torch's profiler.
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

}  // namespace

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

CollectiveWork::CollectiveWork(const std::shared_ptr<Communicator>& communicator, Call call)
    : c10d::Work(static_cast<int>(communicator->rank()), call.kind, title_of(call.kind),
                 call.inputs),
      call_(std::move(call)),
      communicator_(communicator) {}

void CollectiveWork::end_operation(const Outcome& outcome) {
  if (outcome.status != TALLY_OK) {
    const std::lock_guard lock(failure_mutex_);
    if (!failure_) failure_ = with_known_words(outcome.failure());
  }
  if (left_.fetch_sub(1, std::memory_order_acq_rel) == 1) end_all();
}

std::optional<Failure> CollectiveWork::failure() const {
  const std::lock_guard lock(failure_mutex_);
  return failure_;
}

bool CollectiveWork::isSuccess() const {
  return ended() && exception() == nullptr;
}

void CollectiveWork::abort() {
  if (const auto open = communicator()) open->close();
}

void CollectiveWork::poll() const {
  if (const auto open = ended() ? nullptr : communicator()) open->poll();
}

bool CollectiveWork::await_close(std::optional<Nanos> until) const {
  while (!ended()) {
    if (until && monotonic_now() >= *until) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

void CollectiveWork::wait_on_host(std::chrono::milliseconds timeout) const {
  if (ended()) return;
  std::optional<Nanos> until;
  if (timeout.count() > 0) until = monotonic_now() + timeout.count() * kMillisecond;
  const auto open = communicator();
  const bool over = open == nullptr ? await_close(until)
                                    : open->await([&] { return ended(); }, until, check_signals);
  if (!over) {
    throw Failure(TALLY_AGAIN, "Timed out waiting " + std::to_string(timeout.count()) +
                                   "ms for the collective, which goes on");
  }
}

Work::Work(const std::shared_ptr<Communicator>& communicator, Call call,
           std::function<void()> finish)
    : CollectiveWork(communicator, std::move(call)),
      finish_(std::move(finish)),
      future_(
          c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()))) {
}

void Work::start(const c10::intrusive_ptr<Work>& work, const std::vector<Request>& requests,
                 Tensors keep) {
  work->keep_ = std::move(keep);
  work->begin_operations(requests.size());
  std::size_t posted = 0;
  Outcome outcome;
  try {
    const auto open = work->communicator();
    for (const Request& request : requests) {
      open->post(request, [work](const Outcome& one) { work->end_operation(one); });
      ++posted;
    }
  } catch (const Failure& failure) {
    outcome = Outcome::of(failure);
  }
  for (; posted < requests.size(); ++posted) work->end_operation(outcome);
  work->end_operation(outcome);
}

void Work::end_all() {
  std::exception_ptr exception;
  try {
    if (const auto failed = failure()) throw Failure(*failed);
    if (finish_) finish_();
  } catch (...) {
    exception = std::current_exception();
  }
  finish_ = nullptr;
  keep_.clear();
  finish(exception);
  set_ended();
  if (exception != nullptr) {
    future_->setErrorIfNeeded(exception);
  } else {
    future_->markCompleted(c10::IValue(call_.outputs));
  }
}

bool Work::isCompleted() {
  poll();
  return ended();
}

// A user of the future waits for it in torch's way and takes no completions. So the communicator
// watches the session.
c10::intrusive_ptr<c10::ivalue::Future> Work::getFuture() {
  if (const auto open = ended() ? nullptr : communicator()) open->watch();
  return future_;
}

bool Work::wait(std::chrono::milliseconds timeout) {
  RECORD_FUNCTION("tally:wait", std::vector<c10::IValue>());
  wait_on_host(timeout);
  if (const std::exception_ptr error = exception()) std::rethrow_exception(error);
  return true;
}

}  // namespace tally::python
