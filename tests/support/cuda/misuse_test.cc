// Failures that tests order, and misuse that the double detects.
#include <cstdlib>

#include "tests/support/cuda/process_fixture.h"

namespace tally::test::cuda {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class CudaMisuse : public ProcessFixture {};

class CudaMisuseDeath : public ProcessFixture {
 protected:
  CudaMisuseDeath() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

TEST_F(CudaMisuse, TheNthCallFails) {
  fail("cuMemAlloc", 2, Code::kOutOfMemory);
  fail("cuMemAlloc", 3, Code::kUnknown);
  memory();
  Pointer at = 0;
  EXPECT_EQ(cu().mem_alloc(&at, 64), Code::kOutOfMemory);
  EXPECT_EQ(cu().mem_alloc(&at, 64), Code::kUnknown);
  EXPECT_EQ(at, 0U);
  memory();
  EXPECT_EQ(counters().calls["cuMemAlloc"], 4U);
  EXPECT_EQ(counters().allocations, 2U);
}

TEST_F(CudaMisuse, EveryFunctionCanFail) {
  const Stream one = stream();
  const Event done = event();
  const auto fails = [&](const char* function, auto call) {
    fail(function, 1, Code::kNotPermitted);
    EXPECT_EQ(call(), Code::kNotPermitted) << function;
  };
  unsigned status = 0;
  int count = 0;
  Context context = nullptr;
  GraphExec exec = nullptr;
  fails("cuInit", [&] { return cu().init(0); });
  fails("cuDeviceGetCount", [&] { return cu().device_get_count(&count); });
  fails("cuDevicePrimaryCtxRetain", [&] { return cu().primary_ctx_retain(&context, 0); });
  fails("cuCtxPushCurrent", [&] { return cu().ctx_push_current(context_); });
  fails("cuStreamSynchronize", [&] { return cu().stream_synchronize(one); });
  fails("cuStreamIsCapturing", [&] { return cu().stream_is_capturing(one, &status); });
  fails("cuEventQuery", [&] { return cu().event_query(done); });
  fails("cuEventRecord", [&] { return cu().event_record(done, one); });
  fails("cuGraphLaunch", [&] { return cu().graph_launch(exec, one); });
}

TEST_F(CudaMisuse, ABrokenContextStaysBroken) {
  Pages pages;
  add(pages);
  const Stream one = stream();
  const Pointer at = memory();
  ok(cu().stream_wait_value32(one, pages.pointer(), 1, tally::cuda::kWaitValueEq));
  ok(cu().memcpy_htod_async(at, pages.data(), 64, one));
  ASSERT_TRUE(wait_until_waiting(one, soon()));
  break_context(0, Code::kIllegalAddress);
  EXPECT_EQ(cu().stream_synchronize(one), Code::kIllegalAddress);
  EXPECT_EQ(cu().stream_query(one), Code::kIllegalAddress);
  EXPECT_EQ(cu().mem_free(at), Code::kIllegalAddress);
  EXPECT_EQ(counters().bytes_up, 0U) << "the work is dropped";
  ASSERT_TRUE(wait_until_idle(soon()));
  Context popped = nullptr;
  ok(cu().ctx_pop_current(&popped));
  ok(cu().primary_ctx_release(0));
  // A new context works.
  ok(cu().primary_ctx_retain(&context_, 0));
  ok(cu().ctx_push_current(context_));
  memory();
}

TEST_F(CudaMisuse, AKernelThatThrowsBreaksTheContext) {
  const Stream one = stream();
  ok(launch(one, [] { throw 1; }));
  EXPECT_EQ(cu().stream_synchronize(one), Code::kLaunchFailed);
  EXPECT_EQ(cu().ctx_synchronize(), Code::kLaunchFailed);
}

TEST_F(CudaMisuse, AHostFunctionMayNotCallCuda) {
  const Stream one = stream();
  struct Call {
    const tally::cuda::Driver* driver;
    Stream stream;
    Code code = Code::kSuccess;
  } call{&cu(), one};
  ok(cu().launch_host_func(
      one,
      [](void* user) {
        auto* const of = static_cast<Call*>(user);
        of->code = of->driver->stream_query(of->stream);
      },
      &call));
  ok(cu().stream_synchronize(one));
  EXPECT_EQ(call.code, Code::kNotPermitted);
  EXPECT_THAT(expected_misuses(), ElementsAre("cuStreamQuery is called by a host function"));
}

TEST_F(CudaMisuse, DetectsFreedMemory) {
  const Stream one = stream();
  Pages pages;
  add(pages);
  const Pointer at = memory();
  EXPECT_EQ(cu().memcpy_htod_async(at + 4000, pages.data(), 100, one), Code::kInvalidValue);
  ok(cu().mem_free(at));
  EXPECT_EQ(cu().memcpy_htod_async(at, pages.data(), 64, one), Code::kInvalidValue);
  EXPECT_EQ(cu().mem_free(at), Code::kInvalidValue);
  EXPECT_THAT(expected_misuses(),
              ElementsAre(HasSubstr("is freed, or shorter than the copy"),
                          HasSubstr("is freed, or shorter"), HasSubstr("where no memory begins")));
}

TEST_F(CudaMisuse, AnOperationAfterItsMemoryBreaksTheContext) {
  const Stream one = stream();
  Pages pages, word;
  add(pages);
  add(word);
  const Pointer at = memory();
  ok(cu().stream_wait_value32(one, word.pointer(), 1, tally::cuda::kWaitValueEq));
  ok(cu().memcpy_htod_async(at, pages.data(), 64, one));
  ok(cu().mem_host_unregister(pages.data()));
  EXPECT_THAT(expected_misuses(),
              ElementsAre(HasSubstr("which copy to the device of 64 bytes uses")));
  word.word().store(1);
  EXPECT_EQ(cu().stream_synchronize(one), Code::kIllegalAddress);
  EXPECT_THAT(expected_misuses(), ElementsAre(HasSubstr("was freed, unregistered or unmapped")));
}

TEST_F(CudaMisuse, DetectsRegisteredMemoryThatIsUnmapped) {
  const Stream one = stream();
  Pages pages;
  add(pages);
  ok(cu().stream_wait_value32(one, pages.pointer(), 1, tally::cuda::kWaitValueEq));
  ASSERT_TRUE(wait_until_waiting(one, soon()));
  // As munmap(), but no other thread's mmap() gets the address.
  ASSERT_EQ(::mprotect(pages.data(), Pages::kBytes, PROT_NONE), 0);
  EXPECT_EQ(cu().stream_synchronize(one), Code::kIllegalAddress);
  EXPECT_THAT(expected_misuses(), ElementsAre(HasSubstr("is unmapped, but still registered")));
}

TEST_F(CudaMisuse, DetectsHandlesThatAreDestroyed) {
  const Stream one = stream();
  const Event done = event();
  ok(cu().stream_destroy(one));
  ok(cu().event_destroy(done));
  EXPECT_EQ(cu().stream_query(one), Code::kInvalidHandle);
  EXPECT_EQ(cu().event_query(done), Code::kInvalidHandle);
  EXPECT_EQ(cu().graph_destroy(reinterpret_cast<Graph>(one)), Code::kInvalidValue);
  EXPECT_THAT(expected_misuses(),
              ElementsAre(HasSubstr("cuStreamQuery of a destroyed stream"),
                          HasSubstr("cuEventQuery of a destroyed event"), HasSubstr("no graph")));
}

TEST_F(CudaMisuse, DetectsWordsThatAreNotRegistered) {
  const Stream one = stream();
  Pages pages;
  EXPECT_EQ(cu().stream_wait_value32(one, pages.pointer(), 1, 0), Code::kInvalidValue);
  add(pages);
  EXPECT_EQ(cu().stream_write_value32(one, pages.pointer() + 2, 1, 0), Code::kInvalidValue);
  EXPECT_THAT(expected_misuses(), ElementsAre(HasSubstr("cuStreamWaitValue32 of the word"),
                                              HasSubstr("cuStreamWriteValue32 of the word")));
}

TEST_F(CudaMisuse, HasNoStreamMemoryOperationsWhereATestOrdersIt) {
  restart({.stream_memory_operations = false});
  Pages pages;
  add(pages);
  const Stream one = stream();
  EXPECT_EQ(cu().stream_wait_value32(one, pages.pointer(), 1, 0), Code::kNotSupported);
  EXPECT_EQ(cu().stream_write_value32(one, pages.pointer(), 1, 0), Code::kNotSupported);
}

TEST_F(CudaMisuse, DetectsAMissingContext) {
  Context popped = nullptr;
  ok(cu().ctx_pop_current(&popped));
  Pointer at = 0;
  EXPECT_EQ(cu().mem_alloc(&at, 64), Code::kInvalidContext);
  Context current = context_;
  ok(cu().ctx_get_current(&current));
  EXPECT_EQ(current, nullptr);
  ok(cu().ctx_push_current(context_));
  EXPECT_THAT(expected_misuses(), ElementsAre("cuMemAlloc is called without a current context"));
}

TEST_F(CudaMisuse, AContextThatHasWorkMayNotEnd) {
  const Stream one = stream();
  Pages pages;
  add(pages);
  ok(cu().stream_wait_value32(one, pages.pointer(), 1, tally::cuda::kWaitValueEq));
  ok(cu().primary_ctx_release(0));
  Pointer at = 0;
  EXPECT_EQ(cu().mem_alloc(&at, 64), Code::kInvalidContext);
  EXPECT_THAT(expected_misuses(), ElementsAre(HasSubstr("destroys a context that has work"),
                                              HasSubstr("with a context that is destroyed")));
}

TEST_F(CudaMisuseDeath, AStreamThatWaitsAtTheEndOfTheProcessIsReported) {
  EXPECT_EXIT(
      {
        Pages pages;
        add(pages);
        ok(cu().stream_wait_value32(stream(), pages.pointer(), 1, tally::cuda::kWaitValueEq));
        std::exit(0);
      },
      ::testing::ExitedWithCode(0), "the process ends while stream .* waits until word");
}

TEST_F(CudaMisuseDeath, AForkedChildHasNoCuda) {
  GTEST_FLAG_SET(death_test_style, "fast");  // which forks without exec
  EXPECT_EXIT(std::_Exit(cu().stream_query(nullptr) == Code::kNotInitialized ? 0 : 1),
              ::testing::ExitedWithCode(0), "cuStreamQuery is called in a process that fork");
}

TEST_F(CudaMisuseDeath, MisuseMayAbort) {
  EXPECT_DEATH(
      {
        restart({.abort_on_misuse = true});
        cu().mem_free(64);
      },
      "misuse: cuMemFree");
}

TEST(CudaSettingsDeath, ComeFromTheEnvironment) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  ::setenv("TALLY_TEST_CUDA", "devices=3,bandwidth=1000000000,seed=7,misuse=abort", 1);
  EXPECT_EXIT(
      {
        auto driver = tally::cuda::system_driver();
        int count = 0;
        (*driver)->device_get_count(&count);
        std::exit(count);
      },
      ::testing::ExitedWithCode(3), "");
  ::setenv("TALLY_TEST_CUDA", "device=3", 1);
  EXPECT_DEATH((void)tally::cuda::system_driver(), "no setting device; there are .*devices");
  ::setenv("TALLY_TEST_CUDA", "devices=three", 1);
  EXPECT_DEATH((void)tally::cuda::system_driver(), "devices=three is not a number");
  ::unsetenv("TALLY_TEST_CUDA");
}

}  // namespace
}  // namespace tally::test::cuda
