// What all exported functions do first: they count, fail when a test orders it, and refuse calls
// that CUDA forbids.
#pragma once

#include <utility>

#include "tests/support/cuda/machine.h"

namespace tally::test::cuda {

enum class Needs {
  kNothing,  // not even cuInit
  kInit,
  kContext,  // a current context, which is not broken
};

// The stack of current contexts of the calling thread, the current one last.
std::vector<Context>& current_contexts();

// CUDA does not work in a child that fork() makes after cuInit. Prints the misuse. Without the
// lock, which a thread of the parent may have had.
bool was_forked(const Machine& machine, const char* function);
// kSuccess: the call may proceed; current is then the current context, or null where none is
// necessary.
Code enter(Machine& machine, const char* function, Needs needs, ContextState*& current);

// Runs body(machine, lock, current context) under the lock, unless the call must fail.
template <typename Body>
Code call(const char* function, Needs needs, Body body) {
  Machine& all = machine();
  if (was_forked(all, function)) return Code::kNotInitialized;
  Machine::Lock lock(all.mutex);
  ContextState* current = nullptr;
  const Code code = enter(all, function, needs, current);
  return code == Code::kSuccess ? body(all, lock, current) : code;
}

// The stream with the handle. Null, with misuse: there is none. current may be null when the handle
// is not.
StreamPtr find_stream(Machine& machine, const char* function, Stream handle, ContextState* current);
EventPtr find_event(Machine& machine, const char* function, Event handle);

// As call(), for functions of a stream: body(machine, lock, stream). The stream's context is not
// broken.
template <typename Body>
Code stream_call(const char* function, Stream handle, Body body) {
  return call(function, Needs::kContext,
              [&](Machine& all, Machine::Lock& lock, ContextState* current) {
                const StreamPtr stream = find_stream(all, function, handle, current);
                if (stream == nullptr) return Code::kInvalidHandle;
                const Code broken = stream->context->broken;
                return broken == Code::kSuccess ? body(all, lock, *stream) : broken;
              });
}

}  // namespace tally::test::cuda
