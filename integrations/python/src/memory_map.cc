#include "integrations/python/src/memory_map.h"

#include <bit>
#include <iterator>

#include "integrations/python/src/failure.h"
#include "integrations/python/src/shared_pool.h"

namespace tally::python {
namespace {

constexpr std::size_t kLeastBounce = 64 << 10;

tally_memory memory_of(tally_memory_kind kind, void* data, std::size_t bytes) {
  tally_memory memory{};
  memory.size = sizeof memory;
  memory.kind = kind;
  memory.data = data;
  memory.bytes = bytes;
  return memory;
}

}  // namespace

void MemoryMap::require(tally_status status) const {
  if (status != TALLY_OK) throw Failure(status, tally_last_error(session_));
}

const MemoryMap::Known* MemoryMap::find(const std::byte* data, std::size_t bytes,
                                        std::uint64_t& offset) const {
  const auto after = known_.upper_bound(data);
  if (after == known_.begin()) return nullptr;
  const auto& [start, known] = *std::prev(after);
  offset = static_cast<std::uint64_t>(data - start);
  return offset <= known.bytes && bytes <= known.bytes - offset ? &known : nullptr;
}

void MemoryMap::add(const tally_memory& memory) {
  tally_region* region = nullptr;
  require(tally_region_register(session_, &memory, &region));
  known_[static_cast<const std::byte*>(memory.data)] = Known{memory.bytes, region};
}

void MemoryMap::adopt(void* data, std::size_t bytes) {
  add(memory_of(TALLY_MEMORY_HOST, data, bytes));
}

void MemoryMap::add_device_memory(void* data, std::size_t bytes) {
  add(memory_of(TALLY_MEMORY_CUDA, data, bytes));
}

tally_buffer MemoryMap::registered(const void* data, std::size_t bytes) const {
  std::uint64_t offset = 0;
  const Known* const known = find(static_cast<const std::byte*>(data), bytes, offset);
  if (known == nullptr)
    throw Failure(TALLY_BAD_REGION, "memory of a device that is not registered");
  return {known->region, offset};
}

bool MemoryMap::forget(void* data) {
  const auto found = known_.find(static_cast<const std::byte*>(data));
  if (found == known_.end()) return false;
  require(tally_region_free(session_, found->second.region));
  known_.erase(found);
  return true;
}

tally_buffer MemoryMap::place(const void* data, std::size_t bytes, Bounce& bounce) {
  const auto* address = static_cast<const std::byte*>(data);
  std::uint64_t offset = 0;
  if (const Known* known = find(address, bytes, offset)) return {known->region, offset};
  if (const auto segment = SharedPool::instance().find(data)) {
    tally_memory memory = memory_of(TALLY_MEMORY_SHARED, segment->data, segment->bytes);
    memory.fd = segment->fd;
    add(memory);
    if (const Known* known = find(address, bytes, offset)) return {known->region, offset};
  }
  bounce = take_bounce(bytes);
  return {bounce.region, 0};
}

// Sizes are powers of two, so that few sizes serve all operations.
Bounce MemoryMap::take_bounce(std::size_t bytes) {
  if (const auto fits = free_bounces_.lower_bound(bytes);
      fits != free_bounces_.end() && fits->first <= 4 * bytes + kLeastBounce) {
    const Bounce bounce = fits->second;
    free_bounces_.erase(fits);
    return bounce;
  }
  Bounce bounce;
  bounce.room = std::bit_ceil(bytes < kLeastBounce ? kLeastBounce : bytes);
  void* data = nullptr;
  require(tally_region_alloc(session_, bounce.room, &bounce.region, &data));
  bounce.data = static_cast<std::byte*>(data);
  return bounce;
}

void MemoryMap::give_back(Bounce& bounce) {
  if (bounce.data != nullptr) free_bounces_.emplace(bounce.room, bounce);
  bounce = Bounce{};
}

void MemoryMap::count_copy(std::size_t bytes) {
  copied_bytes_ += bytes;
}

std::uint64_t MemoryMap::copied_bytes() const {
  tally_session_info info{};
  info.size = sizeof info;
  require(tally_get_info(session_, &info));
  return copied_bytes_ + info.copied_bytes;
}

}  // namespace tally::python
