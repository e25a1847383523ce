#include "control/node/jobs/capacity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "dataplane/protocol/job/vertex.h"

namespace tally::control {
namespace {

using ::testing::HasSubstr;

class CapacityTest : public ::testing::Test {
 protected:
  JobInstance& add(const char* name) {
    instances_.push_back(std::make_unique<JobInstance>());
    instances_.back()->name = name;
    return *instances_.back();
  }
  static void expect_refused(const Outcome& outcome, const char* because) {
    EXPECT_EQ(outcome.status(), Status::kRefused);
    EXPECT_THAT(outcome.error().message, HasSubstr(because));
  }

  AdmissionLimits limits_;
  std::vector<std::unique_ptr<JobInstance>> instances_;
  const Capacity capacity_{limits_, instances_};
};

// The node refuses a job before the kernel refuses all jobs.
TEST_F(CapacityTest, MappingsAreTheWholeNodes) {
  limits_.max_regions = 2;
  limits_.max_mappings = 5;
  JobInstance& first = add("train");
  JobInstance& second = add("other");
  EXPECT_TRUE(capacity_.reserve_segment(first));
  EXPECT_TRUE(capacity_.reserve_segment(second));
  EXPECT_TRUE(capacity_.reserve(first, 4096));
  EXPECT_TRUE(capacity_.reserve(first, 4096));
  expect_refused(capacity_.reserve(first, 4096), "has 2 regions and limits.max_regions is 2");
  EXPECT_TRUE(capacity_.reserve(second, 4096));
  const char* full = "has 5 mappings for the sessions and regions of all jobs and may have 5";
  expect_refused(capacity_.reserve(second, 4096), full);
  expect_refused(capacity_.reserve_segment(second), full);
  Capacity::give_back(first, 4096);
  EXPECT_TRUE(capacity_.reserve(second, 4096));
}

TEST_F(CapacityTest, RegionsOfOtherMachinesTakeNoMappings) {
  limits_.max_mappings = 2;
  JobInstance& instance = add("train");
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(capacity_.reserve(instance, 0));
  EXPECT_TRUE(capacity_.reserve_segment(instance));
  EXPECT_TRUE(capacity_.reserve(instance, 4096)) << "the first region that is mapped";
  EXPECT_FALSE(capacity_.reserve(instance, 4096));
  EXPECT_TRUE(capacity_.reserve(instance, 0));
  Capacity::give_back(instance, 0);
  EXPECT_FALSE(capacity_.reserve(instance, 4096)) << "what was given back was no mapping";
  Capacity::give_back_segment(instance);
  EXPECT_TRUE(capacity_.reserve(instance, 4096));
}

TEST_F(CapacityTest, BytesAreCountedPerJobAndForAllJobs) {
  limits_.max_region_bytes = 100;
  limits_.node_region_bytes = 150;
  JobInstance& first = add("first");
  JobInstance& second = add("second");
  EXPECT_TRUE(capacity_.reserve(first, 60));
  expect_refused(capacity_.reserve(first, 41), "60 bytes in 1 regions");
  EXPECT_TRUE(capacity_.for_region(first, 40));
  EXPECT_TRUE(capacity_.reserve(first, 40)) << "for_region() reserves nothing";
  expect_refused(capacity_.reserve(second, 51),
                 "all jobs of the node have registered 100 bytes; 51 more pass "
                 "limits.node_region_bytes 150");
  EXPECT_TRUE(capacity_.reserve(second, 50));
  Capacity::give_back(first, 60);
  EXPECT_TRUE(capacity_.reserve(second, 50));
}

TEST_F(CapacityTest, SessionsOfAllJobsNeedDescriptors) {
  limits_.shards = 2;
  limits_.own_descriptors = 10;
  limits_.max_descriptors = 18;
  add("train").joined = 1;
  EXPECT_TRUE(capacity_.for_session("train")) << "two sessions of four descriptors each";
  add("other").joined = 1;
  expect_refused(capacity_.for_session("train"), "has 2 sessions of 4 descriptors each");
}

TEST_F(CapacityTest, AnInstanceNeedsRoomForItsTablesAndItsBuffers) {
  limits_.max_table_bytes = 1000;
  limits_.max_slot_bytes = 100;
  add("train").table_bytes = 900;
  JobInstance wanted;
  wanted.name = "wanted";
  wanted.members = {kNobody};
  wanted.table_bytes = 100;
  EXPECT_TRUE(capacity_.for_instance(wanted));
  wanted.table_bytes = 101;
  expect_refused(capacity_.for_instance(wanted), "limits.max_table_bytes 1000");
  wanted.table_bytes = 100;
  wanted.buffer_bytes = 101;
  expect_refused(capacity_.for_instance(wanted), "limits.max_slot_bytes 100");
  instances_[0]->over = true;
  wanted.buffer_bytes = 0;
  limits_.max_jobs = 0;
  expect_refused(capacity_.for_instance(wanted), "max_jobs is 0");
}

}  // namespace
}  // namespace tally::control
