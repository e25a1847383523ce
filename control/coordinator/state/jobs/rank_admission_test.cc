#include "control/coordinator/state/jobs/rank_admission.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/control/peers.h"
#include "tests/support/control/placed_jobs.h"

namespace tally::control {
namespace {

using tally::testing::shows;

using ::testing::HasSubstr;

class RankAdmissionTest : public ::testing::Test {
 protected:
  std::string refusal(const Opening& opening) const {
    const auto may = RankAdmission(rules_).admits(opening, jobs_);
    return may ? "" : may.error().message;
  }

  MemoryStore store_;
  JobTable jobs_{store_};
  AdmissionRules rules_{true, 2, 4, {{"bert", "secret", 7, 3}}};
};

TEST_F(RankAdmissionTest, ARankEntersByTheJobsTokenAndAFreePlace) {
  jobs_.add(job_record(1, {})).stage = JobStage::kRunning;
  jobs_.take_place(11, 1, 0, "");
  EXPECT_EQ(refusal({"train", shows("t"), 1, 2}), "");
  EXPECT_EQ(refusal({"train", shows("u"), 1, 2}), "job \"train\": wrong token");
  EXPECT_EQ(refusal({"train", shows("t"), 1, 3}), "job \"train\" has 2 ranks, rank 1 says 3");
  EXPECT_THAT(refusal({"train", shows("t"), 0, 2}), HasSubstr("rank 0 is taken"));
}

TEST_F(RankAdmissionTest, ARankOfADesertedJobAsksAgain) {
  JobState& state = jobs_.add(job_record(1, {}));
  state.stage = JobStage::kRunning;
  jobs_.take_place(11, 1, 0, "");
  const RankAdmission admission(rules_);
  EXPECT_EQ(admission.admits({"train", shows("t"), 0, 2}, jobs_).error().status, Status::kRefused);
  state.departed = {1, "has left"};
  EXPECT_EQ(admission.admits({"train", shows("t"), 0, 2}, jobs_).error().status,
            Status::kStaleEpoch);
}

TEST_F(RankAdmissionTest, ARankResumesAVersionThatItHas) {
  jobs_.add(job_record(4, {})).stage = JobStage::kLeaving;
  JobState& state = jobs_.add(job_record(5, {}));
  const RankAdmission admission(rules_);
  const auto resume = [&](const char* token, std::uint32_t rank, std::uint32_t ranks,
                          const std::vector<std::uint32_t>& epochs) {
    return admission.may_resume({"train", shows(token), rank, ranks}, epochs, jobs_);
  };
  for (const JobStage stage : {JobStage::kRunning, JobStage::kRepairing}) {
    state.stage = stage;
    EXPECT_EQ(resume("t", 1, 2, {4, 5}).value(), 5U);
    EXPECT_EQ(resume("t", 1, 2, {5, 0}).value(), 5U);
    EXPECT_EQ(resume("t", 1, 2, {4, 0}).status(), Status::kStaleEpoch);
    EXPECT_EQ(resume("t", 1, 3, {5, 0}).status(), Status::kStaleEpoch);
    EXPECT_EQ(resume("u", 1, 2, {5, 0}).status(), Status::kRefused);
  }
  state.stage = JobStage::kPlacing;
  EXPECT_EQ(resume("t", 1, 2, {5, 0}).status(), Status::kStaleEpoch);
  state.stage = JobStage::kRunning;
  jobs_.take_place(11, 5, 1, "");
  EXPECT_EQ(resume("t", 1, 2, {5, 0}).status(), Status::kUnavailable);
  state.stage = JobStage::kOver;
  EXPECT_EQ(resume("t", 0, 2, {4, 5}).status(), Status::kStaleEpoch);
}

TEST_F(RankAdmissionTest, AJobFormsWithinTheConfigurationAndTheLimits) {
  EXPECT_EQ(refusal({"bert", shows("t"), 0, 3}), "job \"bert\": wrong token");
  EXPECT_EQ(refusal({"bert", shows("secret"), 0, 2}),
            "job \"bert\" is configured with 3 ranks, rank 0 says 2");
  EXPECT_EQ(refusal({"bert", shows("secret"), 0, 3}), "");
  EXPECT_EQ(refusal({"wide", shows(""), 0, 5}), "job \"wide\": 5 ranks, max_ranks is 4");
  EXPECT_EQ(refusal({"wide", shows(""), 0, 4}), "");
  rules_.open_jobs = false;
  EXPECT_THAT(refusal({"wide", shows(""), 0, 4}), HasSubstr("not configured at the coordinator"));
  EXPECT_EQ(refusal({"bert", shows("secret"), 0, 3}), "");
}

TEST_F(RankAdmissionTest, JobsThatAreOverCountUntilTheirNodesDropThem) {
  jobs_.add(job_record(1, {}, "a"));
  jobs_.add(job_record(2, {}, "b"));
  EXPECT_EQ(refusal({"c", shows(""), 0, 1}),
            "job \"c\": the coordinator has 2 jobs and max_jobs is 2");
  for (std::uint32_t epoch = 3; epoch <= 8; ++epoch) jobs_.add(job_record(epoch, {}));
  for (auto& [epoch, state] : jobs_.states()) state.stage = JobStage::kOver;
  EXPECT_THAT(refusal({"c", shows(""), 0, 1}), HasSubstr("8 jobs are over"));
  jobs_.erase(8);
  EXPECT_EQ(refusal({"c", shows(""), 0, 1}), "");
}

TEST_F(RankAdmissionTest, OnlyAJobOfNoConfigurationHasAnOwner) {
  const RankAdmission admission(rules_);
  const JobRecord open = admission.new_job({"train", shows("t"), 0, 2, "", "me"}, 5);
  EXPECT_EQ(open.epoch, 5U);
  EXPECT_EQ(open.weight, 1U);
  EXPECT_EQ(open.owner, "me");
  const JobRecord configured = admission.new_job({"bert", shows("secret"), 0, 3, "", "me"}, 6);
  EXPECT_EQ(configured.weight, 7U);
  EXPECT_EQ(configured.owner, "");
}

}  // namespace
}  // namespace tally::control
