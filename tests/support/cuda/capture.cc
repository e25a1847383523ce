#include "tests/support/cuda/capture.h"

#include <algorithm>
#include <utility>

#include "tests/support/cuda/machine.h"

namespace tally::test::cuda {
namespace {

// Which captures concern the calls of this thread.
thread_local unsigned thread_mode = tally::cuda::kCaptureModeGlobal;

}  // namespace

unsigned exchange_capture_mode(unsigned mode) {
  return std::exchange(thread_mode, mode);
}

// A copy of the pointer, because the streams lose theirs.
// NOLINTNEXTLINE(performance-unnecessary-value-param)
void end_capture(const Machine& machine, std::shared_ptr<Capture> capture) {
  capture->ended = true;
  for (const auto& [handle, stream] : machine.streams) {
    if (stream->capture != capture) continue;
    stream->capture = nullptr;
    stream->tail.clear();
  }
}

Code capture(Machine& machine, StreamState& stream, Work work) {
  Capture& into = *stream.capture;
  if (into.invalidated) return Code::kStreamCaptureInvalidated;
  if (work.memory_operation && !machine.settings.captures_stream_memory_operations) {
    into.invalidated = true;
    return Code::kStreamCaptureUnsupported;
  }
  std::size_t branch = 0;
  while (into.streams[branch] != stream.handle) ++branch;
  into.nodes.push_back({std::move(work), stream.tail, branch});
  stream.tail = {into.nodes.size() - 1};
  return Code::kSuccess;
}

Code allow_default_stream(const StreamState& stream) {
  if (!stream.legacy) return Code::kSuccess;
  Code code = Code::kSuccess;
  for (const StreamPtr& other : stream.context->blocking_streams()) {
    if (other->capture == nullptr) continue;
    other->capture->invalidated = true;
    code = Code::kStreamCaptureImplicit;
  }
  return code;
}

Code allow_unsafe_call(const Machine& machine) {
  Code code = Code::kSuccess;
  if (thread_mode == tally::cuda::kCaptureModeRelaxed) return code;
  for (const auto& [handle, stream] : machine.streams) {
    if (stream->capture == nullptr) continue;
    Capture& running = *stream->capture;
    const bool mine = running.thread == std::this_thread::get_id();
    const bool concerns = mine || thread_mode == tally::cuda::kCaptureModeGlobal;
    const bool forbids = (concerns && running.mode == tally::cuda::kCaptureModeGlobal) ||
                         (mine && running.mode == tally::cuda::kCaptureModeThreadLocal);
    if (!forbids) continue;
    running.invalidated = true;
    code = Code::kStreamCaptureUnsupported;
  }
  return code;
}

Code allow_stream_wait(const Machine& machine, const StreamState& stream) {
  if (const Code code = allow_default_stream(stream); code != Code::kSuccess) return code;
  if (stream.capture == nullptr) return allow_unsafe_call(machine);
  stream.capture->invalidated = true;
  return Code::kStreamCaptureUnsupported;
}

Code allow_event_wait(const Machine& machine, const EventState& event) {
  if (event.captured == nullptr) return allow_unsafe_call(machine);
  event.captured->invalidated = true;
  return Code::kCapturedEvent;
}

Code allow_context_wait(const Machine& machine, const ContextState& context) {
  Code code = allow_unsafe_call(machine);
  for (const auto& [handle, stream] : machine.streams) {
    if (stream->context != &context || stream->capture == nullptr) continue;
    stream->capture->invalidated = true;
    code = Code::kStreamCaptureUnsupported;
  }
  return code;
}

Code wait_in_capture(StreamState& stream, const EventState& event) {
  const std::shared_ptr<Capture> from = event.captured;
  if (from == nullptr) {
    if (event.record == nullptr) return Code::kSuccess;  // never recorded
    stream.capture->invalidated = true;
    return Code::kStreamCaptureIsolation;
  }
  if (from->ended || (stream.legacy && stream.capture == nullptr)) {
    if (stream.capture != nullptr) stream.capture->invalidated = true;
    if (!from->ended) from->invalidated = true;
    return from->ended ? Code::kCapturedEvent : Code::kStreamCaptureImplicit;
  }
  if (from->invalidated) return Code::kStreamCaptureInvalidated;
  // Real devices capture graphs of several devices.
  if (stream.context != from->context) return Code::kNotSupported;
  if (stream.capture == nullptr) {
    stream.capture = from;
    from->streams.push_back(stream.handle);
    stream.tail.clear();
  } else if (stream.capture != from) {
    stream.capture->invalidated = true;
    from->invalidated = true;
    return Code::kStreamCaptureMerge;
  }
  for (const std::size_t node : event.tail) {
    if (std::find(stream.tail.begin(), stream.tail.end(), node) == stream.tail.end()) {
      stream.tail.push_back(node);
    }
  }
  return Code::kSuccess;
}

Code record_in_capture(const StreamState& stream, EventState& event) {
  if (stream.capture->invalidated) return Code::kStreamCaptureInvalidated;
  event.record = nullptr;
  event.captured = stream.capture;
  event.tail = stream.tail;
  return Code::kSuccess;
}

}  // namespace tally::test::cuda
