#include "perf/run/progress.h"

#include <gtest/gtest.h>

#include <string>

namespace tally::perf {
namespace {

TEST(Progress, LineOfABar) {
  EXPECT_EQ(progress_line("a", 0, 10), "a [" + std::string(40, ' ') + "]   0%");
  EXPECT_EQ(progress_line("a", 5, 10),
            "a [" + std::string(20, '#') + std::string(20, ' ') + "]  50%");
  EXPECT_EQ(progress_line("a", 11, 10), "a [" + std::string(40, '#') + "] 100%");
  EXPECT_EQ(progress_line("a", 0, 0), "a [" + std::string(40, ' ') + "]   0%");
}

}  // namespace
}  // namespace tally::perf
