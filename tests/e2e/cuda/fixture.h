// Ranks with CUDA devices, as threads of the test.
#pragma once

#include <gtest/gtest.h>

#include <barrier>
#include <functional>
#include <memory>
#include <vector>

#include "tests/e2e/cuda/device.h"
#include "tests/e2e/cuda/machine.h"
#include "tests/e2e/local_node.h"
#include "tests/e2e/ranks.h"

namespace tally::testing {

using Floats = std::vector<float>;

inline constexpr std::uint64_t kCount = 600'000;  // elements of an operation of several chunks

// Values whose sums are exact in f32, so that any correct order gives the same.
inline Floats values_of(std::uint32_t rank, std::uint64_t count) {
  Floats values(count);
  for (std::uint64_t i = 0; i < count; ++i) {
    values[i] =
        static_cast<float>((i * 2654435761U >> 7) % 1000) - 500.0F + static_cast<float>(rank);
  }
  return values;
}

inline Floats sum_of(std::uint32_t ranks, std::uint64_t count) {
  Floats sum = values_of(0, count);
  for (std::uint32_t rank = 1; rank < ranks; ++rank) {
    const Floats values = values_of(rank, count);
    for (std::uint64_t i = 0; i < count; ++i) sum[i] += values[i];
  }
  return sum;
}

// One device for all ranks, or one for each, with 1 and 8 queues. Ranks that are threads of one
// process share the queues of a device, which processes do not. A wait of one rank could then stand
// before a copy that the other rank waits for, so such ranks need a queue for each stream.
struct CudaLayout {
  int devices;
  unsigned queues;
  bool device_writes = true;  // words; otherwise host functions do
};

inline const auto kCudaLayouts =
    ::testing::Values(CudaLayout{1, 32}, CudaLayout{2, 8}, CudaLayout{2, 1},
                      CudaLayout{2, 8, false}, CudaLayout{2, 1, false});
inline const auto kDeviceForEachRank = ::testing::Values(
    CudaLayout{2, 8}, CudaLayout{2, 1}, CudaLayout{2, 8, false}, CudaLayout{2, 1, false});

class CudaTest : public ::testing::TestWithParam<CudaLayout> {
 protected:
  static constexpr std::uint32_t kRanks = 2;

  void SetUp() override {
    options_.devices = GetParam().devices;
    options_.queues = GetParam().queues;
    options_.stream_memory_operations = GetParam().device_writes;
    if (const auto why = CudaMachine::why_not(options_); !why.empty()) GTEST_SKIP() << why;
    machine_ = std::make_unique<CudaMachine>(options_);
  }

  using Body = std::function<void(std::uint32_t index, Rank& rank, const DeviceThread& thread)>;

  // Runs `body` for each rank with its session and its device.
  void on_each(const Body& body) {
    LocalNode node;
    on_each(node, body);
  }
  void on_each(const LocalNode& node, const Body& body) {
    std::barrier opened(kRanks);
    on_each_rank(kRanks, [&](std::uint32_t index) {
      const DeviceThread thread(machine_->driver(), static_cast<int>(index) % options_.devices);
      Rank rank(node.address(), index, kRanks, "test", "", checksums_);
      opened.arrive_and_wait();  // a rank must not leave before the other enters the job
      ASSERT_EQ(rank.opened(), TALLY_OK) << rank.open_error();
      body(index, rank, thread);
      rank.close();
    });
  }

  MachineOptions options_;
  tally_checksums checksums_ = TALLY_CHECKSUMS_DEFAULT;
  std::unique_ptr<CudaMachine> machine_;
};

inline tally_session_info info_of(const Rank& rank) {
  tally_session_info info{};
  info.size = sizeof info;
  EXPECT_EQ(tally_get_info(rank.session(), &info), TALLY_OK) << rank.error();
  return info;
}
// An adapter of transport verbs reaches memory of devices itself.
inline std::string transport_of(const Rank& rank) {
  return info_of(rank).transport;
}
inline std::uint64_t copied_bytes_of(const Rank& rank) {
  return info_of(rank).copied_bytes;
}

inline std::string name_of(const ::testing::TestParamInfo<CudaLayout>& layout) {
  return std::to_string(layout.param.devices) + "Devices" + std::to_string(layout.param.queues) +
         "Queues" + (layout.param.device_writes ? "" : "HostFunctions");
}

}  // namespace tally::testing
