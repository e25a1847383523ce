// Operations on memory of CUDA devices, of ranks that are threads of the test with a device each or
// one device for all.
#include <gtest/gtest.h>

#include <algorithm>
#include <barrier>
#include <limits>

#include "tests/e2e/cuda/fixture.h"
#include "tests/support/reference.h"

namespace tally::testing {
namespace {

using Cuda = CudaTest;

constexpr unsigned long long kLargest = 2'000'003;

TEST_P(Cuda, AllReducesOfEachSizeInAndOutOfPlace) {
  on_each([&](std::uint32_t index, Rank& rank, const DeviceThread& thread) {
    const DeviceStream stream(thread);
    std::uint32_t tag = 0;
    // Freeing memory waits for all work of the context, which both ranks may share.
    const DeviceArray<float> array(thread, 2 * kLargest);
    tally_region* const region = array.register_with(rank.session());
    for (const std::uint64_t count : {1ULL, 1000ULL, 70'001ULL, 262'144ULL, kLargest}) {
      for (const bool in_place : {false, true}) {
        array.fill(values_of(index, count), stream);
        const std::uint64_t out = in_place ? 0 : count;
        auto wanted = operation(TALLY_ALL_REDUCE, TALLY_F32, tag++, count, {region, 0},
                                {region, out * sizeof(float)});
        wanted.stream = stream.get();
        const auto done = rank.run(wanted);
        ASSERT_EQ(done.status, TALLY_OK) << done.message;
        ASSERT_EQ(array.read(out, count, stream), sum_of(kRanks, count)) << count;
      }
    }
    ASSERT_EQ(tally_region_free(rank.session(), region), TALLY_OK) << rank.error();
  });
}

TEST_P(Cuda, StatisticsAndChecksumsAreAsOnTheHost) {
  checksums_ = TALLY_CHECKSUMS_ON;
  on_each([&](std::uint32_t index, Rank& rank, const DeviceThread& thread) {
    ASSERT_EQ(info_of(rank).checksums, 1U);
    const DeviceStream stream(thread);
    const DeviceArray<float> array(thread, kLargest);
    tally_region* const region = array.register_with(rank.session());
    tally_region* host_region = nullptr;
    float* const host = rank.alloc<float>(kLargest, &host_region);
    Floats values = values_of(index, kLargest);
    if (index == 0) values[kLargest - 1] = std::numeric_limits<float>::infinity();
    std::copy(values.begin(), values.end(), host);
    array.fill(values, stream);
    auto wanted =
        operation(TALLY_ALL_REDUCE, TALLY_F32, 1, kLargest, {host_region, 0}, {host_region, 0});
    wanted.flags = TALLY_WANT_STATS;
    const auto on_host = rank.run(wanted);
    ASSERT_EQ(on_host.status, TALLY_OK) << on_host.message;
    wanted.in.region = wanted.out.region = region;
    wanted.stream = stream.get();
    wanted.tag = 2;
    const auto on_device = rank.run(wanted);
    ASSERT_EQ(on_device.status, TALLY_OK) << on_device.message;
    EXPECT_EQ(on_device.nonfinite, 1U);
    EXPECT_EQ(on_device.nonfinite, on_host.nonfinite);
    EXPECT_GT(on_device.sum_of_squares, 0);
    EXPECT_EQ(on_device.sum_of_squares, on_host.sum_of_squares);  // integers: exact in any order
    EXPECT_EQ(array.read(0, kLargest, stream), Floats(host, host + kLargest));
  });
}

TEST_P(Cuda, EachKindPutsTheRightBytesInTheRightPlace) {
  on_each([&](std::uint32_t index, Rank& rank, const DeviceThread& thread) {
    const DeviceStream stream(thread);
    std::uint32_t tag = 0;
    const DeviceArray<float> in(thread, kLargest);
    const DeviceArray<float> out(thread, kLargest);
    tally_region* const regions[] = {in.register_with(rank.session()),
                                     out.register_with(rank.session())};
    for (const std::uint64_t count : {3ULL, 10'001ULL, 1'500'001ULL}) {
      std::vector<Floats> inputs;
      for (std::uint32_t r = 0; r < kRanks; ++r) inputs.push_back(values_of(r, count));
      std::vector<const std::byte*> starts;
      for (const Floats& values : inputs) {
        starts.push_back(reinterpret_cast<const std::byte*>(values.data()));
      }
      for (const tally_kind kind : {TALLY_ALL_REDUCE, TALLY_REDUCE, TALLY_BROADCAST,
                                    TALLY_REDUCE_SCATTER, TALLY_ALL_GATHER}) {
        const protocol::Shape shape{
            static_cast<wire::Kind>(kind), ElementType::kF32, Operation::kSum, 1, kRanks, count};
        Expected expected;
        compute_expected(shape, starts, expected);
        const auto result = result_of(shape, static_cast<std::uint16_t>(index), expected);
        in.fill(inputs[index], stream);
        auto wanted = operation(kind, TALLY_F32, tag++, count, {regions[0], 0}, {regions[1], 0});
        wanted.root = 1;
        wanted.stream = stream.get();
        const auto done = rank.run(wanted);
        ASSERT_EQ(done.status, TALLY_OK) << done.message;
        if (result.empty()) continue;
        const Floats got = out.read(0, result.size() / sizeof(float), stream);
        ASSERT_EQ(std::memcmp(got.data(), result.data(), result.size()), 0)
            << "kind " << kind << " count " << count;
      }
    }
    for (tally_region* region : regions) {
      ASSERT_EQ(tally_region_free(rank.session(), region), TALLY_OK) << rank.error();
    }
  });
}

// Work before and after an operation is enqueued in one go; the host never waits.
TEST_P(Cuda, OperationsHaveTheirPlaceInTheOrderOfTheStream) {
  on_each([&](std::uint32_t index, Rank& rank, const DeviceThread& thread) {
    const DeviceStream stream(thread);
    const DeviceArray<float> array(thread, kCount);
    const DeviceArray<float> kept(thread, kCount);
    tally_region* const region = array.register_with(rank.session());
    Gate gate(thread);
    gate.close(stream);
    const float begin = index == 0 ? 1.0F : 2.0F;
    std::uint32_t bits = 0;
    std::memcpy(&bits, &begin, sizeof bits);
    thread.check(thread.driver().memset_d32_async(array.data(), bits, kCount, stream.get()));
    for (std::uint32_t step = 0; step < 5; ++step) {
      auto wanted = operation(TALLY_ALL_REDUCE, TALLY_F32, step, kCount, {region, 0}, {region, 0});
      wanted.stream = stream.get();
      ASSERT_EQ(tally_post(rank.session(), &wanted), TALLY_OK) << rank.error();
    }
    thread.check(
        thread.driver().memcpy_dtod_async(kept.data(), array.data(), array.bytes(), stream.get()));
    thread.check(thread.driver().memset_d32_async(array.data(), 0, kCount, stream.get()));
    EXPECT_FALSE(stream.is_idle());
    tally_completion completion{};
    completion.size = sizeof completion;
    EXPECT_EQ(tally_wait(rank.session(), &completion, 20), TALLY_AGAIN);
    gate.open();
    stream.finish();
    EXPECT_EQ(kept.read(0, kCount, stream), Floats(kCount, 3.0F * 16));
    EXPECT_EQ(array.read(0, 10, stream), Floats(10, 0.0F));
    for (std::uint32_t step = 0; step < 5; ++step) {
      const auto done = rank.wait();
      EXPECT_EQ(done.tag, step);
      EXPECT_EQ(done.status, TALLY_OK) << done.message;
    }
  });
}

TEST_P(Cuda, AnOperationAllocatesNothingAndDoesNotBlockTheHost) {
  constexpr std::uint64_t kSteps = 20;
  std::barrier all_ranks(kRanks);
  on_each([&](std::uint32_t index, Rank& rank, const DeviceThread& thread) {
    const DeviceStream stream(thread);
    const DeviceArray<float> array(thread, 2 * kCount);
    tally_region* const region = array.register_with(rank.session());
    const auto step = [&] {
      auto wanted = operation(TALLY_ALL_REDUCE, TALLY_F32, 1, kCount, {region, 0},
                              {region, kCount * sizeof(float)});
      wanted.stream = stream.get();
      const auto done = rank.run(wanted);
      ASSERT_EQ(done.status, TALLY_OK) << done.message;
    };
    step();  // makes the events of the operation
    const std::uint64_t copied = copied_bytes_of(rank);
    all_ranks.arrive_and_wait();
    CudaMachine::Work before;
    CudaMachine::Work after;
    const bool counted = index == 0 && machine_->counts(before);
    all_ranks.arrive_and_wait();
    for (std::uint64_t i = 0; i < kSteps; ++i) step();
    all_ranks.arrive_and_wait();
    const bool staged = transport_of(rank) != "verbs";
    const std::uint64_t own_bytes = staged ? kSteps * kCount * sizeof(float) : 0;
    EXPECT_EQ(copied_bytes_of(rank) - copied, 2 * own_bytes);
    if (counted && machine_->counts(after)) {
      const std::uint64_t bytes = kRanks * own_bytes;
      EXPECT_EQ(after.host_synchronizations, before.host_synchronizations);
      EXPECT_EQ(after.allocations, before.allocations);
      EXPECT_EQ(after.registrations, before.registrations);
      EXPECT_EQ(after.bytes_down - before.bytes_down, bytes);
      EXPECT_EQ(after.bytes_up - before.bytes_up, bytes);
    }
    all_ranks.arrive_and_wait();
  });
}

INSTANTIATE_TEST_SUITE_P(Layouts, Cuda, kCudaLayouts, name_of);

}  // namespace
}  // namespace tally::testing
