// The progress of jobs, as the coordinator reports it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/control/coordinator_fixture.h"
#include "tests/support/control/service_fixture.h"
#include "tests/support/control/set_plans.h"

namespace tally::control {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class ProgressTest : public CoordinatorTest {
 protected:
  Coordinator::Progress only() {
    act();
    const auto all = coordinator_->progress();
    EXPECT_EQ(all.size(), 1U);
    return all.empty() ? Coordinator::Progress{} : all[0];
  }
};

TEST_F(ProgressTest, ReportsStagesFromGatheringToEnding) {
  const NodeId a = join("a"), b = join("b");
  EXPECT_THAT(coordinator_->progress(), IsEmpty());
  ASSERT_TRUE(coordinator_->set_plan("", deep(), now_).ok());
  coordinator_->open(1, opening(0, "train", "t", 2, "w0"), now_);
  Coordinator::Progress job = only();
  EXPECT_EQ(job.name, "train");
  EXPECT_EQ(job.stage, "gathering");
  EXPECT_EQ(job.come, 1U);
  EXPECT_EQ(job.ranks, 2U);
  EXPECT_EQ(job.waits_for, "rank 1");
  EXPECT_THAT(job.nodes, IsEmpty());
  coordinator_->open(2, opening(1, "train", "t", 2, "w1"), now_);
  serve(a);
  job = only();
  EXPECT_EQ(job.stage, "placing");
  EXPECT_EQ(job.waits_for, "\"b\"");
  EXPECT_EQ(job.plan_epoch, 5U);
  EXPECT_EQ(job.source, PlanSource::kFile);
  serve(b);
  job = only();
  EXPECT_EQ(job.stage, "running");
  EXPECT_EQ(job.waits_for, "");
  EXPECT_THAT(job.nodes, ElementsAre("a", "b"));
  coordinator_->close(2);
  EXPECT_EQ(only().come, 1U);
  EXPECT_EQ(only().waits_for, "rank 1, not connected to this coordinator");
  coordinator_->report(b, {2, true, ""});
  job = only();
  EXPECT_EQ(job.stage, "ending");
  EXPECT_EQ(job.waits_for, "\"a\"");
}

TEST_F(ProgressTest, ReportsAChangeAsOneJob) {
  const NodeId a = join("a"), b = join("b");
  for (Coordinator::Ticket ticket : {1, 2}) {
    coordinator_->open(ticket, opening(static_cast<std::uint32_t>(ticket - 1)), now_);
  }
  serve(a);
  serve(b);
  act();
  for (Coordinator::Ticket ticket : {1, 2}) coordinator_->listen(ticket);
  const std::uint32_t first = only().epoch;
  EXPECT_EQ(only().source, PlanSource::kClosedForm);
  ASSERT_TRUE(coordinator_->drain("b", false, now_).ok());
  Coordinator::Progress job = only();
  EXPECT_EQ(job.stage, "changing");
  EXPECT_EQ(job.epoch, first);
  EXPECT_THAT(job.waits_for, HasSubstr("\"a\" to take its new trees"));
  serve(a);
  const std::uint32_t next = first + 1;
  const auto both = [&](Change::Report report) {
    act();
    for (Coordinator::Ticket ticket : {1, 2}) coordinator_->report(ticket, next, {report});
  };
  act();
  coordinator_->report(1, next, {Change::Report::kReady});
  EXPECT_THAT(only().waits_for, HasSubstr("waits for rank 1 to make ready"));
  both(Change::Report::kReady);
  both(Change::Report::kKnows);
  both(Change::Report::kMoved);
  job = only();
  EXPECT_EQ(job.epoch, next);
  EXPECT_EQ(job.stage, "changing") << "its old sessions";
  EXPECT_THAT(job.waits_for, HasSubstr("to close their sessions"));
  both(Change::Report::kLeft);
  EXPECT_EQ(coordinator_->progress().back().stage, "running");
}

TEST_F(ProgressTest, ReportsWhyAChangeWasCalledOff) {
  const NodeId a = join("a"), b = join("b");
  for (Coordinator::Ticket ticket : {1, 2}) {
    coordinator_->open(ticket, opening(static_cast<std::uint32_t>(ticket - 1)), now_);
  }
  serve(a);
  serve(b);
  act();
  for (Coordinator::Ticket ticket : {1, 2}) coordinator_->listen(ticket);
  ASSERT_TRUE(coordinator_->drain("b", false, now_).ok());
  coordinator_->report(a, {news(a).placements.at(0).id, false, "no room"});
  act();
  const auto all = coordinator_->progress();
  EXPECT_EQ(all[0].stage, "running");
  EXPECT_THAT(all[0].trouble, HasSubstr("node \"a\": no room"));
}

TEST_F(ServiceTest, ListsJobsBeforeANodeServesThem) {
  ask(1, "cluster.join", node("a"));
  ask(2, "job.open", rank(0));
  const json jobs = ask(3, "cluster.jobs")->result();
  ASSERT_EQ(jobs.size(), 1U);
  EXPECT_EQ(jobs[0], (json{{"name", "train"},
                           {"epoch", 1},
                           {"stage", "placing"},
                           {"ranks", 2},
                           {"come", 1},
                           {"nodes", {"a"}},
                           {"source", "closed form"},
                           {"plan_epoch", 0},
                           {"waits_for", "\"a\""},
                           {"trouble", ""}}));
  EXPECT_THAT(ask(3, "cluster.jobs", {{"colour", 1}})->error(), HasSubstr("unknown"));
}

}  // namespace
}  // namespace tally::control
