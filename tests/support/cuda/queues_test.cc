// Hardware queues, streams and events of the double.
#include "tests/support/cuda/process_fixture.h"

namespace tally::test::cuda {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class CudaQueues : public ProcessFixture {
 protected:
  // Appends a number when the stream reaches it. The order of appends is that of the operations.
  void mark(Stream on, int number) {
    ok(launch(on, [this, number] {
      const std::lock_guard lock(mutex_);
      order_.push_back(number);
    }));
  }
  std::mutex mutex_;
  std::vector<int> order_;
};

TEST_F(CudaQueues, RunsAStreamInOrderWithoutTheCaller) {
  const Stream one = stream();
  Gate gate;
  ok(launch(one, gate.kernel()));
  for (int i = 0; i < 100; ++i) mark(one, i);
  EXPECT_EQ(cu().stream_query(one), Code::kNotReady);
  EXPECT_THAT(order_, IsEmpty());
  gate.open();
  ok(cu().stream_synchronize(one));
  EXPECT_EQ(cu().stream_query(one), Code::kSuccess);
  EXPECT_THAT(order_, SizeIs(100));
  EXPECT_TRUE(std::is_sorted(order_.begin(), order_.end()));
}

TEST_F(CudaQueues, AFullQueueBlocksTheCaller) {
  restart({.queues = 1, .queue_depth = 3});
  const Stream one = stream();
  Gate gate;
  ok(launch(one, gate.kernel()));
  mark(one, 1);
  mark(one, 2);
  auto blocked = std::async(std::launch::async, [&] {
    const tally::cuda::CurrentContext current(cu(), context_);
    mark(one, 3);
  });
  EXPECT_EQ(blocked.wait_for(std::chrono::milliseconds(50)), std::future_status::timeout);
  gate.open();
  blocked.get();
  ok(cu().stream_synchronize(one));
  EXPECT_THAT(order_, ElementsAre(1, 2, 3));
}

TEST_F(CudaQueues, StreamsOfTwoQueuesRunAtOnce) {
  const Stream one = stream(), two = stream();
  Gate first, second;
  ok(launch(one, first.kernel()));
  mark(two, 2);
  ok(cu().stream_synchronize(two));
  EXPECT_EQ(cu().stream_query(one), Code::kNotReady);
}

TEST_F(CudaQueues, AWaitBlocksTheOtherStreamsOfItsQueue) {
  restart({.queues = 1});
  Pages pages;
  add(pages);
  const Stream one = stream(), two = stream();
  ok(cu().stream_wait_value32(one, pages.pointer(), 7, tally::cuda::kWaitValueGeq));
  mark(two, 2);
  ASSERT_TRUE(wait_until_waiting(two, soon()));
  const auto stuck = waiting();
  ASSERT_THAT(stuck, SizeIs(2));
  EXPECT_EQ(stuck[0].stream, one);
  EXPECT_THAT(stuck[0].on, HasSubstr("is at least 7 (it is 0)"));
  EXPECT_THAT(stuck[1].on, HasSubstr("behind stream"));
  EXPECT_FALSE(wait_until_idle(Clock::now() + std::chrono::milliseconds(5)));
  pages.word().store(7);
  EXPECT_TRUE(wait_until_idle(soon()));
  EXPECT_THAT(order_, ElementsAre(2));
  ok(cu().mem_host_unregister(pages.data()));
}

TEST_F(CudaQueues, ReleaseEndsAWait) {
  Pages pages;
  add(pages);
  const Stream one = stream();
  ok(cu().stream_wait_value32(one, pages.pointer(), 1, tally::cuda::kWaitValueEq));
  mark(one, 1);
  ASSERT_TRUE(wait_until_waiting(one, soon()));
  release(one);
  ok(cu().stream_synchronize(one));
  EXPECT_THAT(order_, ElementsAre(1));
}

TEST_F(CudaQueues, GeqComparesCyclically) {
  Pages pages;
  add(pages);
  const Stream one = stream();
  pages.word().store(3);
  ok(cu().stream_wait_value32(one, pages.pointer(), 0xfffffff0U, tally::cuda::kWaitValueGeq));
  ok(cu().stream_synchronize(one));
  pages.word().store(0xfffffff0U);
  ok(cu().stream_wait_value32(one, pages.pointer(), 3, tally::cuda::kWaitValueGeq));
  ASSERT_TRUE(wait_until_waiting(one, soon()));
  pages.word().store(4);
  ok(cu().stream_synchronize(one));
}

TEST_F(CudaQueues, EqWaitsForTheValueItself) {
  Pages pages;
  add(pages);
  const Stream one = stream(), two = stream();
  pages.word().store(6);
  ok(cu().stream_wait_value32(one, pages.pointer(), 5, tally::cuda::kWaitValueEq));
  ASSERT_TRUE(wait_until_waiting(one, soon()));
  ok(cu().stream_write_value32(two, pages.pointer(), 5, tally::cuda::kWriteValueDefault));
  ok(cu().stream_synchronize(one));
  EXPECT_EQ(pages.word().load(), 5U);
}

TEST_F(CudaQueues, TheDefaultStreamSynchronizesWithBlockingStreams) {
  const Stream blocking = stream(0), free = stream();
  Gate gate;
  ok(launch(blocking, gate.kernel()));
  mark(nullptr, 1);   // waits for the blocking stream
  mark(blocking, 2);  // waits for the default stream
  mark(free, 3);
  ok(cu().stream_synchronize(free));
  EXPECT_THAT(order_, ElementsAre(3));
  EXPECT_EQ(cu().stream_query(nullptr), Code::kNotReady);
  gate.open();
  ok(cu().stream_synchronize(blocking));
  EXPECT_THAT(order_, ElementsAre(3, 1, 2));
}

TEST_F(CudaQueues, AStreamWaitsForAnEventOfAnother) {
  const Stream one = stream(), two = stream();
  const Event done = event();
  Gate gate;
  ok(launch(one, gate.kernel()));
  mark(one, 1);
  ok(cu().event_record(done, one));
  EXPECT_EQ(cu().event_query(done), Code::kNotReady);
  ok(cu().stream_wait_event(two, done, 0));
  mark(two, 2);
  ASSERT_TRUE(wait_until_waiting(two, soon()));
  gate.open();
  ok(cu().event_synchronize(done));
  EXPECT_EQ(cu().event_query(done), Code::kSuccess);
  ok(cu().stream_synchronize(two));
  EXPECT_THAT(order_, ElementsAre(1, 2));
}

TEST_F(CudaQueues, AWaitUsesTheRecordBeforeIt) {
  const Stream one = stream(), two = stream();
  const Event done = event();
  ok(cu().event_record(done, one));
  ok(cu().stream_wait_event(two, done, 0));
  Gate gate;
  ok(launch(one, gate.kernel()));
  ok(cu().event_record(done, one));  // the wait above does not follow this
  ok(cu().stream_synchronize(two));
  EXPECT_EQ(cu().event_query(done), Code::kNotReady);
}

TEST_F(CudaQueues, AnEventThatWasNeverRecordedHasPassed) {
  const Stream one = stream();
  const Event never = event();
  ok(cu().stream_wait_event(one, never, 0));
  ok(cu().event_query(never));
  ok(cu().event_synchronize(never));
  ok(cu().stream_synchronize(one));
}

TEST_F(CudaQueues, MeasuresTimeBetweenEvents) {
  const Stream one = stream();
  const Event begin = event(), end = event();
  ok(cu().event_record(begin, one));
  ok(launch(one, [] { std::this_thread::sleep_for(std::chrono::milliseconds(3)); }));
  ok(cu().event_record(end, one));
  ok(cu().event_synchronize(end));
  float ms = 0;
  ok(cu().event_elapsed_time(&ms, begin, end));
  EXPECT_GE(ms, 2.9F);
  const Event untimed = event(tally::cuda::kEventDisableTiming);
  EXPECT_EQ(cu().event_elapsed_time(&ms, begin, untimed), Code::kInvalidHandle);
}

TEST_F(CudaQueues, DestroyedStreamsAndEventsFinishTheirWork) {
  const Stream one = stream(), two = stream();
  const Event done = event();
  Gate gate;
  ok(launch(one, gate.kernel()));
  ok(cu().event_record(done, one));
  ok(cu().stream_wait_event(two, done, 0));
  mark(two, 2);
  ok(cu().event_destroy(done));
  ok(cu().stream_destroy(one));
  gate.open();
  ok(cu().stream_synchronize(two));
  EXPECT_THAT(order_, ElementsAre(2));
}

TEST_F(CudaQueues, HostFunctionsRunOneAtATimeAndTheStreamWaits) {
  const Stream one = stream(), two = stream();
  struct Shared {
    Gate gate;
    std::atomic<int> ran = 0;
    std::function<void()> wait = gate.kernel();
  } shared;
  ok(cu().launch_host_func(
      one,
      [](void* user) {
        static_cast<Shared*>(user)->wait();
        ++static_cast<Shared*>(user)->ran;
      },
      &shared));
  mark(one, 1);
  // Enqueued while the thread of host functions is busy.
  ok(cu().launch_host_func(
      two, [](void* user) { ++static_cast<Shared*>(user)->ran; }, &shared));
  EXPECT_EQ(cu().stream_query(one), Code::kNotReady);
  EXPECT_THAT(order_, IsEmpty());
  shared.gate.open();
  ok(cu().ctx_synchronize());
  EXPECT_EQ(shared.ran, 2);
  EXPECT_THAT(order_, ElementsAre(1));
}

TEST_F(CudaQueues, DelaysOperationsWhereATestOrdersIt) {
  restart({.seed = 7, .longest_delay = std::chrono::milliseconds(1)});
  const Stream one = stream();
  const auto begin = Clock::now();
  for (int i = 0; i < 20; ++i) mark(one, i);
  ok(cu().stream_synchronize(one));
  EXPECT_GE(Clock::now() - begin, std::chrono::milliseconds(2)) << "10 ms are to be expected";
  EXPECT_THAT(order_, SizeIs(20));
}

TEST_F(CudaQueues, ManyThreadsShareADevice) {
  for (const unsigned queues : {1U, 3U}) {
    restart({.queues = queues, .seed = queues, .longest_delay = std::chrono::microseconds(20)});
    const Event shared = event();
    const auto work = [&](unsigned thread) {
      const tally::cuda::CurrentContext current(cu(), context_);
      Pages pages;
      add(pages);
      const Stream own = stream(thread % 2 == 0 ? 0 : tally::cuda::kStreamNonBlocking);
      const Pointer at = memory();
      for (unsigned i = 1; i <= 20; ++i) {
        ok(cu().stream_wait_event(own, shared, 0));
        ok(cu().memset_d32_async(at, thread * 1000 + i, 16, own));
        ok(cu().memcpy_dtoh_async(pages.data() + 64, at, 64, own));
        ok(cu().stream_write_value32(own, pages.pointer(), i, 0));
        ok(cu().event_record(shared, own));
        if (i % 5 == 0) ok(launch(nullptr, [] {}));
        while (pages.word().load(std::memory_order_acquire) != i) std::this_thread::yield();
        std::uint32_t word = 0;
        std::memcpy(&word, pages.data() + 64, sizeof word);
        EXPECT_EQ(word, thread * 1000 + i);
      }
      ok(cu().stream_synchronize(own));
      ok(cu().mem_free(at));
      ok(cu().mem_host_unregister(pages.data()));
      ok(cu().stream_destroy(own));
    };
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < 4; ++i) threads.emplace_back(work, i);
    for (std::thread& thread : threads) thread.join();
    ok(cu().event_destroy(shared));
  }
}

TEST_F(CudaQueues, DevicesHaveContextsOfTheirOwn) {
  restart({.devices = 2});
  Context other = nullptr;
  ok(cu().primary_ctx_retain(&other, 1));
  ASSERT_NE(other, context_);
  const Stream one = stream();
  const Event done = event();
  Stream far = nullptr;
  {
    const tally::cuda::CurrentContext current(cu(), other);
    Device device = -1;
    ok(cu().ctx_get_device(&device));
    EXPECT_EQ(device, 1);
    far = stream();
    Context of = nullptr;
    ok(cu().stream_get_ctx(far, &of));
    EXPECT_EQ(of, other);
  }
  // A stream waits for events of all devices.
  Gate gate;
  ok(launch(one, gate.kernel()));
  ok(cu().event_record(done, one));
  ok(cu().stream_wait_event(far, done, 0));
  ASSERT_TRUE(wait_until_waiting(far, soon()));
  gate.open();
  ok(cu().stream_synchronize(far));
  ok(cu().primary_ctx_release(1));
}

}  // namespace
}  // namespace tally::test::cuda
