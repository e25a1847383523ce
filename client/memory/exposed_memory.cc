#include "client/memory/exposed_memory.h"

#include <cstring>

namespace tally::client {

namespace fabric = transport::fabric;

void ExposedMemory::add(const Region& region, fabric::Fid<fid_mr> exposed, std::uint64_t base) {
  const std::uint64_t key = ::fi_mr_key(exposed.get());
  const std::lock_guard guard(mutex_);
  by_key_[key] = Exposed{&region, region.data(), region.bytes(), base, std::move(exposed)};
}

void ExposedMemory::withdraw(const Region& region) {
  const std::lock_guard guard(mutex_);
  std::erase_if(by_key_, [&](const auto& entry) { return entry.second.region == &region; });
}

void ExposedMemory::clear() {
  const std::lock_guard guard(mutex_);
  by_key_.clear();
}

bool ExposedMemory::store(std::span<const std::byte> results) {
  const std::lock_guard guard(mutex_);
  while (!results.empty()) {
    const auto result = fabric::next_result(results);
    if (!result || !place(*result)) return false;
  }
  return true;
}

bool ExposedMemory::place(const fabric::SmallResult& result) {
  const auto found = by_key_.find(result.store.key);
  if (found == by_key_.end()) return false;
  const Exposed& exposed = found->second;
  const std::uint64_t offset = result.store.address - exposed.base;
  const std::uint64_t bytes = result.bytes.size();
  if (offset > exposed.bytes || bytes > exposed.bytes - offset) return false;
  std::memcpy(exposed.data + offset, result.bytes.data(), bytes);
  return true;
}

}  // namespace tally::client
