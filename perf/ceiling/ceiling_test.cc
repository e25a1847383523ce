#include "perf/ceiling/ceiling.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "perf/ceiling/ceiling_kernels.h"

namespace tally::perf {
namespace {

TEST(Ceiling, TrafficIsWhatTheCollectiveNeeds) {
  EXPECT_EQ(minimal_traffic(TALLY_ALL_REDUCE, 4).inputs, 4u);
  EXPECT_EQ(minimal_traffic(TALLY_ALL_REDUCE, 4).outputs, 4u);
  EXPECT_EQ(minimal_traffic(TALLY_REDUCE, 4).outputs, 1u);
  EXPECT_EQ(minimal_traffic(TALLY_BROADCAST, 4).inputs, 1u);
  EXPECT_EQ(minimal_traffic(TALLY_BARRIER, 4).inputs, 0u);
}

void check_kernel(StreamKernel kernel, bool past_caches) {
  constexpr std::size_t kBytes = 4 * kStreamStep;
  struct alignas(64) Buffer {
    std::byte bytes[kBytes];
  };
  std::vector<Buffer> buffers(5);
  for (std::size_t b = 0; b < buffers.size(); ++b) {
    std::memset(buffers[b].bytes, 1 << b, kBytes);
  }
  const std::byte* inputs[] = {buffers[0].bytes, buffers[1].bytes, buffers[2].bytes};
  std::byte* outputs[] = {buffers[3].bytes, buffers[4].bytes};
  kernel({inputs, 3, outputs, 2, kStreamStep, 3 * kStreamStep, past_caches});
  for (std::size_t i = 0; i < kBytes; ++i) {
    const bool moved = i >= kStreamStep && i < 3 * kStreamStep;
    ASSERT_EQ(buffers[3].bytes[i], moved ? std::byte{7} : std::byte{8}) << i;
    ASSERT_EQ(buffers[4].bytes[i], moved ? std::byte{7} : std::byte{16}) << i;
  }
}

TEST(Ceiling, EveryKernelMovesEveryByte) {
  for (const bool past_caches : {false, true}) {
    check_kernel(baseline::stream, past_caches);
    check_kernel(stream_kernel(), past_caches);
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2")) check_kernel(avx2::stream, past_caches);
#endif
  }
}

TEST(Ceiling, MeasuresSomething) {
  for (const bool in_place : {false, true}) {
    Ceiling ceiling({3, 2}, 1 << 20, in_place, 2);
    ceiling.begin(100'001);
    EXPECT_EQ(ceiling.gigabytes_per_second(), 0);
    ceiling.sample();
    ceiling.sample();
    EXPECT_GT(ceiling.gigabytes_per_second(), 0);
  }
  Ceiling nothing({0, 0}, 0, false, 1);
  nothing.begin(0);
  nothing.sample();
  EXPECT_EQ(nothing.gigabytes_per_second(), 0);
}

}  // namespace
}  // namespace tally::perf
