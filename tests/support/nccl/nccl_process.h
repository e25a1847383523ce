// An NCCL of the process: libnccl.so.2 over the CUDA of the process (tests/support/cuda). The ranks
// of a communicator are threads of the program, each with a device of its own. It behaves as NCCL
// does in what programs can observe:
//
// - A call enqueues and returns. The operation blocks its stream until all ranks have reached it.
// - The operations of a communicator run in the order of the calls, also on different streams.
// - The calls of a group are one operation.
// - A rank that aborts its communicator ends its own operations. The other ranks continue to wait.
//
// It detects misuse, which NCCL answers with a hang or with wrong sums: ranks that call different
// operations, other memory than that of devices, a communicator that is destroyed, two ranks on one
// device.
//
// A gtest program links it and the CUDA of the process, and may then call the functions below.
// nccl::system_library() opens the same copy of the library, because the program has loaded it by
// its name libnccl.so.2.
//
// Not modelled: ncclCommInitRank in a group, several streams of one communicator in a group,
// capture into graphs, point-to-point calls, memory of the host.
//
// All functions: any thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "gpu_bridge/nccl_api/nccl_abi.h"

#define TALLY_TEST_NCCL_EXPORT __attribute__((visibility("default")))

namespace tally::test::nccl {

using tally::nccl::Code;
using tally::nccl::Comm;
using tally::nccl::DataType;
using tally::nccl::RedOp;
using tally::nccl::UniqueId;
using Clock = std::chrono::steady_clock;

struct Settings {
  // Bytes per second that a rank sends to the next one of the ring; 0: as fast as possible.
  std::uint64_t bandwidth = 0;
};

// Of one rank of a communicator, by the names of NCCL: "ncclReduce".
struct Counters {
  std::map<std::string, std::uint64_t> calls;
  // Bytes to the next rank of a ring in the order of ranks, as the ring algorithm sends them.
  std::map<std::string, std::uint64_t> sent_bytes;
  std::uint64_t all_sent_bytes() const {
    std::uint64_t sum = 0;
    for (const auto& [name, bytes] : sent_bytes) sum += bytes;
    return sum;
  }
};

// An operation of a rank that has ended. A group is one operation, with the name of its first call.
struct Record {
  std::string name;
  Clock::time_point begin;  // all ranks have reached it
  Clock::time_point end;
};

// Forgets counters, misuse and faults. Precondition: all communicators are destroyed or aborted,
// and no other thread is in a call.
TALLY_TEST_NCCL_EXPORT void reset(const Settings& settings = {});
TALLY_TEST_NCCL_EXPORT std::vector<std::string> misuses();
TALLY_TEST_NCCL_EXPORT void forget_misuses();
// Also of a communicator that is destroyed.
TALLY_TEST_NCCL_EXPORT Counters counters(Comm comm);
TALLY_TEST_NCCL_EXPORT std::vector<Record> records(Comm comm);
// Communicators that are neither destroyed nor aborted.
TALLY_TEST_NCCL_EXPORT std::size_t live_communicators();

// The nth call of a function from now on (1: the next one) fails with the code, without effect.
TALLY_TEST_NCCL_EXPORT void fail(const std::string& function, std::uint64_t nth, Code code);
// ncclCommGetAsyncError returns the code from now on.
TALLY_TEST_NCCL_EXPORT void set_async_error(Comm comm, Code code);

}  // namespace tally::test::nccl
