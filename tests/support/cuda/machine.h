// The state of the double: devices with their contexts, and everything that has a handle.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "tests/support/cuda/capture.h"
#include "tests/support/cuda/device_memory.h"
#include "tests/support/cuda/ledger.h"
#include "tests/support/cuda/operation.h"
#include "tests/support/cuda/queue.h"

namespace tally::test::cuda {

struct StreamState {
  Stream handle = nullptr;
  ContextState* context = nullptr;
  bool legacy = false;    // the default stream
  bool blocking = false;  // it and the default stream wait for each other
  std::size_t queue = 0;
  OperationPtr last;                 // null: none yet
  std::shared_ptr<Capture> capture;  // null: none
  std::vector<std::size_t> tail;     // nodes of the capture that the next node follows
};
using StreamPtr = std::shared_ptr<StreamState>;

struct EventState {
  Event handle = nullptr;
  ContextState* context = nullptr;
  bool timed = true;
  OperationPtr record;                // null: not recorded, or recorded by a capture
  std::shared_ptr<Capture> captured;  // the last record was in this capture
  std::vector<std::size_t> tail;      // its nodes before the record
};
using EventPtr = std::shared_ptr<EventState>;

// The primary context of a device. It and its threads exist from the first retain to the
// last release.
struct ContextState {
  ContextState(Machine& owner, Device of, Context own);

  // Drops all work; every later call returns the code.
  void break_with(Code code);
  std::vector<StreamPtr> blocking_streams() const;
  // All operations that have not ended.
  std::vector<OperationPtr> pending() const;

  Machine& machine;
  const Device device;
  const Context handle;
  unsigned retained = 0;
  Code broken = Code::kSuccess;
  StreamPtr legacy;
  std::size_t next_queue = 0;  // for the next stream
  HostThread host_thread;
  // A direction has one copy engine, which all queues share.
  bool down_busy = false;
  bool up_busy = false;
  // Last, so that they end first.
  std::vector<std::unique_ptr<Queue>> queues;
};

struct Machine {
  using Lock = std::unique_lock<std::mutex>;

  // A new handle; handles are never used again, so that the use of an old one is detected.
  template <typename Handle>
  Handle make_handle() {
    next_handle += 16;
    // NOLINTNEXTLINE(performance-no-int-to-ptr)
    return reinterpret_cast<Handle>(next_handle);
  }
  void misuse(std::string text);
  // The memory exists: allocated, or registered and mapped.
  bool valid(const Use& use) const;
  // Where the CPU finds the bytes; null: they are not all in one allocation or registered range.
  std::byte* view(Pointer pointer, std::size_t bytes) const;
  // The device that has the address, allocated or not; -1: none.
  Device device_of(Pointer pointer) const;
  // The address of registered memory, from the pointer that devices use for it.
  Pointer host_address(Pointer pointer) const;
  Pointer device_address(const void* data) const;
  // Waits until the operation has ended.
  void await(Lock& lock, const OperationPtr& operation);
  // The context with the handle; null: none.
  ContextState* context(Context handle) const;
  // Ends the context with all that belongs to it. Unlocks while its threads end.
  void destroy(Lock& lock, ContextState& context);

  std::mutex mutex;
  std::condition_variable changed;  // an operation or a copy has ended, or was cancelled
  Settings settings;
  bool initialized = false;
  bool ended = false;              // the process is at its end
  std::atomic<pid_t> process = 0;  // that called cuInit; any thread
  std::uintptr_t next_handle = 0x1000;
  std::uint64_t next_buffer = 1;
  Ledger ledger;
  std::vector<std::unique_ptr<DeviceMemory>> memory;    // by device
  std::vector<std::unique_ptr<ContextState>> contexts;  // by device; null: not retained
  HostMemory host;
  std::map<Stream, StreamPtr> streams;
  std::map<Event, EventPtr> events;
  std::map<Graph, std::shared_ptr<const GraphState>> graphs;
  std::map<GraphExec, std::shared_ptr<ExecState>> executables;
};

// The machine of the process, with the settings of the environment at first. It is never destroyed.
Machine& machine();
// Settings of the environment. Ends the process when they are wrong.
Settings settings_of_environment();
void apply(Machine& machine, const Settings& settings);
// The streams that wait for words, after the work that can end has ended, or after some seconds.
std::vector<Waiting> stuck_streams();

}  // namespace tally::test::cuda
