#include "integrations/python/src/torch/allocator.h"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>

#include <mutex>

#include "integrations/python/src/shared_pool.h"

namespace tally::python {
namespace {

// torch uses the allocator with the highest priority. The default allocator has priority 0.
constexpr std::uint8_t kPriority = 100;

class SharedAllocator final : public c10::Allocator {
 public:
  explicit SharedAllocator(c10::Allocator* before) { previous = before; }

  c10::DataPtr allocate(std::size_t bytes) const override {
    if (bytes >= kSharedFrom) {
      if (const auto block = SharedPool::instance().allocate(bytes)) {
        return {*block, *block, &free_block, c10::Device(c10::DeviceType::CPU)};
      }
    }
    return previous->allocate(bytes);
  }
  c10::DeleterFnPtr raw_deleter() const override { return &free_block; }

 private:
  static void free_block(void* block) {
    if (block == nullptr || SharedPool::instance().free(block)) return;
    previous->raw_deleter()(block);
  }

  static c10::Allocator* previous;
};
c10::Allocator* SharedAllocator::previous = nullptr;

}  // namespace

void install_allocator() {
  static std::once_flag once;
  std::call_once(once, [] {
    // Never destroyed, because tensors may exist until the process ends.
    c10::SetCPUAllocator(new SharedAllocator(c10::GetCPUAllocator()), kPriority);
  });
}

}  // namespace tally::python
