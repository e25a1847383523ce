#include "control/cli/common/standard_output.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <string>

#include "tests/support/full_stdout.h"

namespace tally::control {
namespace {

TEST(StandardOutput, PrintsTheText) {
  ::testing::internal::CaptureStdout();
  EXPECT_TRUE(print_out("a\n", "tool"));
  EXPECT_TRUE(write_stdout("b\n").ok());
  EXPECT_EQ(::testing::internal::GetCapturedStdout(), "a\nb\n");
}

// A long text is written at once, and a short one when it is flushed.
TEST(StandardOutput, ReportsAFullDisk) {
  for (const std::size_t bytes : {1, 1 << 20}) {
    const test::StdoutTo full = test::full_stdout();
    ::testing::internal::CaptureStderr();
    EXPECT_FALSE(print_out(std::string(bytes, 'x'), "tool"));
    EXPECT_EQ(::testing::internal::GetCapturedStderr(),
              "tool: stdout: cannot be written: No space left on device\n");
    const auto written = write_stdout("x");
    ASSERT_FALSE(written.ok());
    EXPECT_EQ(written.error().message, "stdout: cannot be written: No space left on device");
  }
}

TEST(StandardOutput, AClosedPipeIsNoError) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const test::StdoutTo pipe{UniqueFd(ends[1])};
  EXPECT_FALSE(is_unread());
  ::close(ends[0]);
  EXPECT_TRUE(is_unread());
  ::signal(SIGPIPE, SIG_IGN);
  ::testing::internal::CaptureStderr();
  EXPECT_TRUE(print_out("x", "tool"));
  EXPECT_TRUE(write_stdout("x").ok());
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
  ::signal(SIGPIPE, SIG_DFL);
}

}  // namespace
}  // namespace tally::control
