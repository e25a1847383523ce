// How the nodes get at memory of a device, and what the log says about it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <barrier>

#include "tests/e2e/cuda/fixture.h"

namespace tally::testing {
namespace {

using ::testing::HasSubstr;

// One rank that is a job by itself, with its log.
class CudaRegions : public ::testing::Test {
 protected:
  void open(const MachineOptions& options) {
    if (const auto why = CudaMachine::why_not(options); !why.empty()) GTEST_SKIP() << why;
    machine_ = std::make_unique<CudaMachine>(options);
    thread_ = std::make_unique<DeviceThread>(machine_->driver(), 0);
    tally_session_options session{};
    session.size = sizeof session;
    session.address = node_.address().c_str();
    session.ranks = 1;
    session.log = [](void* log, int, const char* text) {
      *static_cast<std::string*>(log) += std::string(text) + "\n";
    };
    session.log_context = &log_;
    ASSERT_EQ(tally_open(&session, &session_), TALLY_OK) << tally_last_error(nullptr);
    tally_session_info info{};
    info.size = sizeof info;
    ASSERT_EQ(tally_get_info(session_, &info), TALLY_OK);
    has_adapter_ = std::string(info.transport) == "verbs";
  }
  ~CudaRegions() override {
    if (session_ != nullptr) tally_close(session_);
  }

  // The sum of one rank is its input.
  void all_reduce() {
    const DeviceStream stream(*thread_);
    const DeviceArray<float> array(*thread_, 2 * kCount);
    tally_region* const region = array.register_with(session_);
    array.fill(values_of(3, kCount), stream);
    auto wanted = operation(TALLY_ALL_REDUCE, TALLY_F32, 1, kCount, {region, 0},
                            {region, kCount * sizeof(float)});
    wanted.stream = stream.get();
    tally_completion completion{};
    completion.size = sizeof completion;
    ASSERT_EQ(tally_run(session_, &wanted, &completion), TALLY_OK) << tally_last_error(session_);
    ASSERT_EQ(completion.status, TALLY_OK) << completion.message;
    EXPECT_EQ(array.read(kCount, kCount, stream), values_of(3, kCount));
    EXPECT_EQ(tally_region_free(session_, region), TALLY_OK) << tally_last_error(session_);
  }

  LocalNode node_;
  std::unique_ptr<CudaMachine> machine_;
  std::unique_ptr<DeviceThread> thread_;
  tally_session* session_ = nullptr;
  std::string log_;
  bool has_adapter_ = false;
};

TEST_F(CudaRegions, AnAdapterReachesMemoryAsADmaBuf) {
  ASSERT_NO_FATAL_FAILURE(open({}));
  if (IsSkipped()) return;
  all_reduce();
  EXPECT_THAT(log_, HasSubstr(has_adapter_ ? "the adapter reaches it as a dma-buf"
                                           : "only the adapters of transport verbs reach memory"));
}

TEST_F(CudaRegions, MemoryThatNoAdapterReachesIsStaged) {
  ASSERT_NO_FATAL_FAILURE(open({.dma_buf = false}));
  if (IsSkipped()) return;
  all_reduce();
  EXPECT_THAT(log_, HasSubstr("is staged (copied through pinned host memory)"));
  if (!has_adapter_) return;
  EXPECT_THAT(log_, HasSubstr("no dma-buf: the device makes no dma-bufs; no nvidia-peermem: "));
}

TEST_F(CudaRegions, MemoryThatCannotBePinnedIsRefused) {
  ASSERT_NO_FATAL_FAILURE(open({.dma_buf = false}));
  if (IsSkipped()) return;
  all_reduce();  // the first region also pins memory for words
  const DeviceArray<float> array(*thread_, kCount);
  ASSERT_TRUE(machine_->fail("cuMemHostRegister", 1));
  tally_memory memory{};
  memory.size = sizeof memory;
  memory.kind = TALLY_MEMORY_CUDA;
  memory.data = reinterpret_cast<void*>(array.data());
  memory.bytes = array.bytes();
  tally_region* region = nullptr;
  EXPECT_EQ(tally_region_register(session_, &memory, &region), TALLY_NO_MEMORY);
  EXPECT_THAT(tally_last_error(session_), HasSubstr("cannot be pinned"));
  all_reduce();
}

TEST_F(CudaRegions, FailedPostsDoNotUseUpOperations) {
  ASSERT_NO_FATAL_FAILURE(open({}));
  if (IsSkipped()) return;
  const DeviceStream stream(*thread_);
  const DeviceArray<float> array(*thread_, kCount);
  tally_region* const region = array.register_with(session_);
  auto wanted = operation(TALLY_ALL_REDUCE, TALLY_F32, 1, kCount, {region, 0}, {region, 0});
  wanted.stream = stream.get();
  for (int i = 0; i < 300; ++i) {  // more than there are places for operations
    if (!machine_->fail("cuEventCreate", 1)) GTEST_SKIP() << "calls of a real driver do not fail";
    ASSERT_EQ(tally_post(session_, &wanted), TALLY_NO_MEMORY) << tally_last_error(session_);
  }
  all_reduce();
}

// Its copies may still be enqueued.
TEST_F(CudaRegions, AFreedRegionOfAFailedPostStaysPinned) {
  ASSERT_NO_FATAL_FAILURE(open({.dma_buf = false}));
  if (IsSkipped()) return;
  const DeviceStream stream(*thread_);
  const DeviceArray<float> array(*thread_, kCount);
  tally_region* const region = array.register_with(session_);
  CudaMachine::Work before;
  CudaMachine::Work after;
  Gate gate(*thread_);
  gate.close(stream);
  if (!machine_->counts(before)) GTEST_SKIP() << "calls of a real driver do not fail";
  ASSERT_TRUE(machine_->fail("cuMemcpyHtoDAsync", 1));
  auto wanted = operation(TALLY_ALL_REDUCE, TALLY_F32, 1, kCount, {region, 0}, {region, 0});
  wanted.stream = stream.get();
  ASSERT_NE(tally_post(session_, &wanted), TALLY_OK);
  EXPECT_EQ(tally_region_free(session_, region), TALLY_OK) << tally_last_error(session_);
  ASSERT_TRUE(machine_->counts(after));
  EXPECT_EQ(after.pinned, before.pinned);
  gate.open();
  stream.finish();
}

// A caller may register its first memory of a device while it waits for other operations.
TEST_F(CudaRegions, ArmBeforeTheFirstRegionStillWakesTheCaller) {
  if (const auto why = CudaMachine::why_not({}); !why.empty()) GTEST_SKIP() << why;
  machine_ = std::make_unique<CudaMachine>();
  std::barrier all_ranks(2);
  on_each_rank(2, [&](std::uint32_t index) {
    const DeviceThread thread(machine_->driver(), 0);
    Rank rank(node_.address(), index, 2, "two");
    const DeviceArray<float> array(thread, kCount);
    tally_region* host = nullptr;
    rank.alloc<float>(10, &host);
    const auto on_host = operation(TALLY_ALL_REDUCE, TALLY_F32, 1, 10, {host, 0}, {host, 0});
    if (index == 1) all_ranks.arrive_and_wait();
    ASSERT_EQ(tally_post(rank.session(), &on_host), TALLY_OK) << rank.error();
    if (index == 0) {
      const int fd = tally_fd(rank.session());
      ASSERT_EQ(tally_arm(rank.session()), TALLY_OK) << rank.error();
      array.register_with(rank.session());
      all_ranks.arrive_and_wait();
      pollfd event{fd, POLLIN, 0};
      EXPECT_EQ(::poll(&event, 1, 20'000), 1);
    }
    EXPECT_EQ(rank.wait().status, TALLY_OK);
    all_ranks.arrive_and_wait();
  });
}

// The handlers of signals belong to the program's own threads.
TEST_F(CudaRegions, TheLibrarysThreadGetsNoSignals) {
  ASSERT_NO_FATAL_FAILURE(open({}));
  if (IsSkipped()) return;
  all_reduce();
  EXPECT_TRUE(blocks_signals("tally-device"));
}

}  // namespace
}  // namespace tally::testing
