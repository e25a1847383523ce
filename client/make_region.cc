#include "client/make_region.h"

#include <fmt/format.h>

#include "dataplane/transport/verbs/api.h"

namespace tally::client {
namespace {

using Made = Result<std::unique_ptr<Region>>;

bool of_device(const tally_memory& memory) {
  return memory.kind == TALLY_MEMORY_CUDA || memory.kind == TALLY_MEMORY_DMABUF;
}

// What an adapter reaches, and nobody else has to.
bool for_adapter(const tally_memory& memory) {
  return memory.ibv_mr != nullptr || memory.kind == TALLY_MEMORY_DMABUF;
}

Outcome check_adapter(const MemoryNeeds& needs, const tally_memory& memory) {
  if (!needs.adapter) {
    return Error{
        Status::kUnsupported,
        fmt::format("{} needs transport verbs, and this session has {}: open it with {}",
                    memory.ibv_mr != nullptr ? "ibv_mr" : "TALLY_MEMORY_DMABUF", needs.transport,
                    memory.ibv_mr != nullptr ? "the ibv_pd that the memory is registered in"
                                             : "transport \"verbs\"")};
  }
  if ((memory.flags & TALLY_REGION_STAGE) != 0) {
    return Error{Status::kInvalidArgument,
                 "TALLY_REGION_STAGE: an ibv_mr or a dma-buf is used where it lies; leave it out"};
  }
  return Unit{};
}

// What this build cannot use is refused by name.
Outcome check(const MemoryNeeds& needs, const tally_memory& memory) {
  if (static_cast<unsigned>(memory.kind) > TALLY_MEMORY_DMABUF) {
    return Error{Status::kInvalidArgument,
                 fmt::format("memory kind {} is unknown", static_cast<int>(memory.kind))};
  }
  if (memory.kind == TALLY_MEMORY_CUDA && memory.ibv_mr == nullptr) {
    return Error{
        Status::kUnsupported,
        "TALLY_MEMORY_CUDA: this build has no GPU support; register the memory with "
        "ibv_reg_mr and give the ibv_mr, give it as a TALLY_MEMORY_DMABUF, or copy to host "
        "memory first"};
  }
  if ((memory.flags & ~TALLY_REGION_STAGE) != 0) {
    return Error{Status::kInvalidArgument,
                 fmt::format("memory flags {:#x} are unknown", memory.flags)};
  }
  const bool needs_data = !for_adapter(memory);
  if ((needs_data && memory.data == nullptr) || (memory.ibv_mr == nullptr && memory.bytes == 0)) {
    return Error{Status::kInvalidArgument, "memory: data is NULL or bytes is 0"};
  }
  if (for_adapter(memory)) return check_adapter(needs, memory);
  if (memory.iova == 0) return Unit{};
  return Error{Status::kInvalidArgument, "memory: iova goes with an ibv_mr or a dma-buf alone"};
}

// All of what is registered, or a piece of it.
Made of_registration(const tally_memory& memory) {
  ibv_mr& registration = *memory.ibv_mr;
  const std::uint64_t begin = address_of(registration.addr);
  const std::uint64_t first = memory.data != nullptr ? address_of(memory.data) : begin;
  const std::uint64_t offset = first - begin;
  const bool inside = first >= begin && offset < registration.length;
  const std::uint64_t rest = inside ? registration.length - offset : 0;
  if (!inside || memory.bytes > rest) {
    return Error{Status::kInvalidArgument,
                 fmt::format("memory of {} bytes at {:#x} does not lie in the ibv_mr, which has {} "
                             "bytes at {}",
                             memory.bytes, first, registration.length, registration.addr)};
  }
  const std::uint64_t address = (memory.iova != 0 ? memory.iova : begin) + offset;
  auto* data = of_device(memory) ? nullptr : static_cast<std::byte*>(registration.addr) + offset;
  return Region::registered(registration, data, memory.bytes != 0 ? memory.bytes : rest, address);
}

}  // namespace

Made make_region(const MemoryNeeds& needs, const tally_memory& memory,
                 const std::function<void(const std::string&)>& say) {
  if (const auto fine = check(needs, memory); !fine) return fine.error();
  if (memory.ibv_mr != nullptr) return of_registration(memory);
  if (memory.kind == TALLY_MEMORY_DMABUF) {
    return Region::dmabuf(memory.fd, memory.fd_offset, memory.bytes,
                          memory.iova != 0 ? memory.iova : address_of(memory.data));
  }
  if (!needs.shared) return Region::borrow(memory.data, memory.bytes);
  if (memory.kind == TALLY_MEMORY_SHARED) {
    return Region::share(memory.data, memory.bytes, memory.fd, memory.fd_offset);
  }
  if ((memory.flags & TALLY_REGION_STAGE) != 0) return Region::stage(memory.data, memory.bytes);
  const std::string why_not = Region::why_not_adopt(memory.data, memory.bytes);
  if (why_not.empty()) return Region::adopt(memory.data, memory.bytes);
  say(fmt::format("region of {} bytes at {} is staged (copied at post and completion): {}",
                  memory.bytes, memory.data, why_not));
  return Region::stage(memory.data, memory.bytes);
}

}  // namespace tally::client
