// Operations on memory of devices that fail: no stream waits forever, and the completion says why.
#include <gtest/gtest.h>

#include <barrier>

#include "tests/e2e/cuda/fixture.h"

namespace tally::testing {
namespace {

using CudaFailures = CudaTest;

tally_operation all_reduce_of(std::uint32_t tag, tally_region* region, const DeviceStream& stream,
                              std::uint32_t deadline_ms = 0) {
  auto wanted = operation(TALLY_ALL_REDUCE, TALLY_F32, tag, kCount, {region, 0}, {region, 0});
  wanted.stream = stream.get();
  wanted.deadline_ms = deadline_ms;
  return wanted;
}

TEST_P(CudaFailures, AStreamGoesOnWhenARankIsMissing) {
  std::barrier all_ranks(kRanks);
  on_each([&](std::uint32_t index, Rank& rank, const DeviceThread& thread) {
    const DeviceStream stream(thread);
    const DeviceArray<float> array(thread, kCount);
    tally_region* const region = array.register_with(rank.session());
    array.fill(values_of(index, kCount), stream);
    if (index == 0) {
      const auto done = rank.run(all_reduce_of(1, region, stream, 300));
      EXPECT_EQ(done.status, TALLY_DEADLINE);
      EXPECT_NE(std::string(done.message).find("rank 1"), std::string::npos) << done.message;
      EXPECT_EQ(std::string(done.message).find("tag 1"), 0U) << done.message;
      EXPECT_EQ(std::string(done.message).find("214748"), std::string::npos) << done.message;
      EXPECT_EQ(done.tag, 1U);
      EXPECT_EQ(done.inputs_gone, 1U);
      stream.finish();
      all_ranks.arrive_and_wait();
    } else {
      all_ranks.arrive_and_wait();
      const auto done = rank.run(all_reduce_of(1, region, stream));  // after the deadline
      EXPECT_EQ(done.status, TALLY_DEADLINE);
      stream.finish();
    }
  });
}

// The rounds of the chunks' tags stay the same at all ranks.
TEST_P(CudaFailures, TheNextRoundOfTheTagSucceeds) {
  std::barrier all_ranks(kRanks);
  on_each([&](std::uint32_t index, Rank& rank, const DeviceThread& thread) {
    const DeviceStream stream(thread);
    const DeviceArray<float> array(thread, kCount);
    tally_region* const region = array.register_with(rank.session());
    if (index == 1) all_ranks.arrive_and_wait();
    EXPECT_EQ(rank.run(all_reduce_of(1, region, stream, 200)).status, TALLY_DEADLINE);
    if (index == 0) all_ranks.arrive_and_wait();
    all_ranks.arrive_and_wait();
    array.fill(values_of(index, kCount), stream);
    const auto done = rank.run(all_reduce_of(1, region, stream));
    ASSERT_EQ(done.status, TALLY_OK) << done.message;
    EXPECT_EQ(array.read(0, kCount, stream), sum_of(kRanks, kCount));
  });
}

TEST_P(CudaFailures, CancelledOperationsEndAtAllRanks) {
  std::barrier all_ranks(kRanks);
  on_each([&](std::uint32_t index, Rank& rank, const DeviceThread& thread) {
    const DeviceStream stream(thread);
    const DeviceArray<float> array(thread, kCount);
    tally_region* const region = array.register_with(rank.session());
    const auto wanted = all_reduce_of(1, region, stream);
    if (index == 1) all_ranks.arrive_and_wait();
    ASSERT_EQ(tally_post(rank.session(), &wanted), TALLY_OK) << rank.error();
    EXPECT_EQ(tally_post(rank.session(), &wanted), TALLY_DUPLICATE);
    if (index == 0) {
      ASSERT_EQ(tally_cancel(rank.session(), 1), TALLY_OK) << rank.error();
      EXPECT_EQ(rank.wait().status, TALLY_CANCELLED);
      all_ranks.arrive_and_wait();
    } else {
      EXPECT_EQ(rank.wait().status, TALLY_CANCELLED);
    }
    stream.finish();
    EXPECT_EQ(tally_cancel(rank.session(), 1), TALLY_INVALID_ARGUMENT);
  });
}

TEST_P(CudaFailures, ALostRankFreesTheStreamsOfOthers) {
  on_each([&](std::uint32_t index, Rank& rank, const DeviceThread& thread) {
    const DeviceStream stream(thread);
    const DeviceArray<float> array(thread, kCount);
    tally_region* const region = array.register_with(rank.session());
    if (index == 1) {
      rank.close();
      return;
    }
    const auto done = rank.run(all_reduce_of(1, region, stream));
    EXPECT_EQ(done.status, TALLY_PEER_LEFT) << done.message;
    stream.finish();
  });
}

TEST_P(CudaFailures, ClosingASessionFreesItsStream) {
  on_each([&](std::uint32_t index, Rank& rank, const DeviceThread& thread) {
    if (index == 1) return;
    const DeviceStream stream(thread);
    const DeviceArray<float> array(thread, kCount);
    tally_region* const region = array.register_with(rank.session());
    const auto wanted = all_reduce_of(1, region, stream);
    ASSERT_EQ(tally_post(rank.session(), &wanted), TALLY_OK) << rank.error();
    rank.close();
    stream.finish();
  });
}

TEST_P(CudaFailures, ABrokenDeviceEndsItsOperations) {
  if (options_.devices < 2) GTEST_SKIP() << "one device would fail for all ranks";
  std::barrier all_ranks(kRanks);
  on_each([&](std::uint32_t index, Rank& rank, const DeviceThread& thread) {
    const DeviceStream stream(thread);
    const DeviceArray<float> array(thread, kCount);
    tally_region* const region = array.register_with(rank.session());
    Gate gate(thread);
    gate.close(stream);
    const auto wanted = all_reduce_of(1, region, stream);
    ASSERT_EQ(tally_post(rank.session(), &wanted), TALLY_OK) << rank.error();
    all_ranks.arrive_and_wait();
    if (index == 0) {
      if (!machine_->break_device(0)) GTEST_SKIP() << "a real device is not broken by a test";
      thread.expect_failures();
      const auto done = rank.wait();
      EXPECT_EQ(done.status, TALLY_INTERNAL);
      EXPECT_NE(std::string(done.message).find("CUDA_ERROR_ILLEGAL_ADDRESS"), std::string::npos)
          << done.message;
      gate.open();  // for a host function, which runs on
      rank.close();
    } else {
      gate.open();
      EXPECT_EQ(rank.wait().status, TALLY_PEER_LEFT);
      stream.finish();
    }
  });
}

TEST_P(CudaFailures, ATagHasOneOperationUntilItsCompletionIsTaken) {
  on_each([&](std::uint32_t index, Rank& rank, const DeviceThread& thread) {
    const DeviceStream stream(thread);
    const DeviceArray<float> array(thread, kCount);
    tally_region* const region = array.register_with(rank.session());
    tally_region* host = nullptr;
    rank.alloc<float>(10, &host);
    const auto on_host = operation(TALLY_ALL_REDUCE, TALLY_F32, 1, 10, {host, 0}, {host, 0});
    const auto on_device = all_reduce_of(1, region, stream);
    ASSERT_EQ(tally_post(rank.session(), &on_host), TALLY_OK) << rank.error();
    EXPECT_EQ(tally_post(rank.session(), &on_device), TALLY_DUPLICATE);
    EXPECT_EQ(rank.wait().status, TALLY_OK);
    array.fill(values_of(index, kCount), stream);
    ASSERT_EQ(tally_post(rank.session(), &on_device), TALLY_OK) << rank.error();
    stream.finish();  // now or soon the library's thread has the completion
    EXPECT_EQ(tally_post(rank.session(), &on_host), TALLY_DUPLICATE);
    const auto done = rank.wait();
    EXPECT_EQ(done.status, TALLY_OK) << done.message;
    EXPECT_EQ(array.read(0, kCount, stream), sum_of(kRanks, kCount));
  });
}

TEST_P(CudaFailures, AStreamOfAnotherDeviceIsRefused) {
  if (options_.devices < 2) GTEST_SKIP() << "there is no other device";
  on_each([&](std::uint32_t index, Rank& rank, const DeviceThread& thread) {
    const DeviceArray<float> array(thread, kCount);
    tally_region* const region = array.register_with(rank.session());
    const DeviceThread other(machine_->driver(), 1 - static_cast<int>(index));
    const DeviceStream stream(other);
    const auto wanted = all_reduce_of(1, region, stream);
    for (int i = 0; i < 300; ++i) {  // more than there are places for operations
      ASSERT_EQ(tally_post(rank.session(), &wanted), TALLY_INVALID_ARGUMENT) << rank.error();
    }
    EXPECT_NE(std::string(rank.error()).find("another device"), std::string::npos) << rank.error();
  });
}

TEST_P(CudaFailures, WrongRequestsAreRefused) {
  on_each([&](std::uint32_t, Rank& rank, const DeviceThread& thread) {
    const DeviceStream stream(thread);
    const DeviceArray<float> array(thread, kCount);
    tally_region* host = nullptr;
    rank.alloc<float>(10, &host);
    auto wanted = operation(TALLY_ALL_REDUCE, TALLY_F32, 1, 10, {host, 0}, {host, 0});
    wanted.stream = stream.get();
    EXPECT_EQ(tally_post(rank.session(), &wanted), TALLY_INVALID_ARGUMENT);
    EXPECT_NE(std::string(rank.error()).find("must be NULL"), std::string::npos) << rank.error();

    tally_memory memory{};
    memory.size = sizeof memory;
    memory.kind = TALLY_MEMORY_CUDA;
    memory.data = &memory;
    memory.bytes = 100;
    tally_region* region = nullptr;
    EXPECT_EQ(tally_region_register(rank.session(), &memory, &region), TALLY_INVALID_ARGUMENT);
    EXPECT_NE(std::string(rank.error()).find("not known to CUDA"), std::string::npos)
        << rank.error();
    memory.data = reinterpret_cast<void*>(array.data() + 4);
    memory.bytes = array.bytes();
    EXPECT_EQ(tally_region_register(rank.session(), &memory, &region), TALLY_INVALID_ARGUMENT);

    region = array.register_with(rank.session());
    EXPECT_EQ(tally_post(rank.session(),
                         [&] {
                           wanted = all_reduce_of(1U << 21, region, stream);
                           return &wanted;
                         }()),
              TALLY_INVALID_ARGUMENT);
    wanted = operation(TALLY_ALL_REDUCE, TALLY_F32, 1U << 31, 10, {host, 0}, {host, 0});
    EXPECT_EQ(tally_post(rank.session(), &wanted), TALLY_INVALID_ARGUMENT) << rank.error();
  });
}

INSTANTIATE_TEST_SUITE_P(Layouts, CudaFailures, kCudaLayouts, name_of);

// A session that gives up leaves memory pinned, and that memory keeps its addresses.
TEST(CudaGivenUp, TheNextSessionOfTheProcessRegistersMemory) {
  if (const auto why = CudaMachine::why_not({}); !why.empty()) GTEST_SKIP() << why;
  const CudaMachine machine;
  const LocalNode node;
  const DeviceThread thread(machine.driver(), 0);
  const DeviceStream held_up(thread);
  const DeviceStream stream(thread);
  const DeviceArray<float> array(thread, kCount);
  array.fill(values_of(0, kCount), stream);
  Gate gate(thread);
  gate.close(held_up);
  {
    Rank rank(node.address(), 0, 1);
    const auto wanted = all_reduce_of(1, array.register_with(rank.session()), held_up);
    ASSERT_EQ(tally_post(rank.session(), &wanted), TALLY_OK) << rank.error();
    rank.close();  // gives up after 5 s
  }
  {
    Rank rank(node.address(), 0, 1);
    const auto done = rank.run(all_reduce_of(1, array.register_with(rank.session()), stream));
    EXPECT_EQ(done.status, TALLY_OK) << done.message;
    EXPECT_EQ(array.read(0, kCount, stream), values_of(0, kCount));
  }
  gate.open();
  held_up.finish();
}

}  // namespace
}  // namespace tally::testing
