// The parts of an operation that NCCL does within the group of a machine: chunks are reduced so
// that each GPU has the group's sum of its pieces, and gathered again. In place.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/result.h"
#include "client/include/tally/tally.h"
#include "gpu_bridge/cuda_api/driver.h"
#include "gpu_bridge/group/division.h"
#include "gpu_bridge/nccl_api/library.h"

namespace tally::gpu {

// Of the elements of a buffer.
struct ElementFacts {
  nccl::DataType type = nccl::DataType::kFloat32;
  std::size_t bytes = 4;
  bool is_integer = false;
};
// bytes is 0: there is no such type.
ElementFacts facts_of(tally_type type);

// One thread at a time.
class Collectives {
 public:
  // Owns the communicator, which may be null when the group has one GPU: both stages then do
  // nothing.
  Collectives(const Division& division, std::size_t group, std::uint32_t rank,
              const nccl::Library* library, nccl::Comm comm)
      : division_(division), group_(group), rank_(rank), library_(library), comm_(comm) {}
  // Precondition: the enqueued work has ended, or abort().
  ~Collectives();
  Collectives(const Collectives&) = delete;
  Collectives& operator=(const Collectives&) = delete;

  // kInvalidArgument: the communicator is not one of this rank of this group.
  Outcome check() const;

  // The communicator is the caller's again.
  void release() { comm_ = nullptr; }

  // Enqueue the stage for a chunk of `count` elements at `data`.
  Outcome reduce(cuda::Pointer data, std::uint64_t count, const ElementFacts& element,
                 nccl::RedOp op, cuda::Stream stream);
  Outcome gather(cuda::Pointer data, std::uint64_t count, const ElementFacts& element,
                 cuda::Stream stream);

  // An error of work that was enqueued before.
  Outcome asynchronous_error() const;
  // Ends the enqueued work of this rank. Everything after it fails.
  void abort();

 private:
  // call(first element, elements, index of the piece), for the pieces that have elements.
  template <typename Call>
  Outcome for_pieces(std::uint64_t count, Call call);
  // The same for runs of equal pieces; `elements` are those of one piece.
  template <typename Call>
  Outcome for_runs(std::uint64_t count, Call call);
  template <typename Calls>
  Outcome in_group(Calls calls);
  Outcome outcome_of(const char* call, nccl::Code code) const;

  const Division& division_;
  std::size_t group_;
  std::uint32_t rank_;
  const nccl::Library* library_;
  nccl::Comm comm_;
  bool aborted_ = false;
};

}  // namespace tally::gpu
