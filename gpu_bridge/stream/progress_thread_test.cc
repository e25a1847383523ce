#include "gpu_bridge/stream/progress_thread.h"

#include <gtest/gtest.h>
#include <signal.h>

namespace tally::gpu {
namespace {

TEST(ProgressThread, SleepsAFractionOfItsWait) {
  EXPECT_EQ(sleep_after(0), 20 * kMicrosecond);
  EXPECT_EQ(sleep_after(1600 * kMicrosecond), 100 * kMicrosecond);
  EXPECT_EQ(sleep_after(kSecond), 500 * kMicrosecond);
}

TEST(ProgressThread, WakesAtItsDescriptor) {
  const UniqueFd fd = make_event_fd().value();
  pollfd event{fd.get(), POLLIN, 0};
  make_readable(fd.get());
  make_readable(fd.get());
  sleep_until_event({&event, 1}, 60 * kSecond);
  EXPECT_NE(event.revents & POLLIN, 0);
  make_unreadable(fd.get());
  sleep_until_event({&event, 1}, 0);
  EXPECT_EQ(event.revents, 0);
}

TEST(ProgressThread, HasItsNameAndNoSignals) {
  char name[16] = {};
  bool blocked = false;
  start_progress_thread("tally-test", [&] {
    ::prctl(PR_GET_NAME, name);
    sigset_t mask;
    ::pthread_sigmask(SIG_SETMASK, nullptr, &mask);
    blocked = ::sigismember(&mask, SIGTERM) == 1;
  }).join();
  EXPECT_STREQ(name, "tally-test");
  EXPECT_TRUE(blocked);
}

}  // namespace
}  // namespace tally::gpu
