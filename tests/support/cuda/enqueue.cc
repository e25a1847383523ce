#include "tests/support/cuda/enqueue.h"

#include <utility>

#include "tests/support/cuda/capture.h"

namespace tally::test::cuda {

std::vector<OperationPtr> implicit_order(const StreamState& stream) {
  std::vector<OperationPtr> after;
  const auto add = [&](const StreamState& other) {
    if (other.last != nullptr && !other.last->done) after.push_back(other.last);
  };
  add(stream);
  if (stream.legacy) {
    for (const StreamPtr& other : stream.context->blocking_streams()) add(*other);
  } else if (stream.blocking) {
    add(*stream.context->legacy);
  }
  return after;
}

OperationPtr put(StreamState& stream, std::size_t queue, Work work,
                 std::vector<OperationPtr> after) {
  auto operation = std::make_shared<Operation>();
  operation->work = std::move(work);
  operation->stream = stream.handle;
  operation->after = std::move(after);
  const auto& queues = stream.context->queues;
  queues[queue % queues.size()]->enqueue(operation);
  return operation;
}

namespace {

// As CUDA, blocks the caller while the stream's queue is full. The caller holds the lock.
void await_room(Machine& machine, const StreamState& stream) {
  const std::size_t most = machine.settings.queue_depth;
  if (most == 0) return;
  const auto& queues = stream.context->queues;
  const Queue& queue = *queues[stream.queue % queues.size()];
  Machine::Lock lock(machine.mutex, std::adopt_lock);
  machine.changed.wait(lock, [&] { return queue.pending().size() < most; });
  lock.release();
}

}  // namespace

Code enqueue(Machine& machine, StreamState& stream, Work work, OperationPtr* made,
             std::vector<OperationPtr> after) {
  if (made != nullptr) *made = nullptr;
  if (stream.capture != nullptr) return capture(machine, stream, std::move(work));
  const Code code = allow_default_stream(stream);
  if (code != Code::kSuccess) return code;
  await_room(machine, stream);
  for (OperationPtr& one : implicit_order(stream)) after.push_back(std::move(one));
  stream.last = put(stream, stream.queue, std::move(work), std::move(after));
  if (made != nullptr) *made = stream.last;
  return Code::kSuccess;
}

void drain(Machine& machine, Machine::Lock& lock, const StreamState& stream) {
  for (const OperationPtr& one : implicit_order(stream)) machine.await(lock, one);
}

void drain(Machine& machine, Machine::Lock& lock, const ContextState& context) {
  for (const OperationPtr& one : context.pending()) machine.await(lock, one);
}

}  // namespace tally::test::cuda
