#include "control/admission.h"

#include <gtest/gtest.h>

#include "dataplane/protocol/cut.h"

namespace tally::control {
namespace {

Admission::Applicant trainer(std::uint32_t rank, std::uint32_t ranks = 2, const char* job = "train",
                             const char* token = "secret") {
  return {job, token, rank, ranks};
}

TEST(Admission, TheFirstRankFormsTheJobTheOthersJoinIt) {
  Admission admission({}, {});
  const auto first = admission.admit(trainer(1), 10);
  ASSERT_TRUE(first.ok());
  EXPECT_TRUE(first->is_new);
  const auto second = admission.admit(trainer(0), 11);
  ASSERT_TRUE(second.ok());
  EXPECT_FALSE(second->is_new);
  EXPECT_EQ(second->forming, first->forming);
  EXPECT_EQ(first->forming->members, (std::vector<std::uint32_t>{11, 10}));
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
  refused(trainer(0), "rank 0 is taken by session 1");
  refused(trainer(0, 2, "other"), "max_jobs is 1");
  Admission small({.open_jobs = true, .max_jobs = 9, .max_ranks = 4}, {});
  EXPECT_FALSE(small.admit(trainer(0, 5), 1).ok());
}

TEST(Admission, AJobIsServedByTheShardsWithTheFewestJobs) {
  Admission admission({.shards = 6, .shards_per_job = 4}, {{"heavy", "secret", 3, 0}});
  const auto shards = [&](const char* job) {
    return admission.admit(trainer(0, 2, job), 1)->forming->shards;
  };
  using Shards = std::vector<std::uint32_t>;
  EXPECT_EQ(shards("heavy"), (Shards{0, 1, 2, 3}));
  EXPECT_EQ(shards("a"), (Shards{0, 1, 4, 5}));
  Forming& b = *admission.admit(trainer(0, 2, "b"), 1)->forming;
  EXPECT_EQ(b.shards, (Shards{2, 3, 4, 5}));
  ASSERT_EQ(b.vertices_at(4).size(), 1U);
  EXPECT_EQ(b.vertices_at(4)[0].tree, 2U);
  EXPECT_EQ(b.vertices_at(4)[0].ranks.size(), 2U);
  EXPECT_TRUE(b.vertices_at(0).empty());
  Admission few({.shards = 2, .shards_per_job = 4}, {});
  EXPECT_EQ(few.admit(trainer(0), 1)->forming->shards, (Shards{0, 1}));
}

// Where the kernel would say no to everybody, the node says it to the one who asks.
TEST(Admission, TheKernelsLimitsAreSaidEarly) {
  Admission admission({.max_regions = 2, .shards = 1, .max_mappings = 5, .max_descriptors = 140},
                      {});
  Forming& first = *admission.admit(trainer(0), 1)->forming;
  Forming& second = *admission.admit(trainer(0, 2, "other"), 2)->forming;
  const auto refused = [](const Outcome& outcome, const char* because) {
    ASSERT_FALSE(outcome);
    EXPECT_EQ(outcome.status(), Status::kRefused);
    EXPECT_NE(outcome.error().message.find(because), std::string::npos) << outcome.error().message;
  };
  EXPECT_TRUE(admission.reserve(first, 4096));
  EXPECT_TRUE(admission.reserve(first, 4096));
  refused(admission.reserve(first, 4096), "has 2 regions and limits.max_regions is 2");
  EXPECT_TRUE(admission.reserve(second, 4096));
  refused(admission.reserve(second, 4096),
          "has 5 mappings for the regions of all jobs and may have 5");
  Admission::give_back(first, 4096);
  EXPECT_TRUE(admission.reserve(second, 4096));

  ASSERT_TRUE(admission.admit(trainer(1), 3).ok());
  ASSERT_TRUE(admission.admit(trainer(0, 1, "third"), 4).ok());
  const auto fifth = admission.admit(trainer(0, 1, "fourth"), 5);
  ASSERT_FALSE(fifth.ok());
  EXPECT_NE(fifth.error().message.find("has 4 sessions of 3 descriptors each, and may open 140"),
            std::string::npos)
      << fifth.error().message;
  EXPECT_EQ(admission.formings().size(), 3u) << "a job that was refused is not there";
}

TEST(Admission, ConfiguredJobsAreHeldToTheirConfiguration) {
  Admission admission({.open_jobs = false}, {{"train", "secret", 3, 2}});
  EXPECT_FALSE(admission.admit(trainer(0, 2, "other"), 1).ok()) << "not open";
  EXPECT_FALSE(admission.admit(trainer(0, 2, "train", ""), 1).ok()) << "no token";
  EXPECT_FALSE(admission.admit(trainer(0, 3), 1).ok()) << "other ranks";
  const auto admitted = admission.admit(trainer(0), 1);
  ASSERT_TRUE(admitted.ok());
  EXPECT_EQ(admitted->forming->weight, 3u);
}

TEST(Admission, AJobFormsAgainWhileTheOldFormingWindsDown) {
  Admission admission({}, {});
  Forming& old = *admission.admit(trainer(0), 1)->forming;
  ASSERT_TRUE(admission.admit(trainer(1), 2).ok());
  EXPECT_FALSE(admission.leave(old, 1));
  const auto again = admission.admit(trainer(1), 3);
  ASSERT_TRUE(again.ok());
  EXPECT_TRUE(again->is_new);
  EXPECT_EQ(again->forming->epoch, old.epoch + 1);
  EXPECT_NE(again->forming->slot, old.slot);
  EXPECT_TRUE(admission.leave(old, 0));
  admission.release(old);
  EXPECT_EQ(admission.formings().size(), 1u);
}

TEST(Admission, RanksOfLargeJobsShareTheCredit) {
  Admission admission({.credit = 256, .job_credit = 15'360}, {});
  const auto credit = [&](std::uint32_t ranks) {
    return admission.admit(trainer(0, ranks, std::to_string(ranks).c_str()), 1)->forming->credit;
  };
  EXPECT_EQ(credit(1), 256U);
  EXPECT_EQ(credit(60), 256U);
  EXPECT_EQ(credit(256), 60U);
  EXPECT_EQ(credit(1024), 28U);
  Admission little({.credit = 4}, {});
  EXPECT_EQ(little.admit(trainer(0, 1024), 1)->forming->credit, 4U);
}

TEST(Admission, WhatTheShardsReserveIsBounded) {
  Admission admission({.max_table_bytes = 64 << 20, .shards = 2, .job_credit = 1 << 20}, {});
  ASSERT_TRUE(admission.admit(trainer(0, 64, "small"), 1).ok());
  const auto refused = admission.admit(trainer(0, 1024, "large"), 2);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("lower shards.job_credit"), std::string::npos);
}

TEST(Admission, AFormingThatIsOverTakesNoJobsPlace) {
  Admission admission({.max_jobs = 1}, {});
  Forming& old = *admission.admit(trainer(0), 1)->forming;
  ASSERT_TRUE(admission.admit(trainer(1), 2).ok());
  admission.leave(old, 1);
  EXPECT_TRUE(admission.admit(trainer(1), 3).ok());
}

TEST(Admission, MemoryIsCountedPerJob) {
  Admission admission({.max_region_bytes = 100}, {});
  Forming& forming = *admission.admit(trainer(0), 1)->forming;
  EXPECT_TRUE(admission.reserve(forming, 60).ok());
  const auto refused = admission.reserve(forming, 41);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("60 bytes in 1 regions"), std::string::npos);
  Admission::give_back(forming, 60);
  EXPECT_TRUE(admission.reserve(forming, 100).ok());
}

TEST(Admission, MemoryOfAllJobsIsCounted) {
  Admission admission({.max_region_bytes = 100, .node_region_bytes = 150}, {});
  Forming& first = *admission.admit(trainer(0, 2, "first"), 1)->forming;
  Forming& second = *admission.admit(trainer(0, 2, "second"), 2)->forming;
  EXPECT_TRUE(admission.reserve(first, 100).ok());
  const auto refused = admission.reserve(second, 51);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("all jobs of the node have registered 100 bytes; 51 more "
                                         "pass limits.node_region_bytes 150"),
            std::string::npos);
  EXPECT_TRUE(admission.reserve(second, 50).ok());
  Admission::give_back(first, 100);
  EXPECT_TRUE(admission.reserve(second, 50).ok());
}

}  // namespace
}  // namespace tally::control
