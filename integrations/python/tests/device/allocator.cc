// A caching allocator, as PyTorch's for CUDA: memory goes back to CUDA in empty_cache() alone.
#include <algorithm>
#include <map>
#include <mutex>
#include <set>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "integrations/python/tests/device/device.h"

namespace tally::torch_device {
namespace {

constexpr std::size_t kRounding = 512;

struct Block {
  cuda::Pointer data = 0;
  std::size_t bytes = 0;
  c10::StreamId stream = 0;          // of the allocation
  int ordinal = 0;                   // of the device
  std::set<c10::StreamId> users{};   // other streams that have used it since
  std::vector<cuda::Event> waits{};  // events that must have happened before the next use
};

using Key = std::tuple<int, c10::StreamId, std::size_t>;  // ordinal, stream, bytes

class CachingAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    if (bytes == 0) return {nullptr, nullptr, &free_block, kDevice};
    const std::size_t rounded = (bytes + kRounding - 1) / kRounding * kRounding;
    void* const data = take(rounded, current_stream().id());
    return {data, data, &free_block, kDevice};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &free_block; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    check("cuMemcpyDtoDAsync", driver().memcpy_dtod_async(reinterpret_cast<cuda::Pointer>(to),
                                                          reinterpret_cast<cuda::Pointer>(from),
                                                          bytes, native(current_stream())));
  }

  void record(void* data, const c10::Stream& stream) {
    const std::lock_guard lock(mutex_);
    const auto found = used_.find(data);
    if (found == used_.end() || found->second.stream == stream.id()) return;
    found->second.users.insert(stream.id());
  }

  void give_back(void* data) {
    const std::lock_guard lock(mutex_);
    const auto found = used_.find(data);
    Block block = std::move(found->second);
    used_.erase(found);
    const cuda::CurrentContext current(driver(), context_of(block.ordinal));
    for (const c10::StreamId user : std::exchange(block.users, {})) {
      cuda::Event event = nullptr;
      check("cuEventCreate", driver().event_create(&event, cuda::kEventDisableTiming));
      check("cuEventRecord", driver().event_record(event, reinterpret_cast<cuda::Stream>(user)));
      block.waits.push_back(event);
    }
    free_.emplace(Key(block.ordinal, block.stream, block.bytes), std::move(block));
  }

  void empty() {
    const std::lock_guard lock(mutex_);
    check("cuCtxSynchronize", driver().ctx_synchronize());
    for (auto& [key, block] : free_) {
      static_cast<void>(is_ready(block));
      check("cuMemFree", driver().mem_free(block.data));
    }
    free_.clear();
  }

  static CachingAllocator& instance() {
    static auto* const made = new CachingAllocator;  // never destroyed: tensors may outlive it
    return *made;
  }

 private:
  static void free_block(void* data) {
    if (data != nullptr) instance().give_back(data);
  }

  static bool is_ready(Block& block) {
    while (!block.waits.empty()) {
      if (driver().event_query(block.waits.back()) != cuda::Code::kSuccess) return false;
      driver().event_destroy(block.waits.back());
      block.waits.pop_back();
    }
    return true;
  }

  void* take(std::size_t bytes, c10::StreamId stream) {
    const std::lock_guard lock(mutex_);
    Block block{.bytes = bytes, .stream = stream, .ordinal = ordinal()};
    const auto [from, to] = free_.equal_range(Key(block.ordinal, stream, bytes));
    const auto ready = std::find_if(from, to, [](auto& one) { return is_ready(one.second); });
    if (ready != to) {
      block = std::move(ready->second);
      free_.erase(ready);
    } else {
      check("cuMemAlloc", driver().mem_alloc(&block.data, bytes));
    }
    auto* const data = reinterpret_cast<void*>(block.data);
    used_.emplace(data, std::move(block));
    return data;
  }

  std::mutex mutex_;  // guards all below
  std::unordered_map<void*, Block> used_;
  std::multimap<Key, Block> free_;
};

}  // namespace

c10::Allocator& allocator() {
  return CachingAllocator::instance();
}

void record_stream(const c10::DataPtr& data, const c10::Stream& stream) {
  CachingAllocator::instance().record(data.get(), stream);
}

void empty_cache() {
  CachingAllocator::instance().empty();
}

}  // namespace tally::torch_device
