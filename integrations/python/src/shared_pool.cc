#include "integrations/python/src/shared_pool.h"

#include <fmt/format.h>
#include <pthread.h>
#include <sys/mman.h>

#include <algorithm>
#include <iterator>

namespace tally::python {
namespace {

std::size_t round_up(std::size_t bytes) {
  constexpr std::size_t kStep = SharedPool::kBlockAlignment;
  return std::max(kStep, (bytes + kStep - 1) / kStep * kStep);
}

}  // namespace

SharedPool* SharedPool::given = nullptr;

void SharedPool::use(SharedPool& pool) {
  given = &pool;
}

SharedPool& SharedPool::instance() {
  if (given != nullptr) return *given;
  static SharedPool* pool = [] {
    ::pthread_atfork([] { instance().mutex_.lock(); }, [] { instance().mutex_.unlock(); },
                     after_fork_in_child);
    return new SharedPool;
  }();
  return *pool;
}

// The parent shares this memory with its node, and a child's writes must not reach the node.
void SharedPool::after_fork_in_child() {
  for (auto& [address, memory] : instance().segments_) {
    const auto& mapping = memory.shared.mapping;
    ::mmap(mapping.data(), mapping.size(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED,
           memory.shared.fd.get(), 0);
  }
  instance().mutex_.unlock();
}

void* SharedPool::take(Memory& memory, std::size_t bytes) {
  const auto hole = std::find_if(memory.holes.begin(), memory.holes.end(),
                                 [&](const auto& candidate) { return candidate.second >= bytes; });
  if (hole == memory.holes.end()) return nullptr;
  const auto [offset, room] = *hole;
  memory.holes.erase(hole);
  if (room > bytes) memory.holes.emplace(offset + bytes, room - bytes);
  memory.blocks.emplace(offset, bytes);
  return memory.shared.mapping.data() + offset;
}

Result<void*> SharedPool::allocate(std::size_t wanted) {
  const std::size_t bytes = round_up(wanted);
  if (bytes < wanted) {
    return Error{
        Status::kNoMemory,
        fmt::format("cannot allocate {} bytes: more than the address space; ask for less", wanted)};
  }
  const std::lock_guard lock(mutex_);
  for (auto& [address, memory] : segments_) {
    if (void* block = take(memory, bytes)) return block;
  }
  auto made = transport::shm::make_shared("tally-pool", std::max(bytes, kSegmentBytes));
  if (!made) return made.error();
  Memory memory{std::move(made).value(), {}, {}};
  const auto& mapping = memory.shared.mapping;
  ::madvise(mapping.data(), mapping.size(), MADV_DOFORK);  // see after_fork_in_child
  memory.holes.emplace(0, mapping.size());
  const std::byte* address = mapping.data();
  return take(segments_.emplace(address, std::move(memory)).first->second, bytes);
}

const SharedPool::Memory* SharedPool::owner(const void* address) const {
  const auto* place = static_cast<const std::byte*>(address);
  const auto after = segments_.upper_bound(place);
  if (after == segments_.begin()) return nullptr;
  const auto& [start, memory] = *std::prev(after);
  return place < start + memory.shared.mapping.size() ? &memory : nullptr;
}

bool SharedPool::free(void* block) {
  const std::lock_guard lock(mutex_);
  auto* memory = const_cast<Memory*>(owner(block));
  if (memory == nullptr) return false;
  const auto offset =
      static_cast<std::size_t>(static_cast<std::byte*>(block) - memory->shared.mapping.data());
  const auto found = memory->blocks.find(offset);
  if (found == memory->blocks.end()) return false;
  auto hole = memory->holes.emplace(offset, found->second).first;
  memory->blocks.erase(found);
  const auto next = std::next(hole);
  if (next != memory->holes.end() && hole->first + hole->second == next->first) {
    hole->second += next->second;
    memory->holes.erase(next);
  }
  if (hole != memory->holes.begin()) {
    const auto before = std::prev(hole);
    if (before->first + before->second == hole->first) {
      before->second += hole->second;
      memory->holes.erase(hole);
    }
  }
  return true;
}

std::optional<SharedPool::Segment> SharedPool::find(const void* address) const {
  const std::lock_guard lock(mutex_);
  const Memory* memory = owner(address);
  if (memory == nullptr) return std::nullopt;
  const auto& mapping = memory->shared.mapping;
  return Segment{mapping.data(), mapping.size(), memory->shared.fd.get()};
}

SharedPool::Usage SharedPool::usage() const {
  const std::lock_guard lock(mutex_);
  Usage usage{segments_.size(), 0, 0};
  for (const auto& [address, memory] : segments_) {
    usage.bytes += memory.shared.mapping.size();
    for (const auto& [offset, bytes] : memory.holes) usage.free_bytes += bytes;
  }
  return usage;
}

}  // namespace tally::python
