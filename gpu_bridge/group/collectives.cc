#include "gpu_bridge/group/collectives.h"

#include <fmt/format.h>

#include <utility>

namespace tally::gpu {
namespace {

using nccl::DataType;

void* address(cuda::Pointer data, std::uint64_t element, std::size_t element_bytes) {
  // NOLINTNEXTLINE(performance-no-int-to-ptr)
  return reinterpret_cast<void*>(data + element * element_bytes);
}

}  // namespace

ElementFacts facts_of(tally_type type) {
  switch (type) {
    case TALLY_F32:
      return {DataType::kFloat32, 4, false};
    case TALLY_F64:
      return {DataType::kFloat64, 8, false};
    case TALLY_F16:
      return {DataType::kFloat16, 2, false};
    case TALLY_BF16:
      return {DataType::kBfloat16, 2, false};
    case TALLY_I8:
      return {DataType::kInt8, 1, true};
    case TALLY_U8:
      return {DataType::kUint8, 1, true};
    case TALLY_I32:
      return {DataType::kInt32, 4, true};
    case TALLY_I64:
      return {DataType::kInt64, 8, true};
  }
  return {DataType::kFloat32, 0, false};
}

Collectives::~Collectives() {
  if (comm_ != nullptr) library_->comm_destroy(comm_);
}

Outcome Collectives::check() const {
  const std::size_t size = division_.members(group_).size();
  if (comm_ == nullptr) {
    if (size == 1) return Unit{};
    return invalid(fmt::format(
        "group {} has {} GPUs and no communicator: make one with ncclCommInitRank", group_, size));
  }
  int ranks = 0, rank = 0;
  auto done = nccl::outcome(*library_, comm_, "ncclCommCount", library_->comm_count(comm_, &ranks));
  if (done) {
    done =
        nccl::outcome(*library_, comm_, "ncclCommUserRank", library_->comm_user_rank(comm_, &rank));
  }
  if (!done) return done;
  if (static_cast<std::size_t>(ranks) == size && static_cast<std::uint32_t>(rank) == rank_) {
    return Unit{};
  }
  return invalid(
      fmt::format("the communicator has {} ranks and this is rank {}: rank {} of the {} "
                  "GPUs of group {} is needed, in the order of Division::members()",
                  ranks, rank, rank_, size, group_));
}

Outcome Collectives::outcome_of(const char* call, nccl::Code code) const {
  return nccl::outcome(*library_, comm_, call, code);
}

template <typename Calls>
Outcome Collectives::in_group(Calls calls) {
  if (aborted_) return Error{Status::kInternal, "the communicator of NCCL is aborted"};
  if (comm_ == nullptr) return Unit{};
  auto done = outcome_of("ncclGroupStart", library_->group_start());
  if (!done) return done;
  done = calls();
  // Also after a failure, because the thread's group must end.
  auto ended = outcome_of("ncclGroupEnd", library_->group_end());
  return done ? ended : done;
}

template <typename Call>
Outcome Collectives::for_pieces(std::uint64_t count, Call call) {
  return in_group([&]() -> Outcome {
    for (const Piece& piece : division_.pieces(group_)) {
      const Elements part = division_.elements(piece.first_column, piece.end_column, count);
      if (part.count == 0) continue;
      if (auto done = call(part, static_cast<int>(piece.owner)); !done) return done;
    }
    return Unit{};
  });
}

template <typename Call>
Outcome Collectives::for_runs(std::uint64_t count, Call call) {
  return in_group([&]() -> Outcome {
    const auto& pieces = division_.pieces(group_);
    const std::size_t ranks = division_.members(group_).size();
    for (std::size_t i = 0; i < pieces.size(); i += ranks) {
      const Elements part = division_.elements(pieces[i].first_column, pieces[i].end_column, count);
      if (part.count == 0) continue;
      if (auto done = call(part, part.first + rank_ * part.count); !done) return done;
    }
    return Unit{};
  });
}

Outcome Collectives::reduce(cuda::Pointer data, std::uint64_t count, const ElementFacts& element,
                            nccl::RedOp op, cuda::Stream stream) {
  if (division_.is_even(group_, count)) {
    return for_runs(count, [&](const Elements& part, std::uint64_t own) {
      return outcome_of("ncclReduceScatter",
                        library_->reduce_scatter(address(data, part.first, element.bytes),
                                                 address(data, own, element.bytes), part.count,
                                                 element.type, op, comm_, stream));
    });
  }
  return for_pieces(count, [&](const Elements& part, int root) {
    void* const at = address(data, part.first, element.bytes);
    return outcome_of("ncclReduce",
                      library_->reduce(at, at, part.count, element.type, op, root, comm_, stream));
  });
}

Outcome Collectives::gather(cuda::Pointer data, std::uint64_t count, const ElementFacts& element,
                            cuda::Stream stream) {
  if (division_.is_even(group_, count)) {
    return for_runs(count, [&](const Elements& part, std::uint64_t own) {
      return outcome_of("ncclAllGather",
                        library_->all_gather(address(data, own, element.bytes),
                                             address(data, part.first, element.bytes), part.count,
                                             element.type, comm_, stream));
    });
  }
  return for_pieces(count, [&](const Elements& part, int root) {
    void* const at = address(data, part.first, element.bytes);
    return outcome_of("ncclBroadcast",
                      library_->broadcast(at, at, part.count, element.type, root, comm_, stream));
  });
}

Outcome Collectives::asynchronous_error() const {
  if (comm_ == nullptr) return Unit{};
  nccl::Code error = nccl::Code::kSuccess;
  auto asked = outcome_of("ncclCommGetAsyncError", library_->comm_get_async_error(comm_, &error));
  if (!asked || error == nccl::Code::kInProgress) return asked;
  return outcome_of("an operation of NCCL", error);
}

void Collectives::abort() {
  aborted_ = true;
  if (comm_ != nullptr) library_->comm_abort(std::exchange(comm_, nullptr));
}

}  // namespace tally::gpu
