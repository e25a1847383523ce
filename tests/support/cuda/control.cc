// The functions of cuda_process.h that tests call to control and to observe, except reset().
#include <thread>
#include <utility>

#include "tests/support/cuda/machine.h"

namespace tally::test::cuda {
namespace {

constexpr auto kGlance = std::chrono::microseconds(100);
constexpr auto kGrace = std::chrono::seconds(2);

template <typename Condition>
bool poll_until(Condition condition, Clock::time_point deadline) {
  while (!condition()) {
    if (Clock::now() >= deadline) return false;
    std::this_thread::sleep_for(kGlance);
  }
  return true;
}

// What the operation at the head of a queue waits for; empty: nothing.
std::string wait_of(const Operation& operation) {
  if (operation.started) return operation.work.waits_for ? operation.work.waits_for() : "";
  for (const OperationPtr& before : operation.after) {
    if (!before->done) {
      return "with a " + operation.work.what + " for a " + before->work.what + " of stream " +
             text_of(before->stream);
    }
  }
  return "";
}

void add_waiting(const ContextState& context, std::vector<Waiting>& found) {
  for (const auto& queue : context.queues) {
    const auto& pending = queue->pending();
    if (pending.empty()) continue;
    const std::string on = wait_of(*pending.front());
    if (on.empty()) continue;
    const Stream first = pending.front()->stream;
    found.push_back({first, on});
    // The other streams of the queue wait behind it.
    std::map<Stream, bool> named{{first, true}};
    for (const OperationPtr& operation : pending) {
      if (named.emplace(operation->stream, true).second) {
        found.push_back({operation->stream, "behind stream " + text_of(first) + " in its queue"});
      }
    }
  }
}

}  // namespace

std::vector<Waiting> stuck_streams() {
  std::vector<Waiting> found;
  const auto look = [&found] {
    Machine& all = machine();
    const std::lock_guard lock(all.mutex);
    bool idle = true;
    for (const auto& context : all.contexts) {
      if (context == nullptr) continue;
      for (const auto& queue : context->queues) {
        if (queue->pending().empty()) continue;
        const Operation& first = *queue->pending().front();
        idle = false;
        if (first.started && first.work.waits_for) {
          found.push_back({first.stream, first.work.waits_for()});
        }
      }
    }
    return idle || !found.empty();
  };
  poll_until(look, Clock::now() + kGrace);
  return found;
}

Counters counters() {
  Machine& all = machine();
  const std::lock_guard lock(all.mutex);
  Counters now = all.ledger.counters;
  for (const auto& memory : all.memory) {
    now.live_allocations += memory->allocations().size();
    now.live_bytes += memory->used();
  }
  now.live_registrations = all.host.count();
  now.live_streams = all.streams.size();
  now.live_events = all.events.size();
  now.live_graphs = all.graphs.size() + all.executables.size();
  return now;
}

std::vector<std::string> misuses() {
  Machine& all = machine();
  const std::lock_guard lock(all.mutex);
  return all.ledger.misuses;
}

void forget_misuses() {
  Machine& all = machine();
  const std::lock_guard lock(all.mutex);
  all.ledger.misuses.clear();
}

void fail(const std::string& function, std::uint64_t nth, Code code) {
  Machine& all = machine();
  const std::lock_guard lock(all.mutex);
  all.ledger.faults[function][all.ledger.counters.calls[function] + nth] = code;
}

void break_context(Device device, Code code) {
  Machine& all = machine();
  const std::lock_guard lock(all.mutex);
  const auto& context = all.contexts.at(static_cast<std::size_t>(device));
  if (context != nullptr) context->break_with(code);
}

std::byte* host_view(Pointer pointer) {
  Machine& all = machine();
  const std::lock_guard lock(all.mutex);
  const Device device = all.device_of(pointer);
  return device < 0 ? nullptr : all.view(pointer, 1);
}

DmaBuf dma_buf(int fd) {
  Machine& all = machine();
  const std::lock_guard lock(all.mutex);
  for (const auto& memory : all.memory) {
    const DmaBuf found = memory->exported(fd);
    if (found.bytes != 0) return found;
  }
  return {};
}

std::vector<Waiting> waiting() {
  Machine& all = machine();
  const std::lock_guard lock(all.mutex);
  std::vector<Waiting> found;
  for (const auto& context : all.contexts) {
    if (context != nullptr) add_waiting(*context, found);
  }
  return found;
}

bool wait_until_waiting(Stream stream, Clock::time_point deadline) {
  return poll_until(
      [stream] {
        for (const Waiting& one : waiting()) {
          if (one.stream == stream) return true;
        }
        return false;
      },
      deadline);
}

void release(Stream stream) {
  Machine& all = machine();
  const std::lock_guard lock(all.mutex);
  for (const auto& context : all.contexts) {
    if (context == nullptr) continue;
    for (const auto& queue : context->queues) {
      const auto& pending = queue->pending();
      if (pending.empty() || pending.front()->stream != stream) continue;
      Operation& first = *pending.front();
      // Copies and kernels are not waits, also where they wait for earlier work.
      if (first.work.waits_for || !first.work.run) first.cancelled = true;
    }
  }
  all.changed.notify_all();
}

bool wait_until_idle(Clock::time_point deadline) {
  return poll_until(
      [] {
        Machine& all = machine();
        const std::lock_guard lock(all.mutex);
        for (const auto& context : all.contexts) {
          if (context != nullptr && !context->pending().empty()) return false;
        }
        return true;
      },
      deadline);
}

}  // namespace tally::test::cuda
