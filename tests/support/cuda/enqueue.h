// Work of streams becomes operations of hardware queues, or nodes of captures.
#pragma once

#include "tests/support/cuda/machine.h"

namespace tally::test::cuda {

// Enqueues work behind that of the stream and after other operations. Sets made to the operation,
// or to null when a capture of the stream takes the work. The caller holds the lock.
Code enqueue(Machine& machine, StreamState& stream, Work work, OperationPtr* made = nullptr,
             std::vector<OperationPtr> after = {});
// As enqueue(), for a stream without a capture, on any queue of its context. The operation follows
// only `after`.
OperationPtr put(StreamState& stream, std::size_t queue, Work work,
                 std::vector<OperationPtr> after);
// What the next operation of the stream follows: the work of the streams that it synchronizes with.
std::vector<OperationPtr> implicit_order(const StreamState& stream);
// Waits for all work of the stream, and of the streams that it synchronizes with.
void drain(Machine& machine, Machine::Lock& lock, const StreamState& stream);
// Waits for all work of the context that has been enqueued before.
void drain(Machine& machine, Machine::Lock& lock, const ContextState& context);

}  // namespace tally::test::cuda
