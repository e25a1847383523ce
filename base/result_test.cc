#include "base/result.h"

#include <gtest/gtest.h>

#include <memory>

namespace tally {
namespace {

Result<std::unique_ptr<int>> make(bool good) {
  if (!good) return Error{Status::kNoMemory, "no memory for an int"};
  return std::make_unique<int>(7);
}

TEST(Result, HoldsAMoveOnlyValue) {
  auto made = make(true);
  ASSERT_TRUE(made.ok());
  EXPECT_EQ(made.status(), Status::kOk);
  std::unique_ptr<int> taken = std::move(made).value();
  EXPECT_EQ(*taken, 7);
}

TEST(Result, HoldsAnErrorWithItsMessage) {
  auto made = make(false);
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.status(), Status::kNoMemory);
  EXPECT_EQ(made.error().message, "no memory for an int");
}

TEST(Status, EveryCodeHasANameOfItsOwn) {
  for (std::uint16_t a = 0; a < kStatusCount; ++a) {
    const auto name = status_name(static_cast<Status>(a));
    EXPECT_FALSE(name.empty());
    EXPECT_NE(name, "unknown status");
    for (std::uint16_t b = 0; b < a; ++b) EXPECT_NE(name, status_name(static_cast<Status>(b)));
  }
  EXPECT_EQ(status_name(static_cast<Status>(kStatusCount)), "unknown status");
}

}  // namespace
}  // namespace tally
