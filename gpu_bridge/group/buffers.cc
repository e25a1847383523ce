#include "gpu_bridge/group/buffers.h"

#include <fmt/format.h>

#include <algorithm>

namespace tally::gpu {

GroupBuffers::~GroupBuffers() {
  for (GroupBuffer& buffer : buffers_) static_cast<void>(release(buffer));
}

Outcome GroupBuffers::add(cuda::Pointer data, std::size_t bytes) {
  GroupBuffer buffer{data, bytes, {}};
  for (tally_session* const session : columns_) {
    tally_memory memory{};
    memory.size = sizeof memory;
    memory.kind = TALLY_MEMORY_CUDA;
    // NOLINTNEXTLINE(performance-no-int-to-ptr)
    memory.data = reinterpret_cast<void*>(data);
    memory.bytes = bytes;
    tally_region* region = nullptr;
    const auto status = tally_region_register(session, &memory, &region);
    if (status != TALLY_OK) {
      Error error{static_cast<Status>(status), tally_last_error(session)};
      static_cast<void>(release(buffer));
      return error;
    }
    buffer.regions.push_back(region);
  }
  buffers_.push_back(std::move(buffer));
  return Unit{};
}

Outcome GroupBuffers::release(GroupBuffer& buffer) {
  while (!buffer.regions.empty()) {
    tally_session* const session = columns_[buffer.regions.size() - 1];
    const auto status = tally_region_free(session, buffer.regions.back());
    if (status != TALLY_OK) return Error{static_cast<Status>(status), tally_last_error(session)};
    buffer.regions.pop_back();
  }
  return Unit{};
}

Outcome GroupBuffers::remove(cuda::Pointer data) {
  const auto found = std::find_if(buffers_.begin(), buffers_.end(),
                                  [&](const GroupBuffer& one) { return one.data == data; });
  if (found == buffers_.end()) {
    return invalid(
        fmt::format("no buffer begins at {:#x}: give the address of add_buffer()", data));
  }
  const auto released = release(*found);
  if (released) {
    buffers_.erase(found);
  } else if (found->regions.size() < columns_.size()) {
    found->bytes = 0;  // no operation can use what is left
  }
  return released;
}

const GroupBuffer* GroupBuffers::find(cuda::Pointer data, std::size_t bytes) const {
  for (const GroupBuffer& one : buffers_) {
    if (data >= one.data && data - one.data <= one.bytes &&
        bytes <= one.bytes - (data - one.data)) {
      return &one;
    }
  }
  return nullptr;
}

}  // namespace tally::gpu
