// Stream capture and graphs.
#pragma once

#include <cstddef>
#include <memory>
#include <thread>
#include <vector>

#include "tests/support/cuda/operation.h"

namespace tally::test::cuda {

struct Machine;
struct StreamState;
struct ContextState;
struct EventState;

struct Node {
  Work work;
  std::vector<std::size_t> after;  // indices of nodes before this
  std::size_t branch;              // nodes that one stream captured have one number
};

// A capture in progress or ended. Guarded by Machine::mutex.
struct Capture {
  Stream origin;
  ContextState* context;
  unsigned mode;
  std::thread::id thread;  // that began it
  bool invalidated = false;
  bool ended = false;
  std::vector<Node> nodes;
  std::vector<Stream> streams;  // the origin and those that joined
};

struct GraphState {
  Context context;  // of its capture
  std::vector<Node> nodes;
};

// An executable graph.
struct ExecState {
  std::shared_ptr<const GraphState> graph;
  OperationPtr last;  // the end of its last launch, which the next launch waits for
};

// All of these: the caller holds the lock.

// Takes the capture off all its streams.
void end_capture(const Machine& machine, std::shared_ptr<Capture> capture);
// Appends the work to the capture of the stream.
Code capture(Machine& machine, StreamState& stream, Work work);
// Refuses the default stream while a stream that it synchronizes with is capturing, and invalidates
// that capture.
Code allow_default_stream(const StreamState& stream);
// Refuses a call that captures forbid to this thread, such as cuMemFree, and invalidates those.
// Sets the mode of the calling thread and returns the one before.
unsigned exchange_capture_mode(unsigned mode);
Code allow_unsafe_call(const Machine& machine);
// Refuses a call that waits for the stream or asks for its state, while a capture has the stream or
// forbids such calls to this thread.
Code allow_stream_wait(const Machine& machine, const StreamState& stream);
Code allow_event_wait(const Machine& machine, const EventState& event);
// The same for a call that waits for all work of the context.
Code allow_context_wait(const Machine& machine, const ContextState& context);
// cuStreamWaitEvent where the stream or the event is in a capture. The stream may join the capture.
Code wait_in_capture(StreamState& stream, const EventState& event);
// cuEventRecord in a stream with a capture.
Code record_in_capture(const StreamState& stream, EventState& event);

}  // namespace tally::test::cuda
