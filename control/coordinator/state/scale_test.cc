// What a coordinator stores and sends for a large job: its plan once, whatever the number of ranks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>

#include <cstdlib>

#include "tests/support/control/coordinator_fixture.h"
#include "tests/support/control/service_fixture.h"

namespace tally::control {
namespace {

constexpr std::uint32_t kLargeRanks = 1024;
constexpr std::uint32_t kLargeNodes = 128;
constexpr std::size_t kMostPerRank = 4096;

// Bytes that this process has allocated; 0: its allocator does not count them (sanitizers).
std::size_t allocated() {
  const struct mallinfo2 info = ::mallinfo2();
  return info.uordblks + info.hblkhd;
}

bool counts_allocations() {
  const std::size_t before = allocated();
  void* volatile some = ::malloc(1 << 16);
  const bool counts = allocated() > before;
  ::free(some);
  return counts;
}

// What the record takes by itself.
std::size_t bytes_of(const JobRecord& record) {
  const std::size_t before = allocated();
  const auto copy = std::make_unique<const JobRecord>(record);
  EXPECT_EQ(copy->nodes.size(), record.nodes.size());
  return allocated() - before;
}

class LargeJobTest : public CoordinatorTest {
 protected:
  void SetUp() override {
    if (!counts_allocations()) GTEST_SKIP() << "this allocator does not count";
    coordinator_.emplace(options_, store_);
    for (std::uint32_t i = 0; i < kLargeNodes; ++i) {
      nodes_.push_back(join(("n" + std::to_string(i)).c_str()));
    }
  }
  void open(std::uint32_t rank) {
    coordinator_->open(rank + 1, opening(rank, "large", "t", kLargeRanks, "worker"), kNow);
  }
  // Takes the news of all nodes, and keeps only the number of the job assignment.
  void take_news() {
    act();
    for (const auto& [node, sent] : sent_) numbers_[node] = sent.placements.at(0).id;
    sent_.clear();
  }
  void serve_all() {
    for (const NodeId node : nodes_) coordinator_->report(node, {numbers_.at(node), false, ""});
  }

  std::vector<NodeId> nodes_;
  std::map<NodeId, std::uint64_t> numbers_;  // of the placement there
};

TEST_F(LargeJobTest, RanksThatAreAnsweredTogetherShareOneRecord) {
  open(0);
  take_news();
  const std::size_t before = allocated();
  for (std::uint32_t rank = 1; rank < kLargeRanks; ++rank) open(rank);
  serve_all();
  const auto actions = coordinator_->act(kNow);
  ASSERT_EQ(actions.answers.size(), kLargeRanks);
  EXPECT_EQ((*actions.answers.front().outcome)->nodes.size(), kLargeNodes);
  EXPECT_EQ(actions.answers.front().outcome->get(), actions.answers.back().outcome->get());
  const std::size_t grown = allocated() - std::min(before, allocated());
  EXPECT_GT(grown, kLargeRanks) << "nothing was counted";
  RecordProperty("bytes_per_rank", static_cast<int>(grown / kLargeRanks));
  EXPECT_LT(grown / kLargeRanks, kMostPerRank)
      << "the record itself has " << bytes_of(**actions.answers.front().outcome) << " bytes";
}

// A job that is placed stays as it is: who comes later takes no more.
TEST_F(LargeJobTest, RanksThatJoinARunningJobShareItsRecord) {
  open(0);
  take_news();
  serve_all();
  act();
  const std::size_t before = allocated();
  for (std::uint32_t rank = 1; rank < kLargeRanks; ++rank) open(rank);
  const auto actions = coordinator_->act(kNow);
  ASSERT_EQ(actions.answers.size(), kLargeRanks - 1);
  const std::size_t grown = allocated() - std::min(before, allocated());
  EXPECT_GT(grown, kLargeRanks) << "nothing was counted";
  EXPECT_LT(grown / kLargeRanks, kMostPerRank);
}

// Counts the bytes that are sent to a rank.
class Sink : public rpc::ReplySink {
 public:
  explicit Sink(std::size_t& bytes) : bytes_(bytes) {}
  void answer(std::string line) override { bytes_ += line.size(); }

 private:
  std::size_t& bytes_;
};

// An answer names all nodes of the job.
TEST_F(ServiceTest, AnswersToRanksOfALargeJobAreShort) {
  std::vector<std::shared_ptr<Answer>> news;
  for (std::uint32_t i = 0; i < kLargeNodes; ++i) {
    ask(i + 1, "cluster.join", node(("n" + std::to_string(i)).c_str()));
    news.push_back(ask(i + 1, "cluster.next"));
  }
  std::size_t bytes = 0;
  std::vector<std::shared_ptr<Sink>> sinks;
  for (std::uint32_t i = 0; i < kLargeRanks; ++i) {
    sinks.push_back(std::make_shared<Sink>(bytes));
    service_.handle(1000 + i, {"job.open", changed(rank(i), "ranks", kLargeRanks), {}},
                    {sinks.back(), 1, true});
  }
  for (std::uint32_t i = 0; i < kLargeNodes; ++i) {
    const auto placements = news[i]->result().at("placements");
    ASSERT_EQ(placements.size(), 1U);
    EXPECT_EQ(bytes, 0U) << "they wait until all nodes have taken it";
    const nlohmann::json done = {{{"placement", placements[0].at("placement")}}};
    ask(i + 1, "cluster.next", {{"done", done}});
  }
  RecordProperty("bytes_of_an_answer", static_cast<int>(bytes / kLargeRanks));
  EXPECT_GT(bytes / kLargeRanks, 64 * kLargeNodes);
  EXPECT_LT(bytes / kLargeRanks, 256 * kLargeNodes);
}

}  // namespace
}  // namespace tally::control
