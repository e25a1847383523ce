// Operations that are captured into CUDA graphs: each launch is a round.
#include <gtest/gtest.h>

#include <barrier>

#include "tests/e2e/cuda/fixture.h"
#include "tests/support/tier.h"

namespace tally::testing {
namespace {

using CudaGraphs = CudaTest;

class CapturedGraph {
 public:
  template <typename Work>
  CapturedGraph(const DeviceThread& thread, const DeviceStream& stream, Work work,
                unsigned mode = cuda::kCaptureModeThreadLocal)
      : thread_(thread) {
    const cuda::Driver& driver = thread.driver();
    thread.check(driver.stream_begin_capture(stream.get(), mode));
    work();
    cuda::Graph graph = nullptr;
    thread.check(driver.stream_end_capture(stream.get(), &graph));
    thread.check(driver.graph_instantiate(&exec_, graph, 0));
    thread.check(driver.graph_destroy(graph));
  }
  ~CapturedGraph() { thread_.check(thread_.driver().graph_exec_destroy(exec_)); }
  CapturedGraph(const CapturedGraph&) = delete;
  CapturedGraph& operator=(const CapturedGraph&) = delete;

  void launch(const DeviceStream& stream) const {
    thread_.check(thread_.driver().graph_launch(exec_, stream.get()));
  }

 private:
  const DeviceThread& thread_;
  cuda::GraphExec exec_ = nullptr;
};

// The graph of an all-reduce in place, of tag 9.
struct AllReduceGraph {
  AllReduceGraph(Rank& rank, const DeviceThread& thread, std::uint64_t count = kCount,
                 std::uint32_t deadline_ms = 0)
      : stream(thread),
        array(thread, count),
        region(array.register_with(rank.session())),
        wanted(operation(TALLY_ALL_REDUCE, TALLY_F32, 9, count, {region, 0}, {region, 0})),
        graph(thread, stream, [&] {
          wanted.stream = stream.get();
          wanted.deadline_ms = deadline_ms;
          EXPECT_EQ(tally_post(rank.session(), &wanted), TALLY_OK) << rank.error();
        }) {}

  void launch() const { graph.launch(stream); }

  DeviceStream stream;
  DeviceArray<float> array;
  tally_region* region;
  tally_operation wanted;
  CapturedGraph graph;
};

// Each launch doubles the values, with two ranks of equal values. Several are in flight.
TEST_P(CudaGraphs, EachLaunchIsARound) {
  on_each([&](std::uint32_t, Rank& rank, const DeviceThread& thread) {
    const AllReduceGraph graph(rank, thread);
    graph.array.fill(Floats(kCount, 1.0F), graph.stream);
    EXPECT_EQ(graph.array.read(0, 1, graph.stream), Floats(1, 1.0F));  // nothing has run
    for (int launch = 0; launch < 3; ++launch) graph.launch();
    graph.stream.finish();
    EXPECT_EQ(graph.array.read(0, kCount, graph.stream), Floats(kCount, 8.0F));
    for (int launch = 0; launch < 2; ++launch) graph.launch();
    graph.stream.finish();
    EXPECT_EQ(graph.array.read(0, kCount, graph.stream), Floats(kCount, 32.0F));
    EXPECT_EQ(tally_post(rank.session(), &graph.wanted), TALLY_DUPLICATE);
    EXPECT_EQ(tally_region_free(rank.session(), graph.region), TALLY_AGAIN);
    tally_completion completion{};
    completion.size = sizeof completion;
    EXPECT_EQ(tally_poll(rank.session(), &completion, 1), 0);
  });
}

TEST_P(CudaGraphs, ARoundThatFailsHasACompletionAndTheNextOneSucceeds) {
  std::barrier all_ranks(kRanks);
  on_each([&](std::uint32_t index, Rank& rank, const DeviceThread& thread) {
    const std::uint32_t deadline_ms = 1000 * sanitizer_factor();
    const AllReduceGraph graph(rank, thread, kCount, deadline_ms);
    if (index == 1) std::this_thread::sleep_for(std::chrono::milliseconds(deadline_ms + 600));
    graph.launch();
    graph.stream.finish();
    tally_completion completion{};
    completion.size = sizeof completion;
    while (tally_poll(rank.session(), &completion, 1) == 0) std::this_thread::yield();
    EXPECT_EQ(completion.status, TALLY_DEADLINE);
    all_ranks.arrive_and_wait();
    graph.array.fill(values_of(index, kCount), graph.stream);
    graph.launch();
    graph.stream.finish();
    EXPECT_EQ(tally_poll(rank.session(), &completion, 1), 0) << completion.status;
    EXPECT_EQ(graph.array.read(0, kCount, graph.stream), sum_of(kRanks, kCount));
  });
}

// A capture in mode global ends when any thread makes certain calls, and PyTorch's captures have
// this mode.
TEST_P(CudaGraphs, TheLibrarysThreadDoesNotEndACapture) {
  on_each([&](std::uint32_t index, Rank& rank, const DeviceThread& thread) {
    if (index == 1) return;  // the capture would also forbid calls to this rank's thread
    const DeviceStream waiting(thread);
    const DeviceStream captured(thread);
    const DeviceArray<float> array(thread, kCount);
    tally_region* const region = array.register_with(rank.session());
    Gate gate(thread);
    gate.close(waiting);
    auto wanted = operation(TALLY_ALL_REDUCE, TALLY_F32, 1, kCount, {region, 0}, {region, 0});
    wanted.stream = waiting.get();
    ASSERT_EQ(tally_post(rank.session(), &wanted), TALLY_OK) << rank.error();
    const auto capture = [&] {
      thread.check(thread.driver().memset_d32_async(array.data(), 0, kCount, captured.get()));
      std::this_thread::sleep_for(std::chrono::milliseconds(50));  // the thread looks for failures
    };
    const CapturedGraph graph(thread, captured, capture, cuda::kCaptureModeGlobal);
    gate.open();
    rank.close();
    waiting.finish();
  });
}

// Host memory that the device has not written still has the bytes of an earlier round.
TEST_P(CudaGraphs, ABrokenDeviceContributesToNoLaterRound) {
  std::barrier all_ranks(kRanks);
  on_each([&](std::uint32_t index, Rank& rank, const DeviceThread& thread) {
    const AllReduceGraph graph(rank, thread, kCount, 1000);
    tally_completion completion{};
    completion.size = sizeof completion;
    const auto expect_failure = [&] {
      const Nanos until = monotonic_now() + 10 * kSecond;
      int taken = 0;
      while (taken == 0 && monotonic_now() < until) {
        taken = tally_poll(rank.session(), &completion, 1);
        std::this_thread::yield();
      }
      ASSERT_EQ(taken, 1);
      EXPECT_NE(completion.status, TALLY_OK);
    };
    bool breaks = true;
    if (index == 0) {
      graph.launch();
      std::this_thread::sleep_for(std::chrono::milliseconds(100));  // the chunks are posted
      breaks = machine_->break_device(0);
      if (breaks) thread.expect_failures();
      expect_failure();
    }
    all_ranks.arrive_and_wait();
    for (int round = 0; round < 2 && index == 1; ++round) {
      graph.launch();
      graph.stream.finish();
      expect_failure();
    }
    all_ranks.arrive_and_wait();
    if (!breaks) GTEST_SKIP() << "a real device is not broken by a test";
  });
}

class CudaGraphsOnASlowBus : public CudaTest {
 protected:
  void SetUp() override {
    options_.bandwidth_up = 100'000;
    CudaTest::SetUp();
  }
};

// The library's thread, which sleeps during the last copy, may not have seen the end of the round.
TEST_P(CudaGraphsOnASlowBus, ASessionThatClosesRightAfterARoundUnpinsItsMemory) {
  std::barrier all_ranks(kRanks);
  for (int i = 0; i < 5; ++i) {
    on_each([&](std::uint32_t index, Rank& rank, const DeviceThread& thread) {
      const AllReduceGraph graph(rank, thread, 1000);
      graph.launch();
      graph.stream.finish();
      rank.close();
      all_ranks.arrive_and_wait();
      CudaMachine::Work work;
      if (index == 0 && machine_->counts(work)) {
        EXPECT_EQ(work.pinned, 0U) << i;
      }
      all_ranks.arrive_and_wait();
    });
  }
}

TEST_P(CudaGraphs, RunIsRefusedDuringACapture) {
  on_each([&](std::uint32_t, Rank& rank, const DeviceThread& thread) {
    const DeviceStream stream(thread);
    const DeviceArray<float> array(thread, kCount);
    tally_region* const region = array.register_with(rank.session());
    auto wanted = operation(TALLY_ALL_REDUCE, TALLY_F32, 1, kCount, {region, 0}, {region, 0});
    wanted.stream = stream.get();
    tally_completion completion{};
    completion.size = sizeof completion;
    const CapturedGraph graph(thread, stream, [&] {
      EXPECT_EQ(tally_run(rank.session(), &wanted, &completion), TALLY_INVALID_ARGUMENT);
      EXPECT_NE(std::string(rank.error()).find("use tally_post"), std::string::npos)
          << rank.error();
    });
  });
}

// The branches of a graph take queues of their own, next to that of the stream. So ranks of one
// process that share a device would meet in a queue.
INSTANTIATE_TEST_SUITE_P(Layouts, CudaGraphs, kDeviceForEachRank, name_of);
INSTANTIATE_TEST_SUITE_P(Layouts, CudaGraphsOnASlowBus, ::testing::Values(CudaLayout{2, 8}),
                         name_of);

}  // namespace
}  // namespace tally::testing
