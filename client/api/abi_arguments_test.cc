#include "client/api/abi_arguments.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>

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

tally_session_options valid_options() {
  tally_session_options options{};
  options.size = sizeof options;
  options.ranks = 4;
  return options;
}

TEST(AbiArguments, ThePolicyForALostRankIsTheSessions) {
  tally_session_options options = valid_options();
  EXPECT_FALSE(translate(options).on_rank_loss) << "the environment decides";
  options.on_rank_loss = TALLY_RANK_LOSS_FAIL;
  EXPECT_EQ(translate(options).on_rank_loss, RankLoss::kFail);
  options.on_rank_loss = TALLY_RANK_LOSS_FINISH;
  options.quorum = 3;
  EXPECT_TRUE(check(options).ok());
  EXPECT_EQ(translate(options).on_rank_loss, RankLoss::kFinish);
  EXPECT_EQ(translate(options).quorum, 3U);
}

TEST(AbiArguments, RefusesAPolicyThatIsNone) {
  tally_session_options options = valid_options();
  const std::uint32_t wrong = 3;
  std::memcpy(&options.on_rank_loss, &wrong, sizeof wrong);
  const auto refused = check(options);
  EXPECT_EQ(refused.status(), Status::kInvalidArgument);
  EXPECT_TRUE(refused.error().message.starts_with("on_rank_loss 3: must be a tally_rank_loss"));
}

TEST(AbiArguments, ThePaddingOfAnEarlierReleaseIsNoPolicy) {
  constexpr std::size_t kEarlier = offsetof(tally_session_options, quorum);
  static_assert(kEarlier % alignof(tally_session_options) == 0, "as long as the earlier struct");
  tally_session_options options = valid_options();
  options.on_rank_loss = TALLY_RANK_LOSS_FINISH;
  options.quorum = 3;
  tally_session_options read{};
  ASSERT_TRUE(read_options(&options, read).ok());
  EXPECT_EQ(read.on_rank_loss, TALLY_RANK_LOSS_FINISH);
  EXPECT_EQ(read.quorum, 3U);
  options.size = kEarlier;
  ASSERT_TRUE(read_options(&options, read).ok());
  EXPECT_EQ(read.on_rank_loss, TALLY_RANK_LOSS_DEFAULT);
  EXPECT_EQ(read.quorum, 0U);
}

}  // namespace
}  // namespace tally::client
