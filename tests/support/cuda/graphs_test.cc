// Stream capture and graphs of the double.
#include <thread>

#include "tests/support/cuda/process_fixture.h"

namespace tally::test::cuda {
namespace {

using tally::cuda::kCaptureModeGlobal;
using tally::cuda::kCaptureModeRelaxed;
using tally::cuda::kCaptureModeThreadLocal;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class CudaGraphs : public ProcessFixture {
 protected:
  void mark(Stream on, int number) {
    ok(launch(on, [this, number] {
      const std::lock_guard lock(mutex_);
      order_.push_back(number);
    }));
  }
  unsigned status(Stream of) {
    unsigned found = 99;
    ok(cu().stream_is_capturing(of, &found));
    return found;
  }
  void begin(Stream on, unsigned mode = kCaptureModeThreadLocal) {
    ok(cu().stream_begin_capture(on, mode));
  }
  // The code of the end of a capture that gives no graph.
  Code end_without_graph(Stream on) {
    Graph graph = nullptr;
    const Code code = cu().stream_end_capture(on, &graph);
    EXPECT_EQ(graph, nullptr);
    return code;
  }
  GraphExec executable(Stream on) {
    Graph graph = nullptr;
    ok(cu().stream_end_capture(on, &graph));
    GraphExec made = nullptr;
    ok(cu().graph_instantiate(&made, graph, 0));
    ok(cu().graph_destroy(graph));
    return made;
  }
  std::mutex mutex_;
  std::vector<int> order_;
};

TEST_F(CudaGraphs, WorkRunsAtTheLaunchAndNotAtTheCapture) {
  const Stream one = stream(), two = stream();
  EXPECT_EQ(status(one), tally::cuda::kCaptureNone);
  begin(one);
  EXPECT_EQ(status(one), tally::cuda::kCaptureActive);
  mark(one, 1);
  mark(one, 2);
  EXPECT_EQ(status(two), tally::cuda::kCaptureNone);
  const GraphExec exec = executable(one);
  EXPECT_EQ(status(one), tally::cuda::kCaptureNone);
  EXPECT_THAT(order_, IsEmpty());
  ok(cu().graph_launch(exec, two));
  mark(two, 3);
  ok(cu().stream_synchronize(two));
  EXPECT_THAT(order_, ElementsAre(1, 2, 3));
  EXPECT_EQ(counters().live_graphs, 1U);
  ok(cu().graph_exec_destroy(exec));
  EXPECT_EQ(counters().live_graphs, 0U);
}

TEST_F(CudaGraphs, LaunchesOfOneGraphRunOneAfterTheOther) {
  Pages pages;
  add(pages);
  const Stream one = stream(), two = stream();
  begin(one);
  mark(one, 1);
  ok(cu().stream_wait_value32(one, pages.pointer(), 1, tally::cuda::kWaitValueGeq));
  mark(one, 2);
  const GraphExec exec = executable(one);
  ok(cu().graph_launch(exec, one));
  ok(cu().graph_launch(exec, two));  // another stream; it waits for the first launch
  ok(cu().graph_exec_destroy(exec));
  ASSERT_TRUE(wait_until_waiting(one, soon()));
  ASSERT_TRUE(wait_until_waiting(two, soon()));
  pages.word().store(1);
  ok(cu().ctx_synchronize());
  EXPECT_THAT(order_, ElementsAre(1, 2, 1, 2));
}

TEST_F(CudaGraphs, CapturesForksAndJoins) {
  for (const unsigned queues : {1U, 8U}) {
    restart({.queues = queues});
    order_.clear();
    const Stream one = stream(), two = stream();
    const Event fork = event(), join = event();
    begin(one);
    mark(one, 1);
    ok(cu().event_record(fork, one));
    ok(cu().stream_wait_event(two, fork, 0));
    EXPECT_EQ(status(two), tally::cuda::kCaptureActive);
    mark(two, 2);
    ok(cu().event_record(join, two));
    ok(cu().stream_wait_event(one, join, 0));
    mark(one, 3);
    const GraphExec exec = executable(one);
    EXPECT_EQ(status(two), tally::cuda::kCaptureNone);
    for (int i = 0; i < 3; ++i) ok(cu().graph_launch(exec, one));
    ok(cu().stream_synchronize(one));
    EXPECT_THAT(order_, ElementsAre(1, 2, 3, 1, 2, 3, 1, 2, 3)) << queues;
  }
}

TEST_F(CudaGraphs, BranchesRunAtOnce) {
  Pages pages;
  add(pages);
  const Stream one = stream(), two = stream();
  const Event fork = event(), join = event();
  begin(one);
  ok(cu().event_record(fork, one));
  ok(cu().stream_wait_event(two, fork, 0));
  // Without a queue of its own for each branch, this waits forever.
  ok(cu().stream_wait_value32(one, pages.pointer(), 5, tally::cuda::kWaitValueEq));
  ok(cu().stream_write_value32(two, pages.pointer(), 5, 0));
  ok(cu().event_record(join, two));
  ok(cu().stream_wait_event(one, join, 0));
  ok(cu().graph_launch(executable(one), one));
  ok(cu().stream_synchronize(one));
}

TEST_F(CudaGraphs, AForkThatIsNotJoinedIsAnError) {
  const Stream one = stream(), two = stream();
  const Event fork = event();
  begin(one);
  ok(cu().event_record(fork, one));
  ok(cu().stream_wait_event(two, fork, 0));
  mark(two, 2);
  EXPECT_EQ(end_without_graph(one), Code::kStreamCaptureUnjoined);
  EXPECT_EQ(status(two), tally::cuda::kCaptureNone);
}

TEST_F(CudaGraphs, CopiesHostFunctionsAndWordsAreNodes) {
  Pages pages;
  add(pages);
  const Pointer at = memory();
  const Stream one = stream();
  std::atomic<int> ran = 0;
  begin(one);
  ok(cu().memset_d32_async(at, 77, 16, one));
  ok(cu().memcpy_dtoh_async(pages.data() + 64, at, 64, one));
  ok(cu().launch_host_func(
      one, [](void* user) { ++*static_cast<std::atomic<int>*>(user); }, &ran));
  ok(cu().stream_write_value32(one, pages.pointer(), 1, 0));
  const GraphExec exec = executable(one);
  ok(cu().graph_launch(exec, one));
  ok(cu().graph_launch(exec, one));
  ok(cu().stream_synchronize(one));
  EXPECT_EQ(ran, 2);
  EXPECT_EQ(pages.data()[64], std::byte{77});
  EXPECT_EQ(pages.word().load(), 1U);
  EXPECT_EQ(counters().bytes_down, 128U);
}

TEST_F(CudaGraphs, RefusesWordsInCapturesWhereATestOrdersIt) {
  restart({.captures_stream_memory_operations = false});
  Pages pages;
  add(pages);
  const Stream one = stream();
  ok(cu().stream_write_value32(one, pages.pointer(), 1, 0));
  ok(cu().stream_synchronize(one));  // before the pages are unmapped
  begin(one);
  EXPECT_EQ(cu().stream_write_value32(one, pages.pointer(), 1, 0), Code::kStreamCaptureUnsupported);
  EXPECT_EQ(end_without_graph(one), Code::kStreamCaptureInvalidated);
}

TEST_F(CudaGraphs, CallsThatWaitInvalidateTheCapture) {
  const Stream one = stream();
  const Event inside = event();
  const auto invalidates = [&](Code expected, auto call) {
    begin(one);
    ok(cu().event_record(inside, one));
    EXPECT_EQ(call(), expected);
    EXPECT_EQ(status(one), tally::cuda::kCaptureInvalidated);
    EXPECT_EQ(launch(one, [] {}), Code::kStreamCaptureInvalidated);
    EXPECT_EQ(end_without_graph(one), Code::kStreamCaptureInvalidated);
  };
  const Pointer at = memory();
  Pointer more = 0;
  invalidates(Code::kStreamCaptureUnsupported, [&] { return cu().stream_synchronize(one); });
  invalidates(Code::kStreamCaptureUnsupported, [&] { return cu().stream_query(one); });
  invalidates(Code::kStreamCaptureUnsupported, [&] { return cu().ctx_synchronize(); });
  invalidates(Code::kStreamCaptureUnsupported, [&] { return cu().mem_alloc(&more, 64); });
  invalidates(Code::kStreamCaptureUnsupported, [&] { return cu().mem_free(at); });
  invalidates(Code::kCapturedEvent, [&] { return cu().event_query(inside); });
  invalidates(Code::kCapturedEvent, [&] { return cu().event_synchronize(inside); });
}

TEST_F(CudaGraphs, ModesForbidCallsToThreads) {
  const Stream one = stream();
  const Pointer at = memory();
  const auto free_elsewhere = [&] {
    Code code = Code::kUnknown;
    std::thread([&] {
      const tally::cuda::CurrentContext current(cu(), context_);
      Pointer more = 0;
      code = cu().mem_alloc(&more, 64);
    }).join();
    return code;
  };
  begin(one, kCaptureModeThreadLocal);
  EXPECT_EQ(free_elsewhere(), Code::kSuccess);
  executable(one);
  begin(one, kCaptureModeGlobal);
  EXPECT_EQ(free_elsewhere(), Code::kStreamCaptureUnsupported);
  EXPECT_EQ(end_without_graph(one), Code::kStreamCaptureInvalidated);
  begin(one, kCaptureModeRelaxed);
  ok(cu().mem_free(at));
  executable(one);
}

TEST_F(CudaGraphs, ACaptureEndsInItsStreamAndThread) {
  const Stream one = stream(), two = stream();
  const Event fork = event();
  EXPECT_EQ(end_without_graph(one), Code::kInvalidValue);
  begin(one);
  std::thread([&] {
    const tally::cuda::CurrentContext current(cu(), context_);
    EXPECT_EQ(end_without_graph(one), Code::kStreamCaptureWrongThread);
  }).join();
  ok(cu().event_record(fork, one));
  ok(cu().stream_wait_event(two, fork, 0));
  EXPECT_EQ(end_without_graph(two), Code::kStreamCaptureUnmatched);
  EXPECT_EQ(end_without_graph(one), Code::kStreamCaptureInvalidated);
  EXPECT_THAT(expected_misuses(), SizeIs(3));
}

TEST_F(CudaGraphs, WorkOfAnotherStreamCannotEnterACapture) {
  const Stream one = stream(), two = stream();
  const Event before = event(), never = event(), inside = event();
  ok(cu().event_record(before, two));
  begin(one);
  ok(cu().stream_wait_event(one, never, 0));
  EXPECT_EQ(cu().stream_wait_event(one, before, 0), Code::kStreamCaptureIsolation);
  EXPECT_EQ(end_without_graph(one), Code::kStreamCaptureInvalidated);
  begin(one);
  begin(two);
  ok(cu().event_record(inside, one));
  EXPECT_EQ(cu().stream_wait_event(two, inside, 0), Code::kStreamCaptureMerge);
  EXPECT_EQ(end_without_graph(one), Code::kStreamCaptureInvalidated);
  EXPECT_EQ(end_without_graph(two), Code::kStreamCaptureInvalidated);
  EXPECT_EQ(cu().stream_wait_event(two, inside, 0), Code::kCapturedEvent);
}

TEST_F(CudaGraphs, TheDefaultStreamIsForbiddenBesideABlockingStream) {
  EXPECT_EQ(cu().stream_begin_capture(nullptr, kCaptureModeRelaxed),
            Code::kStreamCaptureUnsupported);
  const Stream blocking = stream(0), free = stream();
  begin(free);
  ok(launch(nullptr, [] {}));
  executable(free);
  begin(blocking);
  unsigned found = 0;
  EXPECT_EQ(cu().stream_is_capturing(nullptr, &found), Code::kStreamCaptureImplicit);
  EXPECT_EQ(status(blocking), tally::cuda::kCaptureActive);
  EXPECT_EQ(launch(nullptr, [] {}), Code::kStreamCaptureImplicit);
  EXPECT_EQ(end_without_graph(blocking), Code::kStreamCaptureInvalidated);
}

TEST_F(CudaGraphs, AStreamThatIsCapturingMayNotBeDestroyed) {
  const Stream one = stream(), two = stream();
  const Event fork = event();
  begin(one);
  ok(cu().event_record(fork, one));
  ok(cu().stream_wait_event(two, fork, 0));
  ok(cu().stream_destroy(one));
  EXPECT_EQ(status(two), tally::cuda::kCaptureNone);
  EXPECT_THAT(expected_misuses(), ElementsAre(HasSubstr("of a stream that is capturing")));
}

TEST_F(CudaGraphs, AGraphThatUsesFreedMemoryBreaksTheContext) {
  const Stream one = stream();
  const Pointer at = memory();
  begin(one);
  ok(cu().memset_d32_async(at, 1, 16, one));
  const GraphExec exec = executable(one);
  ok(cu().mem_free(at));
  ok(cu().graph_launch(exec, one));
  EXPECT_EQ(cu().stream_synchronize(one), Code::kIllegalAddress);
  EXPECT_THAT(expected_misuses(), ElementsAre(HasSubstr("memset of 64 bytes runs after")));
}

}  // namespace
}  // namespace tally::test::cuda
