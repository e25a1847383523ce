#include "tests/support/cuda/entry.h"

#include <unistd.h>

#include <cstdio>

namespace tally::test::cuda {
namespace {

constexpr std::uintptr_t kLegacyStream = 1;  // CU_STREAM_LEGACY

// Reports the misuse of a handle that is in no table.
template <typename Handle>
void unknown_handle(Machine& machine, const char* function, const char* kind, Handle handle) {
  const bool old = reinterpret_cast<std::uintptr_t>(handle) <= machine.next_handle;
  machine.misuse(std::string(function) + (old ? " of a destroyed " : " of what is no ") + kind +
                 ": " + text_of(handle));
}

}  // namespace

std::vector<Context>& current_contexts() {
  thread_local std::vector<Context> stack;
  return stack;
}

bool was_forked(const Machine& machine, const char* function) {
  const pid_t process = machine.process;
  if (process == 0 || process == ::getpid()) return false;
  std::fprintf(stderr,
               "test CUDA: misuse: %s is called in a process that fork() made after cuInit\n",
               function);
  return true;
}

Code enter(Machine& machine, const char* function, Needs needs, ContextState*& current) {
  const std::string name = function;
  const auto ordered = machine.ledger.count(function);
  if (machine.ended) return Code::kDeinitialized;
  if (runs_for_device() != nullptr) {
    machine.misuse(name + " is called by " + runs_for_device());
    return Code::kNotPermitted;
  }
  if (needs != Needs::kNothing && !machine.initialized) {
    machine.misuse(name + " is called before cuInit");
    return Code::kNotInitialized;
  }
  if (ordered.has_value()) return *ordered;
  const std::vector<Context>& stack = current_contexts();
  current = stack.empty() ? nullptr : machine.context(stack.back());
  if (needs != Needs::kContext) return Code::kSuccess;
  if (current == nullptr) {
    machine.misuse(name + (stack.empty() ? " is called without a current context"
                                         : " is called with a context that is destroyed"));
    return Code::kInvalidContext;
  }
  return current->broken;
}

StreamPtr find_stream(Machine& machine, const char* function, Stream handle,
                      ContextState* current) {
  if (handle == nullptr || reinterpret_cast<std::uintptr_t>(handle) == kLegacyStream) {
    if (current == nullptr) {
      machine.misuse(std::string(function) + " of the default stream without a current context");
      return nullptr;
    }
    return current->legacy;
  }
  const auto found = machine.streams.find(handle);
  if (found != machine.streams.end()) return found->second;
  unknown_handle(machine, function, "stream", handle);
  return nullptr;
}

EventPtr find_event(Machine& machine, const char* function, Event handle) {
  const auto found = machine.events.find(handle);
  if (found != machine.events.end()) return found->second;
  unknown_handle(machine, function, "event", handle);
  return nullptr;
}

}  // namespace tally::test::cuda
