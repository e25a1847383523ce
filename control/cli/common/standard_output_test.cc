#include "control/cli/common/standard_output.h"

#include <gtest/gtest.h>

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
    const test::FullStdout full;
    ::testing::internal::CaptureStderr();
    EXPECT_FALSE(print_out(std::string(bytes, 'x'), "tool"));
    EXPECT_EQ(::testing::internal::GetCapturedStderr(),
              "tool: stdout: cannot be written: No space left on device\n");
    const auto written = write_stdout("x");
    ASSERT_FALSE(written.ok());
    EXPECT_EQ(written.error().message, "stdout: cannot be written: No space left on device");
  }
}

}  // namespace
}  // namespace tally::control
