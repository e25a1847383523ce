#include "gpu_bridge/memory/device_memory.h"

#include "tests/support/cuda/process_fixture.h"

namespace tally::gpu {
namespace {

using ::testing::HasSubstr;
using DeviceMemories = test::cuda::ProcessFixture;

TEST_F(DeviceMemories, AreRangesOfOneAllocation) {
  const cuda::Pointer data = memory(1000);
  const auto described = describe(cu(), data + 100, 900);
  ASSERT_TRUE(described) << described.error().message;
  EXPECT_EQ(described->context, context_);
  EXPECT_EQ(describe(cu(), data + 100, 901).status(), Status::kInvalidArgument);
  EXPECT_EQ(describe(cu(), data + 100, SIZE_MAX).status(), Status::kInvalidArgument);
}

// Memory of a pool or of a virtual range may belong to no context.
TEST_F(DeviceMemories, BelongToAContext) {
  static const cuda::Driver* real = nullptr;
  real = driver_;
  cuda::Driver without = cu();
  without.pointer_get_attribute = [](void* value, cuda::PointerAttribute attribute,
                                     cuda::Pointer pointer) {
    if (attribute != cuda::PointerAttribute::kContext) {
      return real->pointer_get_attribute(value, attribute, pointer);
    }
    *static_cast<cuda::Context*>(value) = nullptr;
    return cuda::Code::kSuccess;
  };
  const auto described = describe(without, memory(1000), 1000);
  ASSERT_FALSE(described);
  EXPECT_THAT(described.error().message, HasSubstr("belongs to no context"));
}

}  // namespace
}  // namespace tally::gpu
