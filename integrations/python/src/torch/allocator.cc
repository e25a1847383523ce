#include "integrations/python/src/torch/allocator.h"

#include <c10/core/CPUAllocator.h>

#include <mutex>

#include "integrations/python/src/shared_pool.h"

namespace tally::python {
namespace {

// torch uses the allocator with the highest priority. The default allocator has priority 0.
constexpr std::uint8_t kPriority = 100;

class SharedAllocator final : public c10::Allocator {
 public:
  explicit SharedAllocator(std::size_t from) : from_(from) {}

  c10::DataPtr allocate(std::size_t bytes) override {
    if (bytes >= from_) {
      if (const auto block = SharedPool::instance().allocate(bytes)) {
        return {*block, *block, &free_block, c10::Device(c10::DeviceType::CPU)};
      }
    }
    return torch_own->allocate(bytes);
  }
  c10::DeleterFnPtr raw_deleter() const override { return &free_block; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }

 private:
  static void free_block(void* block) {
    if (block == nullptr || SharedPool::instance().free(block)) return;
    torch_own->raw_deleter()(block);
  }

  static c10::Allocator* const torch_own;
  const std::size_t from_;
};
c10::Allocator* const SharedAllocator::torch_own = c10::GetDefaultCPUAllocator();

}  // namespace

void install_allocator() {
  static std::once_flag once;
  // Never destroyed, because tensors may exist until the process ends.
  std::call_once(once, [] { c10::SetCPUAllocator(new SharedAllocator(kSharedFrom), kPriority); });
}

const std::shared_ptr<c10::Allocator>& shared_allocator() {
  static const auto* allocator =
      new std::shared_ptr<c10::Allocator>(std::make_shared<SharedAllocator>(1));
  return *allocator;
}

}  // namespace tally::python
