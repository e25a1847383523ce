// A CUDA of the process: libcuda.so.1 with devices that are threads and memory of this process. It
// behaves as real devices do in what programs can observe: streams run asynchronously on in-order
// hardware queues, the CPU cannot touch device memory, copies take time, a context stays broken
// after an error. It detects misuse, which real devices answer with undefined behavior.
//
// A gtest program links it and may then call the control functions below. cuda::system_driver()
// opens the same copy of the library, because the program has loaded it by its name libcuda.so.1:
//
//   executable('x_test', 'x_test.cc', dependencies: [cuda_driver, cuda_process, gtest])
//
//   class XTest : public ::testing::Test {
//     XTest() { test::cuda::reset({.queues = 1}); }
//     ~XTest() override { EXPECT_THAT(test::cuda::misuses(), ::testing::IsEmpty()); }
//   };
//
// Any other process, such as Python, gets it by LD_LIBRARY_PATH=<build folder>/tests/support/cuda,
// and its settings from the environment: TALLY_TEST_CUDA="queues=1,bandwidth=1000000000,seed=7,
// misuse=abort". settings.cc has the names. Such a process may call the functions of
// cuda_process_c.cc. At its end it prints misuse, and work that streams still wait with.
//
// Not modelled: managed and pooled memory, peer access (every device reaches all memory), several
// contexts of a device, priorities, the per-thread default stream, child graphs, graphs of several
// devices, updates of graphs, the comparisons AND and NOR of words and words of 64 bits, and the
// staging of copies of unregistered memory by graphs.
//
// All functions: any thread, except kernels and host functions.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "gpu_bridge/cuda_api/cuda_abi.h"

#define TALLY_TEST_EXPORT __attribute__((visibility("default")))

namespace tally::test::cuda {

using tally::cuda::Attribute;
using tally::cuda::Code;
using tally::cuda::Context;
using tally::cuda::Device;
using tally::cuda::Event;
using tally::cuda::Graph;
using tally::cuda::GraphExec;
using tally::cuda::HostFunction;
using tally::cuda::Pointer;
using tally::cuda::PointerAttribute;
using tally::cuda::Stream;
using Clock = std::chrono::steady_clock;

struct Settings {
  int devices = 1;      // 0: cuInit fails with kNoDevice
  unsigned queues = 8;  // hardware queues of each device; stream n uses queue n modulo this
  // Bytes per second of each device; 0: as fast as possible.
  std::uint64_t bandwidth_down = 0;     // from the device to the host
  std::uint64_t bandwidth_up = 0;       // from the host to the device
  std::uint64_t bandwidth_between = 0;  // inside a device, and from one to another
  std::uint64_t seed = 0;
  std::chrono::microseconds longest_delay{0};       // before each operation: random, up to this
  std::size_t memory_bytes = std::size_t{1} << 30;  // of each device
  // true: cuMemAlloc returns addresses of freed memory again, as real devices do. false: it does
  // not, so every use of freed memory is detected.
  bool reuses_addresses = false;
  bool allocation_synchronizes = false;  // cuMemAlloc blocks as cuMemFree does
  // cuMemHostRegister and cuMemHostUnregister block until the context's work has ended.
  bool registration_synchronizes = false;
  // A call that enqueues blocks while its hardware queue has so many operations; 0: never.
  std::size_t queue_depth = 0;
  bool dma_buf = true;
  bool stream_memory_operations = true;           // waits for words and writes of words
  bool captures_stream_memory_operations = true;  // also into a graph
  // false: cuMemHostGetDevicePointer returns another address than that of the host.
  bool uses_host_pointers = true;
  int rdma_writes_ordering = 100;  // kWritesOrderingOwner; 0: a flush is necessary
  bool abort_on_misuse = false;
  Code init = Code::kSuccess;    // the result of cuInit
  std::string missing_function;  // the driver does not have it
};

struct Counters {
  std::map<std::string, std::uint64_t> calls;  // by the names of CUDA: "cuMemAlloc"
  // Calls that may block the calling thread until a device has done work: cuStreamSynchronize,
  // cuEventSynchronize, cuCtxSynchronize, cuMemAlloc, cuMemFree, and copies that are asynchronous
  // by name, from or to memory that is not registered.
  std::uint64_t host_synchronizations = 0;
  std::uint64_t pageable_copies = 0;  // the last kind of these
  std::uint64_t operations = 0;       // that queues have completed
  std::uint64_t bytes_down = 0;
  std::uint64_t bytes_up = 0;
  std::uint64_t bytes_between = 0;
  std::uint64_t allocations = 0;  // successful calls of cuMemAlloc
  // What exists now.
  std::size_t live_allocations = 0;
  std::size_t live_bytes = 0;
  std::size_t live_registrations = 0;
  std::size_t live_streams = 0;
  std::size_t live_events = 0;
  std::size_t live_graphs = 0;  // graphs and executable graphs
};

// A stream that cannot continue.
struct Waiting {
  Stream stream;
  std::string on;  // "until word 0x7f.. is at least 5 (it is 4)"
};

// Ends all work and forgets all contexts, handles, counters, misuse and faults. Handles of the time
// before are invalid. cuInit need not be called again. Waits for kernels and host functions in
// progress. Precondition: no other thread is in a call of CUDA.
TALLY_TEST_EXPORT void reset(const Settings& settings = {});
TALLY_TEST_EXPORT Counters counters();
// One text for each call or operation that CUDA forbids.
TALLY_TEST_EXPORT std::vector<std::string> misuses();
TALLY_TEST_EXPORT void forget_misuses();

// The nth call of a function from now on (1: the next one) fails with the code, without effect.
TALLY_TEST_EXPORT void fail(const std::string& function, std::uint64_t nth, Code code);
// Breaks the device's context, as a kernel with an illegal address does: its work is dropped, and
// every later call returns the code.
TALLY_TEST_EXPORT void break_context(Device device, Code code);

// Enqueues a kernel: the function runs in the order of the stream, on a thread of the device. It
// may touch device memory through host_view(). When it throws, the launch fails. Null: the default
// stream of the current context.
TALLY_TEST_EXPORT Code launch(Stream stream, std::function<void()> kernel);
// The bytes of device memory, also of another process's descriptor: see dma_buf(). Null: the
// pointer is in no allocation.
TALLY_TEST_EXPORT std::byte* host_view(Pointer pointer);

// What a descriptor of cuMemGetHandleForAddressRange stands for. The descriptor is that of all
// memory of the device, and its file position is where the range begins: mmap(fd, lseek(fd, 0,
// SEEK_CUR) + offset) maps it. bytes is 0 when it is no such descriptor of this process.
struct DmaBuf {
  Pointer begin = 0;
  std::size_t bytes = 0;
};
TALLY_TEST_EXPORT DmaBuf dma_buf(int fd);

TALLY_TEST_EXPORT std::vector<Waiting> waiting();
// Waits until the stream is one of waiting(). Returns false after the deadline.
TALLY_TEST_EXPORT bool wait_until_waiting(Stream stream, Clock::time_point deadline);
// Ends the wait that the stream is in, as if its condition were true.
TALLY_TEST_EXPORT void release(Stream stream);
// Waits until no stream has work. Returns false after the deadline.
TALLY_TEST_EXPORT bool wait_until_idle(Clock::time_point deadline);

}  // namespace tally::test::cuda
