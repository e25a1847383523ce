#include "client/api/abi_arguments.h"

#include <gtest/gtest.h>

#include <cstddef>

#include "client/api/abi_structs.h"

namespace tally::client {
namespace {

tally_completion translated(const Completed& completed, std::size_t size) {
  tally_completion completion{};
  completion.size = size;
  completion.contributors = 77;
  translate(completed, &completion);
  return completion;
}

TEST(AbiArguments, ASuccessNamesTheRanksThatAreLeftOut) {
  Completed completed;
  completed.contributors = 4;
  const tally_completion all = translated(completed, sizeof all);
  EXPECT_EQ(all.contributors, 4U);
  EXPECT_STREQ(all.message, "");
  completed.contributors = 2;
  completed.left_out = make_left_out({1, 3});
  const tally_completion fewer = translated(completed, sizeof fewer);
  EXPECT_EQ(fewer.contributors, 2U);
  EXPECT_STREQ(fewer.message, "without ranks 1 and 3");
}

TEST(AbiArguments, ACallerOfTheFirstReleaseGetsNoContributors) {
  Completed completed;
  completed.contributors = 2;
  completed.message = "why";
  constexpr std::size_t kFirst = offsetof(tally_completion, contributors);
  static_assert(kFirst == 280, "the length in the first release");
  const auto completion = translated(completed, kFirst);
  EXPECT_EQ(completion.contributors, 77U) << "not the library's to write";
  EXPECT_STREQ(completion.message, "why");
  EXPECT_TRUE(check_struct(&completion).ok());
}

}  // namespace
}  // namespace tally::client
