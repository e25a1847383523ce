#include "control/node/jobs/admission.h"

#include <gtest/gtest.h>

#include "dataplane/partition/partition.h"
#include "tests/support/control/peers.h"

namespace tally::control {
namespace {

Admission::Applicant trainer(std::uint32_t rank, std::uint32_t ranks = 2, const char* job = "train",
                             const char* token = "secret") {
  return {job, tally::testing::shows(token), rank, ranks};
}

TEST(Admission, TheFirstRankFormsTheJobTheOthersJoinIt) {
  Admission admission({}, {});
  const auto first = admission.admit(trainer(1), 10);
  ASSERT_TRUE(first.ok());
  EXPECT_TRUE(first->is_new);
  const auto second = admission.admit(trainer(0), 11);
  ASSERT_TRUE(second.ok());
  EXPECT_FALSE(second->is_new);
  EXPECT_EQ(second->instance, first->instance);
  EXPECT_EQ(first->instance->members, (std::vector<std::uint32_t>{11, 10}));
}

TEST(Admission, RefusesWithTheReason) {
  Admission admission({.open_jobs = true, .max_jobs = 1, .max_ranks = 4}, {});
  ASSERT_TRUE(admission.admit(trainer(0), 1).ok());
  const auto refused = [&](const Admission::Applicant& who, const char* because) {
    const auto result = admission.admit(who, 2);
    ASSERT_FALSE(result.ok());
    EXPECT_EQ(result.status(), Status::kRefused);
    EXPECT_NE(result.error().message.find(because), std::string::npos) << result.error().message;
  };
  refused(trainer(1, 2, "train", "guess"), "wrong token");
  refused(trainer(1, 3), "has 2 ranks, rank 1 says 3");
  refused(trainer(0, 1), "has 2 ranks, rank 0 says 1");
  refused(trainer(0), "rank 0 is taken by session 1");
  refused(trainer(0, 2, "other"), "max_jobs is 1");
  Admission small({.open_jobs = true, .max_jobs = 9, .max_ranks = 4}, {});
  EXPECT_FALSE(small.admit(trainer(0, 5), 1).ok());
}

TEST(Admission, AJobIsServedByTheShardsWithTheFewestJobs) {
  Admission admission({.shards = 6, .shards_per_job = 4}, {{"heavy", "secret", 3, 0}});
  const auto shards = [&](const char* job) {
    return admission.admit(trainer(0, 2, job), 1)->instance->shards;
  };
  using Shards = std::vector<std::uint32_t>;
  EXPECT_EQ(shards("heavy"), (Shards{0, 1, 2, 3}));
  EXPECT_EQ(shards("a"), (Shards{0, 1, 4, 5}));
  JobInstance& b = *admission.admit(trainer(0, 2, "b"), 1)->instance;
  EXPECT_EQ(b.shards, (Shards{2, 3, 4, 5}));
  ASSERT_EQ(b.vertices_at(4).size(), 1U);
  EXPECT_EQ(b.vertices_at(4)[0].tree, 2U);
  EXPECT_EQ(b.vertices_at(4)[0].ranks.size(), 2U);
  EXPECT_TRUE(b.vertices_at(0).empty());
  Admission few({.shards = 2, .shards_per_job = 4}, {});
  EXPECT_EQ(few.admit(trainer(0), 1)->instance->shards, (Shards{0, 1}));
}

TEST(Admission, ASessionThatPassesTheLimitOfDescriptorsIsRefused) {
  Admission admission({.shards = 1, .max_descriptors = 140}, {});
  ASSERT_TRUE(admission.admit(trainer(0), 1).ok());
  ASSERT_TRUE(admission.admit(trainer(0, 2, "other"), 2).ok());
  ASSERT_TRUE(admission.admit(trainer(1), 3).ok());
  ASSERT_TRUE(admission.admit(trainer(0, 1, "third"), 4).ok());
  const auto fifth = admission.admit(trainer(0, 1, "fourth"), 5);
  ASSERT_FALSE(fifth.ok());
  EXPECT_NE(fifth.error().message.find("has 4 sessions of 3 descriptors each, and may open 140"),
            std::string::npos)
      << fifth.error().message;
  EXPECT_EQ(admission.instances().size(), 3u) << "a job that was refused is not there";
}

TEST(Admission, ConfiguredJobsAreHeldToTheirConfiguration) {
  Admission admission({.open_jobs = false}, {{"train", "secret", 3, 2}});
  EXPECT_FALSE(admission.admit(trainer(0, 2, "other"), 1).ok()) << "not open";
  EXPECT_FALSE(admission.admit(trainer(0, 2, "train", ""), 1).ok()) << "no token";
  EXPECT_FALSE(admission.admit(trainer(0, 3), 1).ok()) << "other ranks";
  const auto admitted = admission.admit(trainer(0), 1);
  ASSERT_TRUE(admitted.ok());
  EXPECT_EQ(admitted->instance->weight, 3u);
}

TEST(Admission, AJobFormsAgainWhileTheOldInstanceWindsDown) {
  Admission admission({}, {});
  JobInstance& old = *admission.admit(trainer(0), 1)->instance;
  ASSERT_TRUE(admission.admit(trainer(1), 2).ok());
  EXPECT_FALSE(admission.leave(old, 1));
  const auto again = admission.admit(trainer(1), 3);
  ASSERT_TRUE(again.ok());
  EXPECT_TRUE(again->is_new);
  EXPECT_EQ(again->instance->epoch, old.epoch + 1);
  EXPECT_NE(again->instance->job_id, old.job_id);
  EXPECT_TRUE(admission.leave(old, 0));
  admission.release(old);
  EXPECT_EQ(admission.instances().size(), 1u);
}

TEST(Admission, RanksOfLargeJobsShareTheCredit) {
  Admission admission({.credit = 256, .job_credit = 15'360}, {});
  const auto credit = [&](std::uint32_t ranks) {
    return admission.admit(trainer(0, ranks, std::to_string(ranks).c_str()), 1)->instance->credit;
  };
  EXPECT_EQ(credit(1), 256U);
  EXPECT_EQ(credit(60), 256U);
  EXPECT_EQ(credit(256), 60U);
  EXPECT_EQ(credit(1024), 28U);
  Admission little({.credit = 4}, {});
  EXPECT_EQ(little.admit(trainer(0, 1024), 1)->instance->credit, 4U);
}

TEST(Admission, WhatTheShardsReserveIsBounded) {
  Admission admission({.max_table_bytes = 64 << 20, .shards = 2, .job_credit = 1 << 20}, {});
  ASSERT_TRUE(admission.admit(trainer(0, 64, "small"), 1).ok());
  const auto refused = admission.admit(trainer(0, 1024, "large"), 2);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("lower shards.job_credit"), std::string::npos);
  EXPECT_NE(refused.error().message.find("limits.max_table_bytes 67108864"), std::string::npos)
      << refused.error().message;
}

// The defaults are for large jobs, too: four shards serve this one.
TEST(Admission, AJobOfAThousandRanksFits) {
  Admission admission({.shards = 4}, {});
  const auto admitted = admission.admit(trainer(0, 1024), 1);
  ASSERT_TRUE(admitted.ok()) << admitted.error().message;
  EXPECT_GT(admitted->instance->table_bytes, std::uint64_t{1} << 20);
  EXPECT_LT(admitted->instance->table_bytes, AdmissionLimits{}.max_table_bytes / 4);
  RecordProperty("table_mib", static_cast<int>(admitted->instance->table_bytes >> 20));
}

TEST(Admission, AnInstanceThatIsOverTakesNoJobsPlace) {
  Admission admission({.max_jobs = 1}, {});
  JobInstance& old = *admission.admit(trainer(0), 1)->instance;
  ASSERT_TRUE(admission.admit(trainer(1), 2).ok());
  admission.leave(old, 1);
  EXPECT_TRUE(admission.admit(trainer(1), 3).ok());
}

TEST(Admission, EpochsAreOnlyForCallersThatMayEnterTheJob) {
  Admission admission({}, {});
  ASSERT_TRUE(admission.admit(trainer(0), 1).ok());
  auto applicant = trainer(1);
  applicant.epoch = 7;
  EXPECT_EQ(admission.unlocks(applicant).status(), Status::kStaleEpoch);
  applicant.caller = tally::testing::shows("another");
  EXPECT_EQ(admission.unlocks(applicant).status(), Status::kRefused);
}

// One shard sums and hands the results down.
TEST(Admission, ANodeWithTheRootOfSumsHasThatOfTheirResultsToo) {
  JobAssignment placement{.job = "train", .ranks = 2};
  placement.plan = protocol::even_partition(1, 0);
  placement.plan.trees = 2;
  placement.plan.result_trees = {1};
  for (const std::uint32_t tree : {0U, 1U}) {
    placement.trees.push_back(tree);
    placement.vertices.push_back({.tree = tree, .ranks = {0, 1}});
  }
  for (const std::size_t missing : {0U, 1U}) {
    JobAssignment half = placement;
    half.trees.erase(half.trees.begin() + static_cast<std::ptrdiff_t>(missing));
    half.vertices.erase(half.vertices.begin() + static_cast<std::ptrdiff_t>(missing));
    const auto placed = Admission({}, {}).place(half, 0);
    ASSERT_FALSE(placed.ok()) << missing;
    EXPECT_NE(placed.error().message.find("not that of its results"), std::string::npos)
        << placed.error().message;
  }
  const auto placed = Admission({}, {}).place(placement, 0);
  EXPECT_TRUE(placed.ok()) << placed.error().message;
}

TEST(Admission, JobsOfOneOwnerHaveOneNumber) {
  Admission admission({}, {{"named", "secret", 3, 0}});
  std::uint32_t session = 0;
  const auto open = [&](const char* job, const char* owner) -> JobInstance& {
    auto applicant = trainer(0, 2, job);
    applicant.owner = owner;
    return *admission.admit(applicant, ++session)->instance;
  };
  JobInstance& first = open("first", "uid 7");
  const protocol::OwnerId number = first.owner_number;
  EXPECT_NE(number, protocol::kNoOwner);
  EXPECT_EQ(open("second", "uid 7").owner_number, number);
  EXPECT_NE(open("third", "10.0.0.7").owner_number, number);
  EXPECT_EQ(open("named", "uid 7").owner_number, protocol::kNoOwner) << "it has its own share";
  EXPECT_EQ(open("unknown", "").owner_number, protocol::kNoOwner);
  ASSERT_TRUE(admission.leave(first, 0));
  admission.release(first);
  EXPECT_EQ(open("fourth", "uid 7").owner_number, number) << "its second job is there still";
}

}  // namespace
}  // namespace tally::control
