#include "control/machine/cpu_claims.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "base/system/fd.h"

namespace tally::control {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// CPUs that need not be there: nobody runs on them.
class CpuClaimsTest : public testing::Test {
 protected:
  static CpuClaims node() {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    return CpuClaims(fmt::format("tally-test-{}-{}", ::getpid(), test->name()));
  }
  static bool has_news(const CpuClaims& claims) {
    pollfd entry{claims.fd(), POLLIN, 0};
    return ::poll(&entry, 1, 0) == 1;
  }

  const std::vector<int> four_{0, 1, 2, 3};
};

TEST_F(CpuClaimsTest, TheSecondNodeTakesTheNextOnes) {
  CpuClaims first = node(), second = node();
  EXPECT_THAT(first.take(four_, 2), ElementsAre(0, 1));
  EXPECT_THAT(first.of_others(four_), IsEmpty());
  EXPECT_THAT(second.of_others(four_), ElementsAre(0, 1));
  EXPECT_THAT(second.take(four_, 2), ElementsAre(2, 3));
  EXPECT_THAT(first.of_others(four_), ElementsAre(2, 3));
  EXPECT_FALSE(first.crowded(four_));
}

TEST_F(CpuClaimsTest, AreSharedWhereThereAreNotEnough) {
  CpuClaims first = node(), second = node();
  EXPECT_THAT(first.take(four_, 3), ElementsAre(0, 1, 2));
  EXPECT_THAT(second.take(four_, 2), ElementsAre(3, 0));
  EXPECT_TRUE(first.crowded(four_));
  CpuClaims third = node();
  const std::vector<int> of_its_own{5, 6};
  EXPECT_THAT(third.take(of_its_own, 1), ElementsAre(5));
  EXPECT_FALSE(third.crowded(of_its_own)) << "what it may not use does not concern it";
}

TEST_F(CpuClaimsTest, OneNodeOfMoreShardsThanCpusCrowdsThem) {
  CpuClaims first = node(), second = node();
  EXPECT_THAT(first.take(four_, 5), ElementsAre(0, 1, 2, 3, 0));
  EXPECT_THAT(second.take(four_, 1), ElementsAre(1));
  EXPECT_TRUE(second.crowded(four_));
}

TEST_F(CpuClaimsTest, EndWithTheProcessHoweverItEnds) {
  CpuClaims claims = node();
  CpuClaims other = node();
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const UniqueFd reader(ends[0]), writer(ends[1]);
  const pid_t child = ::fork();
  if (child == 0) {
    other.take(four_, 1);
    static_cast<void>(::write(writer.get(), "x", 1));
    for (;;) ::pause();
  }
  ASSERT_GT(child, 0);
  char byte = 0;
  ASSERT_EQ(::read(reader.get(), &byte, 1), 1);
  EXPECT_THAT(claims.of_others(four_), ElementsAre(0));
  ::kill(child, SIGKILL);
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_THAT(claims.of_others(four_), IsEmpty());
  EXPECT_THAT(claims.take(four_, 1), ElementsAre(0));
}

TEST_F(CpuClaimsTest, ANodeWithAClaimIsNotifiedOfOtherNodes) {
  CpuClaims first = node();
  first.take(four_, 1);
  EXPECT_FALSE(has_news(first)) << "not of itself";
  CpuClaims second = node();
  second.take(four_, 1);
  EXPECT_TRUE(has_news(first));
  EXPECT_FALSE(has_news(second));
  first.read_messages();
  EXPECT_FALSE(has_news(first));
  for (int i = 0; i < 100; ++i) CpuClaims(node()).take(four_, 1);  // nobody waits for a reader
  EXPECT_TRUE(has_news(first));
}

TEST_F(CpuClaimsTest, OneThatIsSharedSettlesWhereNobodyIs) {
  const std::vector<int> two{0, 1};
  CpuClaims first = node(), third = node();
  auto second = std::make_unique<CpuClaims>(node());
  first.take(two, 1);
  second->take(two, 1);
  EXPECT_THAT(third.take(two, 1), ElementsAre(0));
  EXPECT_EQ(third.settle(two), 0) << "there is no better one";
  second.reset();
  EXPECT_TRUE(first.crowded(two));
  EXPECT_EQ(third.settle(two), 1);
  EXPECT_EQ(first.settle(two), 0);
  EXPECT_FALSE(first.crowded(two));
  EXPECT_THAT(first.of_others(two), ElementsAre(1));
}

TEST(UsableCpus, AreThoseOfThisThread) {
  const auto cpus = usable_cpus();
  EXPECT_FALSE(cpus.empty());
  EXPECT_TRUE(std::is_sorted(cpus.begin(), cpus.end()));
}

}  // namespace
}  // namespace tally::control
