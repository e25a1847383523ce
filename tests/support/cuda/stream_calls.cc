// The exported functions of streams and events.
#include "tests/support/cuda/enqueue.h"
#include "tests/support/cuda/entry.h"
#include "tests/support/cuda/exports.h"

namespace tally::test::cuda::exported {
namespace {

bool idle(const StreamState& stream) {
  return implicit_order(stream).empty();
}

// body(machine, lock, event), for an event whose context is not broken.
template <typename Body>
Code event_call(const char* function, Event handle, Body body) {
  return call(function, Needs::kInit, [&](Machine& all, Machine::Lock& lock, ContextState*) {
    const EventPtr event = find_event(all, function, handle);
    if (event == nullptr) return Code::kInvalidHandle;
    if (event->context->broken != Code::kSuccess) return event->context->broken;
    return body(all, lock, *event);
  });
}

}  // namespace

Code stream_create(Stream* stream, unsigned flags) {
  return call("cuStreamCreate", Needs::kContext,
              [&](Machine& all, Machine::Lock&, ContextState* current) {
                if (flags > tally::cuda::kStreamNonBlocking) return Code::kInvalidValue;
                auto made = std::make_shared<StreamState>();
                made->handle = all.make_handle<Stream>();
                made->context = current;
                made->blocking = flags == 0;
                made->queue = current->next_queue++ % current->queues.size();
                all.streams[made->handle] = made;
                *stream = made->handle;
                return Code::kSuccess;
              });
}

Code stream_destroy(Stream handle) {
  return call("cuStreamDestroy", Needs::kContext,
              [&](Machine& all, Machine::Lock&, ContextState* current) {
                const StreamPtr stream = find_stream(all, "cuStreamDestroy", handle, current);
                if (stream == nullptr || stream->legacy) return Code::kInvalidHandle;
                if (stream->capture != nullptr) {
                  all.misuse("cuStreamDestroy of a stream that is capturing: " + text_of(handle));
                  stream->capture->invalidated = true;
                  if (stream->capture->origin == handle) end_capture(all, stream->capture);
                }
                all.streams.erase(handle);  // its work goes on
                return Code::kSuccess;
              });
}

Code stream_synchronize(Stream handle) {
  return stream_call("cuStreamSynchronize", handle,
                     [&](Machine& all, Machine::Lock& lock, StreamState& stream) {
                       const Code code = allow_stream_wait(all, stream);
                       if (code != Code::kSuccess) return code;
                       ++all.ledger.counters.host_synchronizations;
                       const ContextState* const context = stream.context;
                       drain(all, lock, stream);
                       return context->broken;
                     });
}

Code stream_query(Stream handle) {
  return stream_call("cuStreamQuery", handle,
                     [&](Machine& all, Machine::Lock&, StreamState& stream) {
                       const Code code = allow_stream_wait(all, stream);
                       if (code != Code::kSuccess) return code;
                       return idle(stream) ? Code::kSuccess : Code::kNotReady;
                     });
}

Code stream_get_ctx(Stream handle, Context* context) {
  return stream_call("cuStreamGetCtx", handle, [&](Machine&, Machine::Lock&, StreamState& stream) {
    *context = stream.context->handle;
    return Code::kSuccess;
  });
}

Code stream_wait_event(Stream stream_handle, Event handle, unsigned) {
  constexpr const char* kName = "cuStreamWaitEvent";
  return stream_call(kName, stream_handle, [&](Machine& all, Machine::Lock&, StreamState& stream) {
    const EventPtr event = find_event(all, kName, handle);
    if (event == nullptr) return Code::kInvalidHandle;
    if (stream.capture != nullptr || event->captured != nullptr) {
      return wait_in_capture(stream, *event);
    }
    if (event->record == nullptr) return Code::kSuccess;
    return enqueue(all, stream, {"wait for event " + text_of(handle)}, nullptr, {event->record});
  });
}

Code event_create(Event* event, unsigned flags) {
  return call("cuEventCreate", Needs::kContext,
              [&](Machine& all, Machine::Lock&, ContextState* current) {
                auto made = std::make_shared<EventState>();
                made->handle = all.make_handle<Event>();
                made->context = current;
                made->timed = (flags & tally::cuda::kEventDisableTiming) == 0;
                all.events[made->handle] = made;
                *event = made->handle;
                return Code::kSuccess;
              });
}

Code event_destroy(Event handle) {
  return call("cuEventDestroy", Needs::kInit, [&](Machine& all, Machine::Lock&, ContextState*) {
    if (find_event(all, "cuEventDestroy", handle) == nullptr) return Code::kInvalidHandle;
    all.events.erase(handle);  // waits for it go on
    return Code::kSuccess;
  });
}

Code event_record(Event handle, Stream stream_handle) {
  constexpr const char* kName = "cuEventRecord";
  return stream_call(kName, stream_handle, [&](Machine& all, Machine::Lock&, StreamState& stream) {
    const EventPtr event = find_event(all, kName, handle);
    if (event == nullptr) return Code::kInvalidHandle;
    if (event->context != stream.context) {
      all.misuse("cuEventRecord of an event in a stream of another context");
      return Code::kInvalidHandle;
    }
    if (stream.capture != nullptr) return record_in_capture(stream, *event);
    OperationPtr made;
    const Code code = enqueue(all, stream, {"record of event " + text_of(handle)}, &made);
    if (code != Code::kSuccess) return code;
    event->record = made;
    event->captured = nullptr;
    event->tail.clear();
    return Code::kSuccess;
  });
}

Code event_query(Event handle) {
  return event_call("cuEventQuery", handle, [&](Machine& all, Machine::Lock&, EventState& event) {
    if (const Code code = allow_event_wait(all, event); code != Code::kSuccess) return code;
    return event.record == nullptr || event.record->done ? Code::kSuccess : Code::kNotReady;
  });
}

Code event_synchronize(Event handle) {
  return event_call("cuEventSynchronize", handle,
                    [&](Machine& all, Machine::Lock& lock, EventState& event) {
                      const Code code = allow_event_wait(all, event);
                      if (code != Code::kSuccess) return code;
                      ++all.ledger.counters.host_synchronizations;
                      const ContextState* const context = event.context;
                      all.await(lock, event.record);
                      return context->broken;
                    });
}

Code event_elapsed_time(float* ms, Event begin, Event end) {
  constexpr const char* kName = "cuEventElapsedTime";
  return event_call(kName, begin, [&](Machine& all, Machine::Lock&, EventState& first) {
    const EventPtr last = find_event(all, kName, end);
    if (last == nullptr || !first.timed || !last->timed) return Code::kInvalidHandle;
    if (first.captured != nullptr || last->captured != nullptr) return Code::kCapturedEvent;
    if (first.record == nullptr || last->record == nullptr) return Code::kInvalidHandle;
    if (!first.record->done || !last->record->done) return Code::kNotReady;
    *ms =
        std::chrono::duration<float, std::milli>(last->record->ended - first.record->ended).count();
    return Code::kSuccess;
  });
}

Code launch_host_func(Stream handle, HostFunction function, void* user) {
  return stream_call("cuLaunchHostFunc", handle,
                     [&](Machine& all, Machine::Lock&, StreamState& stream) {
                       if (function == nullptr) return Code::kInvalidValue;
                       Work work{"host function"};
                       work.run = [=, thread = &stream.context->host_thread](const Operation&) {
                         thread->call(function, user);
                         return Code::kSuccess;
                       };
                       return enqueue(all, stream, std::move(work));
                     });
}

}  // namespace tally::test::cuda::exported
