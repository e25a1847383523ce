#include "dataplane/transport/roce/pair/permits.h"

#include <gtest/gtest.h>

#include <array>
#include <optional>

namespace tally::transport::roce {
namespace {

constexpr auto kAll = Permit::Allows::kAll;
constexpr auto kShort = Permit::Allows::kShort;
constexpr auto kLittle = Permit::Allows::kLittle;

struct CountedPermit final : Permit {
  using Permit::Permit;
  void on_given() override { ++given; }
  int given = 0;
};

class PermitsTest : public ::testing::Test {
 public:
  PermitsTest() {
    for (auto& one : all) one.emplace(permits);
    pass(1'000'000'000);
  }
  void pass(Nanos time) { permits.set_now(now += time); }
  CountedPermit& at(std::size_t index) { return *all[index]; }
  Permit::Allows wants(std::size_t index) { return at(index).update({.waiting = true}); }
  Permit::Allows reads(std::size_t index) {
    return at(index).update({.outstanding = true, .waiting = true});
  }
  Permit::Allows reads_its_last(std::size_t index) {
    return at(index).update({.outstanding = true});
  }
  Permit::Allows has_done(std::size_t index) { return at(index).update({}); }
  // The first four get permits; the others wait.
  void all_want() {
    for (std::size_t i = 0; i < all.size(); ++i) {
      EXPECT_EQ(wants(i), i < 4 ? kAll : kShort);
      EXPECT_EQ(at(i).waits(), i >= 4);
    }
  }

  Permits permits;
  std::array<std::optional<CountedPermit>, 7> all;
  Nanos now = 0;
};

TEST_F(PermitsTest, AreGivenInTheOrderOfTheQuestions) {
  all_want();
  EXPECT_EQ(has_done(2), kShort);
  EXPECT_EQ(at(4).given, 1);
  EXPECT_EQ(at(5).given, 0);
  EXPECT_EQ(wants(4), kAll);
  EXPECT_EQ(wants(2), kShort) << "behind those that waited";
  for (const std::size_t i : {0, 1, 3}) has_done(i);
  for (const std::size_t i : {5, 6, 2}) EXPECT_EQ(wants(i), kAll) << i;
  EXPECT_EQ(wants(0), kShort) << "four others have one";
}

TEST_F(PermitsTest, HoldersKeepThemWhileNobodyWaits) {
  EXPECT_EQ(wants(0), kAll);
  pass(2 * Permits::kMostLimit);
  EXPECT_EQ(reads(0), kAll);
  EXPECT_EQ(wants(0), kAll);
}

TEST_F(PermitsTest, TheLimitBeginsWhenSomebodyWaits) {
  for (std::size_t i = 0; i < 4; ++i) wants(i);
  pass(2 * Permits::kMostLimit);
  EXPECT_EQ(wants(4), kShort);
  pass(Permit::kLong - 1);
  EXPECT_EQ(reads(0), kAll);
  pass(1);
  EXPECT_EQ(reads(0), kShort);
  pass(Permits::kLeastLimit - Permit::kLong - 1);
  EXPECT_EQ(reads(0), kShort);
  pass(1);
  EXPECT_EQ(reads(0), kLittle);
}

TEST_F(PermitsTest, AHolderGivesItBackWithTheLastAnswerOrAfterItsTime) {
  all_want();
  pass(Permit::kLong);
  EXPECT_EQ(reads(0), kShort);
  EXPECT_EQ(at(4).given, 0);
  EXPECT_EQ(wants(0), kShort) << "all is answered, and it has had its time";
  EXPECT_TRUE(at(0).waits());
  EXPECT_EQ(at(4).given, 1);
  pass(Permit::kLong - 1);
  EXPECT_EQ(reads(4), kAll) << "its time began with its permit";
}

TEST_F(PermitsTest, ASlowHolderLosesItForAWhile) {
  all_want();
  pass(Permits::kLeastLimit);
  EXPECT_EQ(reads_its_last(0), kLittle);
  EXPECT_EQ(at(4).given, 1);
  pass(Permit::kLeastPause - 1);
  EXPECT_EQ(wants(0), kLittle);
  EXPECT_FALSE(at(0).waits());
  pass(1);
  EXPECT_EQ(reads(0), kShort);
  EXPECT_FALSE(at(0).waits()) << "before all is answered";
  EXPECT_EQ(wants(0), kShort);
  EXPECT_TRUE(at(0).waits());
}

TEST_F(PermitsTest, TheLimitGrowsWithWhatIsUsual) {
  for (int i = 0; i < 100; ++i) {  // permits last 0.9 ms, as on a link that is slow for all
    for (const std::size_t one : {0, 1, 2, 3, 4}) wants(one);
    pass(900'000);
    for (const std::size_t one : {0, 1, 2, 3, 4}) has_done(one);
  }
  for (const std::size_t one : {0, 1, 2, 3, 4}) wants(one);
  pass(3'000'000);
  EXPECT_EQ(reads(0), kShort);
  pass(700'000);
  EXPECT_EQ(reads(0), kLittle);
}

TEST_F(PermitsTest, SilentPeersRaiseTheLimitToItsBoundAtMost) {
  for (int i = 0; i < 100; ++i) {
    for (const std::size_t one : {0, 1, 2, 3, 4}) wants(one);
    pass(Permits::kMostLimit);
    EXPECT_EQ(reads(0), kLittle) << i;
    all[0].reset();  // lost
    all[0].emplace(permits);
    for (const std::size_t one : {1, 2, 3, 4}) has_done(one);
  }
}

TEST_F(PermitsTest, ThePauseDoublesUntilAPermitIsUsedWell) {
  // Number 0 has a permit and loses it to number 4. Returns how long it then gets none.
  const auto pause = [&] {
    EXPECT_EQ(wants(0), kAll);
    for (const std::size_t i : {1, 2, 3, 4}) wants(i);
    pass(Permits::kMostLimit);
    EXPECT_EQ(reads_its_last(0), kLittle);
    for (const std::size_t i : {1, 2, 3, 4}) has_done(i);
    const Nanos lost = now;
    while (has_done(0) == kLittle) pass(Permit::kLeastPause);
    return now - lost;
  };
  EXPECT_EQ(pause(), Permit::kLeastPause);
  EXPECT_EQ(pause(), 2 * Permit::kLeastPause);
  for (int i = 0; i < 10; ++i) pause();
  EXPECT_EQ(pause(), Permit::kMostPause);
  EXPECT_EQ(wants(0), kAll);
  EXPECT_EQ(has_done(0), kShort);
  EXPECT_EQ(pause(), Permit::kLeastPause);
}

TEST_F(PermitsTest, TheEndOfAConnectionFreesItsPermitOrItsPlace) {
  all_want();
  all[4].reset();
  all[1].reset();
  EXPECT_EQ(at(5).given, 1);
  all[5].reset();
  EXPECT_EQ(at(6).given, 1);
  for (auto& one : all) one.reset();
  for (auto& one : all) one.emplace(permits);
  all_want();
}

}  // namespace
}  // namespace tally::transport::roce
