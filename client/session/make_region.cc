#include "client/session/make_region.h"

#include <fmt/format.h>

#include "client/memory/memory_survey.h"
#include "dataplane/transport/verbs/api.h"
#include "dataplane/wire/notice.h"

namespace tally::client {
namespace {

using Made = Result<std::unique_ptr<Region>>;

bool of_device(const tally_memory& memory) {
  return memory.kind == TALLY_MEMORY_CUDA || memory.kind == TALLY_MEMORY_DMABUF;
}

// Whether only an adapter has to reach the memory.
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

Outcome check_bytes(std::size_t bytes) {
  if (bytes > 0 && bytes <= wire::kMaxBytes) return Unit{};
  return Error{
      Status::kInvalidArgument,
      fmt::format("memory of a region: bytes {}: must be 1 to {}", bytes, wire::kMaxBytes)};
}

Error contradiction(std::string why) {
  return {Status::kInvalidArgument, std::move(why)};
}

// Refuses memory that this build or this session cannot use, and names the reason.
Outcome check(const MemoryNeeds& needs, const tally_memory& memory) {
  if (static_cast<unsigned>(memory.kind) > TALLY_MEMORY_DMABUF) {
    return contradiction(
        fmt::format("memory kind {}: must be 0 (TALLY_MEMORY_HOST) to 3 "
                    "(TALLY_MEMORY_DMABUF)",
                    static_cast<unsigned>(memory.kind)));
  }
  if ((memory.flags & ~TALLY_REGION_STAGE) != 0) {
    return contradiction(
        fmt::format("memory flags {:#x}: must be 0 or 1 (TALLY_REGION_STAGE)", memory.flags));
  }
  if (memory.ibv_mr == nullptr || memory.bytes != 0) {
    if (auto fine = check_bytes(memory.bytes); !fine) return fine;
  }
  if (for_adapter(memory)) return check_adapter(needs, memory);
  if (memory.data == nullptr) {
    return contradiction("memory data is NULL: give the address at which the memory lies");
  }
  if (memory.iova == 0) return Unit{};
  return contradiction(
      fmt::format("memory iova {:#x}: must be 0, because it goes with an ibv_mr or "
                  "a dma-buf alone",
                  memory.iova));
}

// Uses all registered memory, or a part of it.
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

// Adopts the memory when that is possible, and stages it otherwise.
Made of_host(const tally_memory& memory, const MemorySurvey& survey, const RegionMaking& making) {
  if (auto room = making.room_for(memory.bytes); !room) return room.error();
  const bool wanted = (memory.flags & TALLY_REGION_STAGE) != 0;
  if (!wanted && survey.why_not_adopted.empty()) return Region::adopt(memory.data, memory.bytes);
  if (!wanted) {
    making.log(fmt::format("region of {} bytes at {} is staged (copied at post and completion): {}",
                           memory.bytes, memory.data, survey.why_not_adopted));
  }
  return Region::stage(memory.data, memory.bytes);
}

}  // namespace

Made allocate_region(std::size_t bytes, const RegionMaking& making) {
  if (auto fine = check_bytes(bytes); !fine) return fine.error();
  if (auto room = making.room_for(bytes); !room) return room.error();
  return Region::allocate(bytes);
}

Made make_region(const MemoryNeeds& needs, const tally_memory& memory, const RegionMaking& making) {
  if (const auto fine = check(needs, memory); !fine) return fine.error();
  if (memory.ibv_mr != nullptr) return of_registration(memory);
  if (memory.kind == TALLY_MEMORY_CUDA) return std::unique_ptr<Region>();
  if (memory.kind == TALLY_MEMORY_DMABUF) {
    return Region::dmabuf(memory.fd, memory.fd_offset, memory.bytes,
                          memory.iova != 0 ? memory.iova : address_of(memory.data));
  }
  const MemorySurvey survey = survey_memory(memory.data, memory.bytes);
  if (!survey.why_not_used.empty()) {
    return contradiction(fmt::format("memory of {} bytes at {} cannot be registered: {}",
                                     memory.bytes, memory.data, survey.why_not_used));
  }
  if (needs.shared && memory.kind == TALLY_MEMORY_SHARED) {
    return Region::share(memory.data, memory.bytes, memory.fd, memory.fd_offset);
  }
  Made made = needs.shared ? of_host(memory, survey, making)
                           : Made(Region::borrow(memory.data, memory.bytes));
  if (made && !survey.writable) (*made)->make_read_only();
  return made;
}

}  // namespace tally::client
