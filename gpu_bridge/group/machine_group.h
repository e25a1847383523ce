// A rank (GPU) of a job whose machines sum inside before they sum through Tally. The ranks of a
// group are GPUs of one host (gpu_bridge/machine chooses the groups). An all-reduce has three
// stages, which overlap chunk by chunk (pipeline.h):
//
//   1. Within the group NCCL reduces, so that each GPU has the group's sum of its pieces.
//   2. Each GPU sums its pieces with the GPUs of the other groups that own the same bytes: those of
//      this host and those of other hosts. A node on this host sums over PCIe switches.
//   3. Within the group NCCL gathers the pieces.
//
// A GPU that is a group of its own sends all its bytes.
//
// Set-up, for a job "bert" of the groups of all hosts:
// - Each rank makes the same Division.
// - The GPUs of a group make a communicator of NCCL, with the ranks of Division::members().
// - Each rank opens a session of the job "bert" for all ranks: rank division.rank_of(group, rank)
//   of division.ranks(). And for each column c that it owns (division.columns_of()), a session of
//   the job Division::job_of("bert", c): rank `group` of division.groups(). division.columns() has
//   the memory and the NIC that the plan gives to the bytes of a column.
// - All ranks call make().
//
// The same at all ranks of the job: the Division, GroupOptions, the order of the calls of
// all_reduce(), and in each its count, type, op and tag. Priorities may differ. Ranks take
// completions at the same places of their programs, so that all have room for the next operation.
//
// Errors: the first stage that fails ends the operation, at all ranks with the same status. No
// stream waits for an operation that has failed. A failure of Tally alone (a deadline) leaves the
// group usable. A failure of NCCL or of a device, and the loss of a rank, end the group: all
// outstanding operations fail at all ranks, and new ones are refused.
//
// Threads: any thread, one call at a time; only wait() may run beside another call. A thread of the
// object, "tally-group", follows the operations.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "client/include/tally/tally.h"
#include "gpu_bridge/cuda_api/driver.h"
#include "gpu_bridge/group/agreement.h"
#include "gpu_bridge/group/division.h"
#include "gpu_bridge/nccl_api/library.h"

namespace tally::gpu {

struct GroupOptions {
  std::size_t chunk_bytes = std::size_t{4} << 20;
  std::uint32_t depth = 3;             // chunks between the first stage and the last; at most 16
  std::uint32_t deadline_ms = 60'000;  // of each stage; at most 10 days
};

// What a rank brings. The sessions outlive the group, which uses them alone. They have no other
// operations.
struct GroupMember {
  const cuda::Driver* driver = nullptr;
  cuda::Context context = nullptr;         // of this rank's GPU
  const nccl::Library* library = nullptr;  // may be null without a communicator
  // Of the group's GPUs; null when the group has one. The MachineGroup destroys or aborts it.
  nccl::Comm communicator = nullptr;
  std::size_t group = 0;
  std::uint32_t rank = 0;               // inside the group
  tally_session* all = nullptr;         // of all ranks
  std::vector<tally_session*> columns;  // of the columns that this rank owns, in their order
};

struct GroupOperation {
  cuda::Pointer data = 0;  // in a buffer of add_buffer(); the result replaces the input
  std::uint64_t count = 0;
  tally_type type = TALLY_F32;
  // Averages need groups of the same size, and types of floating point where a group has several
  // GPUs.
  tally_op op = TALLY_SUM;
  std::uint32_t tag = 0;  // below MachineGroup::kTagLimit
  std::uint32_t priority = 0;
  // Earlier work comes first, later work sees the result. It is a stream of this rank's GPU, and is
  // not being captured.
  cuda::Stream stream = nullptr;
  std::uint64_t user = 0;
};

struct GroupCompletion {
  Status status = Status::kOk;
  std::uint32_t tag = 0;
  std::uint64_t user = 0;
  Stage stage = Stage::kNone;             // that failed
  std::uint32_t culprit = TALLY_NO_RANK;  // among all ranks: where the stage failed
  std::string message;
};

class MachineGroup {
 public:
  static constexpr std::uint32_t kTagLimit = (1U << 21) / Division::kMostChunks;
  // Operations and chunks of operations whose completions the caller has not taken.
  static constexpr std::uint32_t kMostOperations = Agreement::kMostOperations;
  static constexpr std::uint32_t kMostOutstandingChunks = 256;

  // Collective. Allocates all that operations need, but for what the sessions make at the first
  // operations. An error leaves the communicator to the caller.
  static Result<std::unique_ptr<MachineGroup>> make(const Division& division,
                                                    const GroupMember& member,
                                                    const GroupOptions& options = {});
  virtual ~MachineGroup() = default;  // collective; fails what is outstanding

  // Registers memory of one allocation of this rank's GPU. Each session of a column has it all:
  // where regions are staged, each takes as much pinned memory of the host.
  virtual Outcome add_buffer(cuda::Pointer data, std::size_t bytes) = 0;
  // kAgain while an operation uses it.
  virtual Outcome remove_buffer(cuda::Pointer data) = 0;

  // Enqueues everything and returns, without waiting for a device. After an error nothing is
  // enqueued. CUDA blocks a caller while a stream has some 1000 calls outstanding. While it does,
  // the group notices no failure: a rank of the machine that is lost then blocks the call for ever.
  virtual Outcome all_reduce(const GroupOperation& operation) = 0;

  // A completion comes when the result stands in the memory of this GPU and all ranks have ended
  // the operation. False: there is none.
  virtual bool poll(GroupCompletion& completion) = 0;
  // kAgain: the time has passed first. kInvalidArgument: nothing is outstanding.
  virtual Outcome wait(GroupCompletion& completion, int timeout_ms) = 0;

 protected:
  MachineGroup() = default;
};

}  // namespace tally::gpu
