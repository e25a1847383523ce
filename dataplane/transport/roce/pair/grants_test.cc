#include "dataplane/transport/roce/pair/grants.h"

#include <gtest/gtest.h>

#include <array>
#include <optional>

namespace tally::transport::roce {
namespace {

constexpr Grant::Reads kWants{.outstanding = false, .wanted = true};
constexpr Grant::Reads kReadsAndWants{.outstanding = true, .wanted = true};
constexpr Grant::Reads kReads{.outstanding = true, .wanted = false};
constexpr Grant::Reads kNothing{};
constexpr auto kAll = Grant::Allows::kAll;
constexpr auto kShort = Grant::Allows::kShort;
constexpr auto kLittle = Grant::Allows::kLittle;

struct CountedGrant final : Grant {
  using Grant::Grant;
  void on_given() override { ++given; }
  int given = 0;
};

class GrantsTest : public ::testing::Test {
 public:
  GrantsTest() {
    for (auto& one : all) one.emplace(grants);
  }
  CountedGrant& operator[](std::size_t index) { return *all[index]; }
  // The first four have grants and long READs on their way; the others wait.
  void everyone_wants() {
    for (std::size_t i = 0; i < all.size(); ++i) {
      EXPECT_EQ(all[i]->update(kWants, now), i < 4 ? kAll : kShort);
      EXPECT_EQ(all[i]->waits(), i >= 4);
    }
  }

  Grants grants;
  std::array<std::optional<CountedGrant>, 7> all;
  Nanos now = 1'000'000'000;
};

TEST_F(GrantsTest, FourHaveOneAndTheOthersGetItInTheirOrder) {
  everyone_wants();
  auto& self = *this;
  EXPECT_EQ(self[2].update(kNothing, now), kShort);
  EXPECT_EQ(self[4].given, 1);
  EXPECT_EQ(self[5].given, 0);
  EXPECT_EQ(self[4].update(kWants, now), kAll);
  EXPECT_EQ(self[2].update(kWants, now), kShort) << "behind those that waited";
  for (const std::size_t i : {0, 1, 3}) self[i].update(kNothing, now);
  EXPECT_EQ(self[5].update(kWants, now), kAll);
  EXPECT_EQ(self[6].update(kWants, now), kAll);
  EXPECT_EQ(self[2].update(kWants, now), kAll);
  EXPECT_EQ(self[0].update(kWants, now), kShort) << "four others have one";
}

TEST_F(GrantsTest, StaysWhileNobodyWaits) {
  auto& self = *this;
  EXPECT_EQ(self[0].update(kWants, now), kAll);
  EXPECT_EQ(self[0].update(kReadsAndWants, now + 10 * Grant::kTooLong), kAll);
  EXPECT_EQ(self[0].update(kWants, now + 20 * Grant::kTooLong), kAll);
}

TEST_F(GrantsTest, WhoHasItForLongAsksForNoMoreAndGivesItBackWithTheLastAnswer) {
  everyone_wants();
  auto& self = *this;
  EXPECT_EQ(self[0].update(kReadsAndWants, now + Grant::kLong - 1), kAll);
  EXPECT_EQ(self[0].update(kReadsAndWants, now + Grant::kLong), kShort);
  EXPECT_EQ(self[4].given, 0);
  EXPECT_EQ(self[0].update(kWants, now + Grant::kLong), kShort);
  EXPECT_TRUE(self[0].waits());
  EXPECT_EQ(self[4].given, 1);
  // Its time begins when it sees that it has one.
  now += Grant::kTooLong;
  EXPECT_EQ(self[4].update(kWants, now), kAll);
  EXPECT_EQ(self[4].update(kReadsAndWants, now + Grant::kLong - 1), kAll);
}

TEST_F(GrantsTest, WhoDoesNotAnswerLosesItForAWhile) {
  everyone_wants();
  auto& self = *this;
  now += Grant::kTooLong;
  EXPECT_EQ(self[0].update(kReads, now), kLittle);
  EXPECT_EQ(self[4].given, 1);
  now += Grant::kLeastPause;
  EXPECT_EQ(self[0].update(kWants, now - 1), kLittle);
  EXPECT_FALSE(self[0].waits());
  EXPECT_EQ(self[0].update(kReadsAndWants, now), kShort);
  EXPECT_FALSE(self[0].waits()) << "before all is answered";
  EXPECT_EQ(self[0].update(kWants, now), kShort);
  EXPECT_TRUE(self[0].waits());
}

TEST_F(GrantsTest, TheTimeWithoutDoublesUntilAGrantIsUsedWell) {
  auto& self = *this;
  // [0] has a grant and loses it to [4]. Returns for how long it then does without.
  const auto lose = [&] {
    EXPECT_EQ(self[0].update(kWants, now), kAll);
    for (const std::size_t i : {1, 2, 3, 4}) self[i].update(kWants, now);
    now += Grant::kTooLong;
    EXPECT_EQ(self[0].update(kReads, now), kLittle);
    for (const std::size_t i : {1, 2, 3, 4}) self[i].update(kNothing, now);
    const Nanos lost = now;
    while (self[0].update(kNothing, now) == kLittle) now += Grant::kLeastPause;
    return now - lost;
  };
  EXPECT_EQ(lose(), Grant::kLeastPause);
  EXPECT_EQ(lose(), 2 * Grant::kLeastPause);
  for (int i = 0; i < 10; ++i) lose();
  EXPECT_EQ(lose(), Grant::kMostPause);
  EXPECT_EQ(self[0].update(kWants, now), kAll);
  EXPECT_EQ(self[0].update(kNothing, now), kShort);
  EXPECT_EQ(lose(), Grant::kLeastPause);
}

TEST_F(GrantsTest, WhoEndsHandsItOnOrLeavesTheQueue) {
  everyone_wants();
  auto& self = *this;
  all[4].reset();
  all[1].reset();
  EXPECT_EQ(self[5].given, 1);
  all[5].reset();
  EXPECT_EQ(self[6].given, 1);
  for (auto& one : all) one.reset();
  for (auto& one : all) one.emplace(grants);
  everyone_wants();
}

}  // namespace
}  // namespace tally::transport::roce
