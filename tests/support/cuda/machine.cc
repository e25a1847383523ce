#include "tests/support/cuda/machine.h"

#include <unistd.h>

#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <utility>

namespace tally::test::cuda {
namespace {

// What devices add to the address of registered memory when they do not use that of the host.
constexpr Pointer kHostAlias = Pointer{1} << 62;

// At the end of the process: what the program leaves behind.
void end_process() {
  Machine& all = machine();
  const pid_t process = all.process;
  if (process != 0 && process != ::getpid()) return;  // threads do not survive a fork
  const auto stuck = stuck_streams();
  {
    const std::lock_guard lock(all.mutex);
    for (const Waiting& one : stuck) {
      all.misuse("the process ends while stream " + text_of(one.stream) + " waits " + one.on);
    }
    all.ended = true;
  }
  reset();
}

}  // namespace

std::string text_of(std::uint64_t address) {
  char text[24];
  std::snprintf(text, sizeof text, "0x%" PRIx64, address);
  return text;
}

std::string text_of(const void* handle) {
  return text_of(std::uint64_t{reinterpret_cast<std::uintptr_t>(handle)});
}

ContextState::ContextState(Machine& owner, Device of, Context own)
    : machine(owner), device(of), handle(own), legacy(std::make_shared<StreamState>()) {
  legacy->context = this;
  legacy->legacy = true;
  for (unsigned i = 0; i < machine.settings.queues; ++i) {
    const std::uint64_t seed = machine.settings.seed * 1000 + static_cast<unsigned>(device) * 100U;
    queues.push_back(std::make_unique<Queue>(machine, *this, seed + i));
  }
}

void ContextState::break_with(Code code) {
  if (broken == Code::kSuccess) broken = code;
  for (const auto& queue : queues) queue->cancel_all();
}

std::vector<StreamPtr> ContextState::blocking_streams() const {
  std::vector<StreamPtr> found;
  for (const auto& [handle_of, stream] : machine.streams) {
    if (stream->context == this && stream->blocking) found.push_back(stream);
  }
  return found;
}

std::vector<OperationPtr> ContextState::pending() const {
  std::vector<OperationPtr> found;
  for (const auto& queue : queues) {
    found.insert(found.end(), queue->pending().begin(), queue->pending().end());
  }
  return found;
}

void Machine::misuse(std::string text) {
  std::fprintf(stderr, "test CUDA: misuse: %s\n", text.c_str());
  ledger.misuses.push_back(std::move(text));
  if (settings.abort_on_misuse) std::abort();
}

bool Machine::valid(const Use& use) const {
  const std::byte* const found = view(use.begin, use.bytes);
  return found != nullptr && (device_of(use.begin) >= 0 || is_mapped(found, use.bytes));
}

std::byte* Machine::view(Pointer pointer, std::size_t bytes) const {
  const Device device = device_of(pointer);
  if (device >= 0) {
    const DeviceMemory& of = *memory[static_cast<std::size_t>(device)];
    return of.contains(pointer, bytes) ? of.view(pointer) : nullptr;
  }
  const Pointer address = host_address(pointer);
  // NOLINTNEXTLINE(performance-no-int-to-ptr)
  return host.contains(address, bytes) ? reinterpret_cast<std::byte*>(address) : nullptr;
}

Device Machine::device_of(Pointer pointer) const {
  for (std::size_t i = 0; i < memory.size(); ++i) {
    if (memory[i]->owns(pointer)) return static_cast<Device>(i);
  }
  return -1;
}

Pointer Machine::host_address(Pointer pointer) const {
  return settings.uses_host_pointers ? pointer : pointer & ~kHostAlias;
}

Pointer Machine::device_address(const void* data) const {
  const Pointer address = reinterpret_cast<std::uintptr_t>(data);
  return settings.uses_host_pointers ? address : address | kHostAlias;
}

void Machine::await(Lock& lock, const OperationPtr& operation) {
  if (operation == nullptr) return;
  const OperationPtr kept = operation;  // the stream may be given another one meanwhile
  changed.wait(lock, [&] { return kept->done; });
}

ContextState* Machine::context(Context handle) const {
  for (const auto& one : contexts) {
    if (one != nullptr && one->handle == handle) return one.get();
  }
  return nullptr;
}

void Machine::destroy(Lock& lock, ContextState& context) {
  for (const auto& queue : context.queues) queue->stop();
  std::erase_if(streams, [&](const auto& one) { return one.second->context == &context; });
  std::erase_if(events, [&](const auto& one) { return one.second->context == &context; });
  memory[static_cast<std::size_t>(context.device)]->free_all();
  host.remove_all_of(context.handle);
  auto& entry = contexts[static_cast<std::size_t>(context.device)];
  const std::unique_ptr<ContextState> gone = std::move(entry);
  entry = nullptr;
  lock.unlock();
  gone->queues.clear();  // waits for the threads
  lock.lock();
}

void apply(Machine& machine, const Settings& settings) {
  machine.settings = settings;
  machine.memory.clear();
  machine.contexts.clear();
  for (int i = 0; i < settings.devices; ++i) {
    machine.memory.push_back(
        std::make_unique<DeviceMemory>(settings.memory_bytes, settings.reuses_addresses));
    machine.contexts.push_back(nullptr);
  }
}

Machine& machine() {
  // Not a static object, because threads of the program may call CUDA while it ends.
  static Machine* const the_machine = [] {
    auto* made = new Machine;
    apply(*made, settings_of_environment());
    std::atexit(end_process);
    return made;
  }();
  return *the_machine;
}

void reset(const Settings& settings) {
  Machine& all = machine();
  Machine::Lock lock(all.mutex);
  for (std::size_t i = 0; i < all.contexts.size(); ++i) {
    if (all.contexts[i] != nullptr) all.destroy(lock, *all.contexts[i]);
  }
  all.streams.clear();
  all.events.clear();
  all.graphs.clear();
  all.executables.clear();
  all.host.clear();
  all.ledger = {};
  apply(all, settings);
}

}  // namespace tally::test::cuda
