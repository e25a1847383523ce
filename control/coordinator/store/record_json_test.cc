#include "control/coordinator/store/record_json.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "control/coordinator/records/job_assignment.h"
#include "control/coordinator/state/jobs/assignment_of.h"
#include "tests/support/control/coordinator_fixture.h"
#include "tests/support/control/set_plans.h"

namespace tally::control {
namespace {

class RecordJsonTest : public CoordinatorTest {
 protected:
  // Reads the job's text, and expects that its nodes would get the same assignments.
  void expect_same(const JobRecord& job) {
    const auto read = read_job(job_text(job), store_.plans());
    ASSERT_NE(read, nullptr) << job_text(job);
    EXPECT_EQ(job_text(*read), job_text(job));
    EXPECT_EQ(read->plan, job.plan);
    ASSERT_EQ(read->nodes.size(), job.nodes.size());
    for (std::size_t i = 0; i < job.nodes.size(); ++i) {
      EXPECT_EQ(to_json(assignment_of(*read, read->nodes[i])),
                to_json(assignment_of(job, job.nodes[i])));
    }
  }
};

TEST_F(RecordJsonTest, JobsOfEachKindOfPlanAreReadBack) {
  for (const char* name : {"a", "b", "c"}) join(name);
  coordinator_->open(1, opening(0), now_);
  ASSERT_TRUE(coordinator_->set_plan("", stars(5), now_).ok());
  coordinator_->open(2, opening(0, "by a plan"), now_);
  act();
  ASSERT_EQ(store_.jobs().size(), 2U);
  for (const auto& [epoch, job] : store_.jobs()) expect_same(*job);
  const auto& by_plan = store_.jobs().rbegin()->second;
  EXPECT_EQ(read_job(job_text(*by_plan), store_.plans())->made_by, by_plan->made_by)
      << "a plan that is still in force is the same one";
  JobRecord unplaced;
  unplaced.name = "gathers";
  expect_same(unplaced);
}

TEST_F(RecordJsonTest, TheRanksThatAJobLeavesOutAreReadBack) {
  join("a");
  auto wish = opening(0, "train", "t", 3);
  wish.rank_loss = {.finishes = true, .quorum = 2};
  coordinator_->open(1, wish, now_);
  JobRecord job = *store_.jobs().begin()->second;
  job.left_out = {1};
  for (protocol::Vertex& vertex : job.nodes.at(0).vertices) vertex.ranks = {0, 2};
  expect_same(job);
  const auto read = read_job(job_text(job), {});
  EXPECT_EQ(read->rank_loss, wish.rank_loss);
  EXPECT_EQ(read->left_out, job.left_out);
}

TEST_F(RecordJsonTest, AJobsKeyIsReadBack) {
  join("a");
  coordinator_->open(1, opening(0), now_);
  const JobRecord& job = *store_.jobs().begin()->second;
  const auto read = read_job(job_text(job), {});
  ASSERT_TRUE(read != nullptr && job.lock.key && read->lock.key);
  EXPECT_EQ(read->lock.key->identity, job.lock.key->identity);
  EXPECT_EQ(read->lock.digest, job.lock.digest);
}

TEST_F(RecordJsonTest, ChangedTextsAreRefusedOrValid) {
  for (const char* name : {"a", "b"}) join(name);
  ASSERT_TRUE(coordinator_->set_plan("", stars(5), now_).ok());
  coordinator_->open(1, opening(0), now_);
  act();
  const std::string text = job_text(*store_.jobs().begin()->second);
  const auto document = nlohmann::json::parse(text);
  const auto flat = document.flatten();
  for (const auto& [path, value] : flat.items()) {
    for (const nlohmann::json& wrong : {nlohmann::json(-1), nlohmann::json("x"),
                                        nlohmann::json(1ULL << 40), nlohmann::json::array()}) {
      auto changed = document;
      changed[nlohmann::json::json_pointer(path)] = wrong;
      const auto read = read_job(changed.dump(), {});
      if (read != nullptr) job_text(*read);
    }
  }
  EXPECT_EQ(read_job("", {}), nullptr);
  EXPECT_EQ(read_job("[]", {}), nullptr);
  EXPECT_EQ(read_job("{}", {}), nullptr);
}

TEST_F(RecordJsonTest, MembersSpeedsAndPlansAreReadBack) {
  Member one = member("a", 3, 77, Role::kWorker);
  one.local = "unix:/a";
  one.measured = {5, 6, {"r8", 7, 8}};
  one.rack = {"r7", 0, 9};
  one.draining = true;
  one.rails = {{"10.0.0.1", "tcp:10.0.0.1:1", 9, 3, true}};
  const auto read = read_member(member_text(one));
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(member_text(*read), member_text(one));
  EXPECT_EQ(read->rails, one.rails);
  EXPECT_TRUE(read->draining);
  EXPECT_EQ(read->rack.down, 9U);
  EXPECT_EQ(read->known_rack().name, "r8");
  const auto speeds = read_speeds(speeds_text({{"a", {1, 2, {"r", 3, 4}}}}));
  ASSERT_TRUE(speeds.has_value());
  EXPECT_EQ(speeds->at("a").sum, 2U);
  EXPECT_EQ(speeds->at("a").rack.up, 3U);
  for (const PlanSource source : {PlanSource::kFile, PlanSource::kClosedForm, PlanSource::kRacks}) {
    const SetPlan plan{"train", stars(9), source};
    const auto again = read_set_plan(set_plan_text(plan));
    ASSERT_NE(again, nullptr);
    EXPECT_EQ(again->source, source);
    EXPECT_EQ(set_plan_text(*again), set_plan_text(plan));
  }
  for (const char* text : {"", "{}", "[1]", "{\"name\": 1}"}) {
    EXPECT_FALSE(read_member(text).has_value());
    EXPECT_EQ(read_set_plan(text), nullptr);
  }
}

}  // namespace
}  // namespace tally::control
