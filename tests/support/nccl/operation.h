// What the ranks of a communicator do together.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/support/nccl/nccl_process.h"

namespace tally::test::nccl {

enum class Kind { kReduceScatter, kAllGather, kReduce, kBroadcast, kAllReduce };

const char* name_of(Kind kind);  // "ncclReduce"
std::size_t bytes_of(DataType type);

// A call of one rank.
struct Operation {
  Kind kind = Kind::kAllReduce;
  tally::cuda::Pointer in = 0;
  tally::cuda::Pointer out = 0;
  std::size_t count = 0;  // of reduce-scatter and all-gather: of one rank
  DataType type = DataType::kFloat32;
  RedOp op = RedOp::kSum;
  int root = 0;

  // Whether two ranks may meet with these calls.
  bool matches(const Operation& other) const;
  std::string text() const;  // "ncclReduce of 5 elements of type 7, operator 0, root 1"

  // Bytes that the calls read and write at a rank of so many.
  std::size_t in_bytes(int ranks) const;
  std::size_t out_bytes(int ranks) const;
  // What the rank sends to the next one of the ring.
  std::uint64_t sent_bytes(int rank, int ranks) const;
};

// The calls of a group.
using Batch = std::vector<Operation>;

// Executes call `index` of the batches, one for each rank. Precondition: the memory exists.
void perform(const std::vector<const Batch*>& batches, std::size_t index);

}  // namespace tally::test::nccl
