#include "client/session/session_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

namespace tally::client {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class SessionOptionsTest : public ::testing::Test {
 protected:
  SessionOptionsTest() {
    options_.ranks = 4;
    forget();
  }
  ~SessionOptionsTest() override { forget(); }
  static void forget() {
    for (const char* name : {"TALLY_CHECKSUMS", "TALLY_ON_RANK_LOSS", "TALLY_QUORUM"}) {
      ::unsetenv(name);
    }
  }
  static void set(const char* name, const char* value) { ::setenv(name, value, 1); }
  std::string error() {
    SessionOptions options = options_;
    const auto taken = take_defaults(options);
    EXPECT_EQ(taken.status(), Status::kInvalidArgument);
    return taken ? "" : taken.error().message;
  }

  SessionOptions options_;
};

TEST_F(SessionOptionsTest, WithoutAnEnvironmentTheJobEndsWhenARankIsLost) {
  ASSERT_TRUE(take_defaults(options_).ok());
  EXPECT_FALSE(options_.finishes());
  EXPECT_EQ(options_.quorum, 0U);
  EXPECT_EQ(options_.checksums, false);
}

TEST_F(SessionOptionsTest, TheEnvironmentFillsWhatTheOptionsLeaveOpen) {
  set("TALLY_CHECKSUMS", "1");
  set("TALLY_ON_RANK_LOSS", "finish");
  set("TALLY_QUORUM", "3");
  ASSERT_TRUE(take_defaults(options_).ok());
  EXPECT_TRUE(options_.finishes());
  EXPECT_EQ(options_.quorum, 3U);
  EXPECT_EQ(options_.checksums, true);
}

TEST_F(SessionOptionsTest, AnOptionHoldsAgainstTheEnvironment) {
  set("TALLY_ON_RANK_LOSS", "finish");
  set("TALLY_QUORUM", "3");
  options_.on_rank_loss = RankLoss::kFail;
  ASSERT_TRUE(take_defaults(options_).ok());
  EXPECT_FALSE(options_.finishes());
  EXPECT_EQ(options_.quorum, 0U) << "it belongs to the other policy";
  options_.on_rank_loss = RankLoss::kFinish;
  options_.quorum = 4;
  ASSERT_TRUE(take_defaults(options_).ok());
  EXPECT_EQ(options_.quorum, 4U);
}

TEST_F(SessionOptionsTest, WrongValuesAreNamed) {
  set("TALLY_ON_RANK_LOSS", "continue");
  EXPECT_THAT(error(), AllOf(HasSubstr("TALLY_ON_RANK_LOSS=\"continue\""), HasSubstr("finish")));
  set("TALLY_ON_RANK_LOSS", "finish");
  for (const char* wrong : {"5", "-1", "2x", "half", "4294967297"}) {
    set("TALLY_QUORUM", wrong);
    EXPECT_THAT(error(),
                AllOf(HasSubstr(std::string("TALLY_QUORUM=\"") + wrong), HasSubstr("0 to 4")));
  }
  options_.quorum = 5;
  EXPECT_THAT(error(), AllOf(HasSubstr("quorum 5"), HasSubstr("0 to 4")));
}

}  // namespace
}  // namespace tally::client
