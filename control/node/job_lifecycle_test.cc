#include "control/node/job_lifecycle.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <asio/executor_work_guard.hpp>
#include <chrono>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/control/node_fixture.h"

namespace tally::control {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// One shard; no node around it.
class JobLifecycleTest : public ::testing::Test {
 protected:
  JobLifecycleTest() {
    engine::ShardConfig config;
    config.kernels = summation::kernels(summation::Isa::kScalar);
    config.protocol.plan = protocol::even_partition(1, 1 << 16);
    config.protocol.max_height = 2;
    config.protocol.upper_tiles = 4;
    config.protocol.upper_inputs = 2;
    shards_ = std::make_unique<ShardSet>(io_, 1, config);
    jobs_ = std::make_unique<JobLifecycle>(
        io_, *shards_, admission_, ended_jobs_,
        JobLifecycle::Options{.node = "here", .credentials = {}, .serves = false},
        [this](const JobInstance& instance) { ended_.push_back(instance.name); });
    jobs_->on_over([this](std::uint64_t placement) { over_.push_back(placement); });
    thread_ = std::thread([this] { shards_->run(0, false); });
  }
  ~JobLifecycleTest() override {
    shards_->stop();
    thread_.join();
  }

  template <typename Condition>
  bool until(Condition condition) {
    io_.restart();
    const auto guard = asio::make_work_guard(io_);
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (!condition() && std::chrono::steady_clock::now() < end) {
      io_.run_one_for(std::chrono::milliseconds(10));
    }
    return condition();
  }
  // Places an instance of one tree with one rank and one child node.
  JobInstance& place(std::uint64_t id) {
    JobAssignment made;
    made.id = id;
    made.job = "train";
    made.epoch = static_cast<std::uint32_t>(id);
    made.ranks = 2;
    made.plan = protocol::even_partition(1, 1 << 16);
    made.trees = {0};
    made.vertices = {protocol::star(0, 1)};
    made.vertices[0].child_nodes.push_back({.number = 0, .ranks = {1}});
    made.vertices[0].height = 2;
    made.below.push_back({.name = "below", .tcp = {}, .local = {}});
    made.buffers = {64 << 10, 4, 4, 1};
    std::optional<Outcome> placed;
    jobs_->place(made, [&](const Outcome& outcome) { placed = outcome; });
    EXPECT_TRUE(until([&] { return placed.has_value(); }));
    EXPECT_TRUE(placed->ok()) << placed->error().message;
    return *admission_.placed(id);
  }
  // Joins as the rank 0, or as the child node.
  std::uint32_t join(const JobInstance& instance, bool as_child_node) {
    Admission::Applicant applicant{.job = "train", .rank = 0, .ranks = 2, .epoch = instance.epoch};
    if (as_child_node) applicant.child_node = "below";
    return admission_.admit(applicant, as_child_node ? 1 : 0)->member;
  }

  asio::io_context io_;
  EndedJobs ended_jobs_;
  Admission admission_{{.shards = 1}, {}};
  std::unique_ptr<ShardSet> shards_;
  std::unique_ptr<JobLifecycle> jobs_;
  std::thread thread_;
  std::vector<std::string> ended_;   // instances whose sessions are to end
  std::vector<std::uint64_t> over_;  // placements that are over
};

TEST_F(JobLifecycleTest, AWithdrawnInstanceWithoutSessionsIsRemoved) {
  place(1);
  jobs_->withdraw(2);
  EXPECT_THAT(over_, IsEmpty()) << "there is no such placement";
  jobs_->withdraw(1);
  EXPECT_THAT(over_, ElementsAre(1));
  EXPECT_TRUE(until([this] { return admission_.instances().empty(); }));
  EXPECT_THAT(ended_, IsEmpty());
}

TEST_F(JobLifecycleTest, AWithdrawnInstanceWithSessionsEndsWithTheLast) {
  JobInstance& instance = place(1);
  const std::uint32_t rank = join(instance, false), child_node = join(instance, true);
  jobs_->withdraw(1);
  EXPECT_THAT(over_, ElementsAre(1));
  EXPECT_THAT(ended_, IsEmpty()) << "a rank is left";
  jobs_->leave(instance, rank);
  EXPECT_THAT(ended_, IsEmpty()) << "a rank may be left below the child node";
  instance.empty_below.insert({child_node, 0});
  jobs_->finish(instance);
  EXPECT_THAT(ended_, ElementsAre("train"));
  jobs_->leave(instance, child_node);
  EXPECT_TRUE(until([this] { return admission_.instances().empty(); }));
  EXPECT_THAT(over_, ElementsAre(1)) << "reported once";
}

TEST_F(JobLifecycleTest, ALaterPlacementReplacesOneWithoutSessions) {
  place(1);
  place(2);
  EXPECT_THAT(over_, ElementsAre(1));
  EXPECT_TRUE(until([this] { return admission_.instances().size() == 1; }));
  jobs_->forget_placements();
  jobs_->withdraw(2);
  EXPECT_THAT(over_, ElementsAre(1)) << "its coordinator is gone";
}

// A member of a cluster, which has nodes above it.
class NodePlacement : public NodeNetwork {
 protected:
  NodePlacement() : NodeNetwork({"node"}, {}, "tcp:coordinator:7733") {}

  static JobAssignment placement(const char* job) {
    JobAssignment made;
    made.id = 1;
    made.job = job;
    made.ranks = 2;
    made.plan = protocol::even_partition(1, 1 << 16);
    made.trees = {0};
    made.vertices = {protocol::star(0, 2)};
    return made;
  }
  // Whose node above cannot be reached.
  static JobAssignment unreachable(const char* job) {
    JobAssignment made = placement(job);
    made.vertices = {protocol::star(0, 1)};
    made.vertices[0].parent = 0;
    made.above.push_back({.name = "above", .tcp = "nowhere", .local = {}});
    made.buffers = {64 << 10, 4, 4, 1};
    made.nodes = 2;
    return made;
  }
  std::vector<std::string> jobs() {
    std::vector<std::string> names;
    const json list = asked(99, "node.jobs", json::object())->result();
    for (const json& job : list) names.push_back(job["name"]);
    return names;
  }
};

// An assignment ends, and another one gets its number. A late report about the first does not
// affect the second.
TEST_F(NodePlacement, AFailureOfTheLastCoordinatorsEndsNothingOfTheNextOnes) {
  std::optional<Outcome> last, next;
  node_->place(unreachable("last"), [&](const Outcome& outcome) { last = outcome; });
  node_->forget_placements();
  node_->place(placement("next"), [&](const Outcome& outcome) { next = outcome; });
  ASSERT_TRUE(until([&] { return last && next; }));
  EXPECT_FALSE(last->ok());
  EXPECT_TRUE(next->ok());
  EXPECT_TRUE(shards_turn());
  EXPECT_EQ(jobs(), std::vector<std::string>{"next"});
  EXPECT_EQ(asked(99, "node.status", json::object())->result()["jobs"], 1) << "the other is gone";
}

}  // namespace
}  // namespace tally::control
