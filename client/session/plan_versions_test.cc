#include "client/session/plan_versions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "tests/support/client/recorded_version.h"

namespace tally::client {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

class PlanVersionsTest : public ::testing::Test {
 protected:
  static std::string path(const char* name) {
    return "/tmp/tally-plan-versions-" + std::to_string(::getpid()) + "-" + name + ".sock";
  }
  static json answer(const std::string&, const json&) { return {{"result", json::object()}}; }

  ScriptedNode a_{path("a"), answer}, b_{path("b"), answer};
  RecordedVersion first_{a_, 3}, second_{b_, 4};
  PlanVersions versions_{std::move(first_.version)};
  PlanSwitch plans_;
};

TEST_F(PlanVersionsTest, NextCarriesNewRoundsAfterTheChange) {
  PlanVersion& next = versions_.add_next(std::move(second_.version));
  ASSERT_EQ(RecordedVersion::post(versions_.now(), 7), 0U);
  EXPECT_EQ(versions_.all().count, 2U);
  EXPECT_EQ(versions_.books(plans_).old, nullptr);
  plans_.hold();
  plans_.know({{7, 3}, {8, 0}, {9, 2}});
  versions_.go_over(plans_);
  EXPECT_EQ(&versions_.now(), &next);
  EXPECT_EQ(versions_.next(), nullptr);
  ASSERT_NE(versions_.old(), nullptr);
  EXPECT_EQ(versions_.old()->config.epoch, 3U);
  EXPECT_EQ(next.book.next_round(7), 3U) << "rounds 1 and 2 are the old version's";
  EXPECT_EQ(next.book.next_round(9), 2U) << "this rank has not posted it yet";
  EXPECT_EQ(versions_.books(plans_).old, &versions_.old()->book);
  versions_.remove(*versions_.old());
  EXPECT_EQ(versions_.old(), nullptr);
  EXPECT_EQ(&versions_.now(), &next);
}

TEST_F(PlanVersionsTest, CountsTheOperationsOfBothVersions) {
  versions_.add_next(std::move(second_.version));
  RecordedVersion::post(versions_.now(), 7, 50);
  plans_.hold();
  plans_.know({});
  versions_.go_over(plans_);
  RecordedVersion::post(versions_.now(), 9, 80);
  EXPECT_EQ(versions_.outstanding(), 2U);
  EXPECT_TRUE(versions_.outstanding(7));
  EXPECT_TRUE(versions_.outstanding(9));
  EXPECT_FALSE(versions_.outstanding(8));
  EXPECT_EQ(versions_.earliest_until(0), 50);
  EXPECT_THAT(versions_.overdue_nodes(60), HasSubstr(a_.address()));
  EXPECT_EQ(versions_.overdue_nodes(60).find(b_.address()), std::string::npos);
  EXPECT_FALSE(versions_.has_finished());
  versions_.abandon(Status::kNodeLost);
  EXPECT_EQ(versions_.outstanding(), 0U);
  EXPECT_TRUE(versions_.has_finished());
}

TEST_F(PlanVersionsTest, AVersionThatIsNotTakenIsRemoved) {
  PlanVersion& next = versions_.add_next(std::move(second_.version));
  EXPECT_EQ(versions_.next(), &next);
  versions_.remove(next);
  EXPECT_EQ(versions_.next(), nullptr);
  EXPECT_EQ(versions_.now().config.epoch, 3U);
}

TEST_F(PlanVersionsTest, IsFencedOnceAllNodesAre) {
  versions_.add_next(std::move(second_.version));
  EXPECT_TRUE(versions_.fence(0));
  second_.connection->fenced = false;
  EXPECT_FALSE(versions_.fence(0));
}

}  // namespace
}  // namespace tally::client
