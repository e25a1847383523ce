#include "gpu_bridge/stream/words.h"

#include "gpu_bridge/stream/handles.h"
#include "tests/support/cuda/process_fixture.h"

namespace tally::gpu {
namespace {

using Words = test::cuda::ProcessFixture;

// The stream may be held up until operations use their words.
TEST_F(Words, TheProbeOfADeviceChangesNoWordOfAnOperation) {
  const auto pool = WordPool::make(cu(), context_, 2).value();
  auto made = make_stream(cu(), context_);
  const cuda::Stream stream = made->get();
  test::cuda::Gate gate;
  ok(test::cuda::launch(stream, gate.kernel()));
  EXPECT_TRUE(pool->device_writes(stream));
  for (std::uint32_t i = 0; i < 2; ++i) {
    for (std::uint32_t* word : {&(*pool)[i].down, &(*pool)[i].landed, &(*pool)[i].up}) {
      store(*word, 7);
    }
  }
  gate.open();
  ok(cu().stream_synchronize(stream));
  for (std::uint32_t i = 0; i < 2; ++i) {
    EXPECT_EQ(load((*pool)[i].down), 7U);
    EXPECT_EQ(load((*pool)[i].landed), 7U);
    EXPECT_EQ(load((*pool)[i].up), 7U);
  }
}

TEST_F(Words, ADeviceWithoutStreamMemoryOperationsWritesNone) {
  restart({.stream_memory_operations = false});
  const auto pool = WordPool::make(cu(), context_, 1).value();
  auto made = make_stream(cu(), context_);
  EXPECT_FALSE(pool->device_writes(made->get()));
}

}  // namespace
}  // namespace tally::gpu
