// Memory and copies of the double.
#include <fcntl.h>
#include <unistd.h>

#include "tests/support/cuda/process_fixture.h"

namespace tally::test::cuda {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::size_t kMiB = std::size_t{1} << 20;

class CudaMemory : public ProcessFixture {
 protected:
  template <typename Value>
  Value attribute(PointerAttribute which, Pointer pointer) {
    Value value{};
    ok(cu().pointer_get_attribute(&value, which, pointer));
    return value;
  }
};

using CudaMemoryDeath = CudaMemory;

TEST_F(CudaMemory, CopiesDownUpAndBetween) {
  const Stream one = stream();
  const Pointer first = memory(), second = memory();
  Pages from, to;
  add(from);
  add(to);
  std::memset(from.data(), 0x5a, Pages::kBytes);
  ok(cu().memcpy_htod_async(first, from.data(), Pages::kBytes, one));
  ok(cu().memcpy_dtod_async(second + 96, first, 1000, one));
  ok(cu().memset_d32_async(second, 0x01020304, 24, one));
  ok(cu().memcpy_dtoh_async(to.data(), second, 1096, one));
  ok(cu().stream_synchronize(one));
  EXPECT_EQ(to.data()[0], std::byte{4});
  EXPECT_EQ(to.data()[95], std::byte{1});
  EXPECT_EQ(std::memcmp(to.data() + 96, from.data(), 1000), 0);
  const Counters now = counters();
  EXPECT_EQ(now.bytes_up, Pages::kBytes);
  EXPECT_EQ(now.bytes_between, 1000U);
  EXPECT_EQ(now.bytes_down, 1096U);
  EXPECT_EQ(now.pageable_copies, 0U);
  EXPECT_EQ(now.host_synchronizations, 3U) << "two allocations and the stream";
  EXPECT_EQ(now.allocations, 2U);
  EXPECT_EQ(now.calls.at("cuMemAlloc"), 2U);
  EXPECT_EQ(now.live_allocations, 2U);
  EXPECT_EQ(now.live_registrations, 2U);
}

TEST_F(CudaMemory, KernelsAndTheTestSeeDeviceMemory) {
  const Stream one = stream();
  const Pointer at = memory();
  ok(launch(one, [at] { *host_view(at + 5) = std::byte{9}; }));
  ok(cu().stream_synchronize(one));
  EXPECT_EQ(*host_view(at + 5), std::byte{9});
  EXPECT_EQ(host_view(at + 4096), nullptr);
}

TEST_F(CudaMemoryDeath, TheCpuCannotTouchDeviceMemory) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const Pointer at = memory();
  // NOLINTNEXTLINE(performance-no-int-to-ptr)
  EXPECT_DEATH(*reinterpret_cast<volatile char*>(at) = 1, "");
}

TEST_F(CudaMemory, FreeWaitsForAllWorkEnqueuedBefore) {
  const Stream one = stream();
  const Pointer at = memory();
  Gate gate;
  ok(launch(one, gate.kernel()));
  auto freed = std::async(std::launch::async, [&] {
    const tally::cuda::CurrentContext current(cu(), context_);
    return cu().mem_free(at);
  });
  EXPECT_EQ(freed.wait_for(std::chrono::milliseconds(20)), std::future_status::timeout);
  gate.open();
  EXPECT_EQ(freed.get(), Code::kSuccess);
  EXPECT_EQ(counters().live_allocations, 0U);
}

TEST_F(CudaMemory, AllocationWaitsTooWhereATestOrdersIt) {
  restart({.allocation_synchronizes = true});
  const Stream one = stream();
  std::atomic<bool> ran = false;
  ok(launch(one, [&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    ran = true;
  }));
  memory();
  EXPECT_TRUE(ran);
}

TEST_F(CudaMemory, DescribesPointers) {
  const Pointer at = memory(3000);
  EXPECT_EQ(attribute<Context>(PointerAttribute::kContext, at), context_);
  EXPECT_EQ(attribute<unsigned>(PointerAttribute::kMemoryType, at + 7),
            tally::cuda::kMemoryTypeDevice);
  EXPECT_EQ(attribute<int>(PointerAttribute::kDeviceOrdinal, at), 0);
  EXPECT_EQ(attribute<Pointer>(PointerAttribute::kRangeStart, at + 2999), at);
  EXPECT_EQ(attribute<std::size_t>(PointerAttribute::kRangeSize, at + 1), 3000U);
  const auto buffer = attribute<unsigned long long>(PointerAttribute::kBufferId, at);
  EXPECT_NE(attribute<unsigned long long>(PointerAttribute::kBufferId, memory()), buffer);
  Pages pages;
  unsigned type = 0;
  EXPECT_EQ(cu().pointer_get_attribute(&type, PointerAttribute::kMemoryType, pages.pointer()),
            Code::kInvalidValue);
  add(pages);
  EXPECT_EQ(attribute<unsigned>(PointerAttribute::kMemoryType, pages.pointer()),
            tally::cuda::kMemoryTypeHost);
}

TEST_F(CudaMemory, ReusesAddressesOnlyWhereATestOrdersIt) {
  const Pointer first = memory();
  ok(cu().mem_free(first));
  EXPECT_NE(memory(), first);
  restart({.reuses_addresses = true});
  const Pointer again = memory();
  const auto buffer = attribute<unsigned long long>(PointerAttribute::kBufferId, again);
  ok(cu().mem_free(again));
  EXPECT_EQ(memory(), again);
  EXPECT_NE(attribute<unsigned long long>(PointerAttribute::kBufferId, again), buffer);
}

TEST_F(CudaMemory, HasAsMuchMemoryAsATestOrders) {
  restart({.memory_bytes = 2 * kMiB});
  const Pointer at = memory(kMiB);
  Pointer more = 0;
  EXPECT_EQ(cu().mem_alloc(&more, 2 * kMiB), Code::kOutOfMemory);
  ok(cu().mem_free(at));
  ok(cu().mem_alloc(&more, 2 * kMiB));
}

TEST_F(CudaMemory, RegistersMemoryOfTheHostOnce) {
  Pages pages;
  add(pages);
  EXPECT_EQ(cu().mem_host_register(pages.data() + 64, 64, 0), Code::kHostMemoryAlreadyRegistered);
  Pointer device = 0;
  ok(cu().mem_host_get_device_pointer(&device, pages.data() + 8, 0));
  EXPECT_EQ(device, pages.pointer() + 8);
  ok(cu().mem_host_unregister(pages.data()));
  EXPECT_EQ(cu().mem_host_unregister(pages.data()), Code::kHostMemoryNotRegistered);
  EXPECT_THAT(expected_misuses(), ElementsAre(HasSubstr("where no registered memory begins")));
}

TEST_F(CudaMemory, DevicesMayUseOtherAddressesForMemoryOfTheHost) {
  restart({.uses_host_pointers = false});
  Pages pages;
  add(pages);
  Pointer device = 0;
  ok(cu().mem_host_get_device_pointer(&device, pages.data(), 0));
  EXPECT_NE(device, pages.pointer());
  const Stream one = stream();
  ok(cu().stream_write_value32(one, device, 3, 0));
  ok(cu().stream_synchronize(one));
  EXPECT_EQ(pages.word().load(), 3U);
}

TEST_F(CudaMemory, ACopyOfUnregisteredMemoryIsSynchronous) {
  const Stream one = stream();
  const Pointer at = memory();
  Pages pages;
  *pages.data() = std::byte{1};
  const auto before = counters().host_synchronizations;
  ok(cu().memcpy_htod_async(at, pages.data(), 64, one));
  *pages.data() = std::byte{2};  // not before the copy has ended
  EXPECT_EQ(*host_view(at), std::byte{1});
  EXPECT_EQ(counters().pageable_copies, 1U);
  EXPECT_EQ(counters().host_synchronizations, before + 1);
}

TEST_F(CudaMemory, CopiesOfADirectionTakeTurnsAtItsBandwidth) {
  restart({.bandwidth_down = 100 * kMiB});
  const Stream one = stream(), two = stream();
  const Pointer at = memory(2 * kMiB);
  std::vector<std::byte> large(2 * kMiB);
  ok(cu().mem_host_register(large.data(), large.size(), 0));
  const auto begin = Clock::now();
  ok(cu().memcpy_dtoh_async(large.data(), at, kMiB, one));
  ok(cu().memcpy_dtoh_async(large.data() + kMiB, at + kMiB, kMiB, two));
  ok(cu().ctx_synchronize());
  EXPECT_GE(Clock::now() - begin, std::chrono::milliseconds(20)) << "10 ms each";
  ok(cu().mem_host_unregister(large.data()));
}

TEST_F(CudaMemory, DirectionsAreIndependent) {
  restart({.bandwidth_down = 1});  // a copy down takes an hour
  const Stream one = stream(), two = stream(), three = stream();
  const Pointer at = memory(2 * Pages::kBytes);
  Pages down, up;
  add(down);
  add(up);
  ok(cu().memcpy_dtoh_async(down.data(), at, Pages::kBytes, one));
  ok(cu().memcpy_dtoh_async(down.data(), at, Pages::kBytes, two));
  ok(cu().memcpy_htod_async(at + Pages::kBytes, up.data(), Pages::kBytes, three));
  ok(cu().stream_synchronize(three));
  EXPECT_EQ(cu().stream_query(one), Code::kNotReady);
  EXPECT_EQ(cu().stream_query(two), Code::kNotReady);
  reset();  // before the pages are unmapped
}

TEST_F(CudaMemory, ExportsRangesAsDescriptors) {
  const Pointer at = memory(4 * kMiB);
  *host_view(at + 65536 + 3) = std::byte{42};
  int fd = -1;
  ok(cu().mem_get_handle_for_address_range(&fd, at + 65536, 131072, tally::cuda::kRangeHandleDmaBuf,
                                           0));
  ASSERT_GE(fd, 0);
  const DmaBuf range = dma_buf(fd);
  EXPECT_EQ(range.begin, at + 65536);
  EXPECT_EQ(range.bytes, 131072U);
  void* const mapped = ::mmap(nullptr, range.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
                              ::lseek(fd, 0, SEEK_CUR));
  ASSERT_NE(mapped, MAP_FAILED);
  auto* const bytes = static_cast<std::byte*>(mapped);
  EXPECT_EQ(bytes[3], std::byte{42});
  bytes[4] = std::byte{43};
  EXPECT_EQ(*host_view(at + 65536 + 4), std::byte{43});
  ::munmap(mapped, range.bytes);
  ::close(fd);
  const auto handle = [&](Pointer pointer, std::size_t bytes_of) {
    return cu().mem_get_handle_for_address_range(&fd, pointer, bytes_of,
                                                 tally::cuda::kRangeHandleDmaBuf, 0);
  };
  EXPECT_EQ(handle(at + 4096, 65536), Code::kInvalidValue);
  EXPECT_EQ(handle(at, 4096), Code::kInvalidValue);
  EXPECT_EQ(handle(at, 64 * kMiB), Code::kInvalidValue);
}

TEST_F(CudaMemory, ASmallAllocationHasAWholePageToExport) {
  memory(512);
  const Pointer at = memory(512);
  EXPECT_NE(at % 65536, 0U);
  int fd = -1;
  ok(cu().mem_get_handle_for_address_range(&fd, at / 65536 * 65536, 65536,
                                           tally::cuda::kRangeHandleDmaBuf, 0));
  EXPECT_EQ(dma_buf(fd).begin, at / 65536 * 65536);
  ::close(fd);
}

TEST_F(CudaMemory, HasNoDescriptorsWhereATestOrdersIt) {
  restart({.dma_buf = false});
  const Pointer at = memory(kMiB);
  int fd = -1, supported = -1;
  EXPECT_EQ(
      cu().mem_get_handle_for_address_range(&fd, at, 65536, tally::cuda::kRangeHandleDmaBuf, 0),
      Code::kNotSupported);
  ok(cu().device_get_attribute(&supported, Attribute::kDmaBufSupported, 0));
  EXPECT_EQ(supported, 0);
  EXPECT_EQ(dma_buf(0).bytes, 0U);
}

TEST_F(CudaMemory, TheEndOfAContextFreesItsMemory) {
  const Pointer at = memory();
  Pages pages;
  add(pages);
  stream();
  event();
  Context popped = nullptr;
  ok(cu().ctx_pop_current(&popped));
  ok(cu().primary_ctx_release(0));
  const Counters now = counters();
  EXPECT_EQ(now.live_allocations + now.live_registrations + now.live_streams + now.live_events, 0U);
  EXPECT_EQ(host_view(at), nullptr);
  ok(cu().primary_ctx_retain(&context_, 0));
  EXPECT_NE(context_, popped);
  ok(cu().ctx_push_current(context_));
}

}  // namespace
}  // namespace tally::test::cuda
