#include "dataplane/engine/tile_pipeline.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "dataplane/wire/notice.h"
#include "tests/support/transport/loopback.h"

namespace tally::engine {
namespace {

using transport::LoopbackConfig;
constexpr std::uint16_t kPipelineRanks = 3;
constexpr std::size_t kTileElements = 1024;

ShardConfig config_of_test() {
  ShardConfig config;
  config.protocol.plan = protocol::even_partition(1, 1 << 20);
  config.protocol.tile_bytes = 4 * kTileElements;
  config.kernels = summation::kernels(summation::Isa::kScalar);
  config.max_ranks = kPipelineRanks;
  return config;
}

// A pipeline, its protocol, and one operation of one tile that all ranks have announced. Rank r
// gives r + 1 everywhere.
class TilePipelineTest : public ::testing::TestWithParam<LoopbackConfig::Mode> {
 protected:
  TilePipelineTest() {
    pipeline_.pool().expect_children(kPipelineRanks);
    protocol_.add_job(0, {.ranks = kPipelineRanks});
    wire::Notice notice;
    notice.epoch = 1;
    notice.count = kTileElements;
    notice.in_region = 1;
    notice.out_region = 2;
    for (std::uint16_t rank = 0; rank < kPipelineRanks; ++rank) {
      in_[rank].fill(static_cast<float>(rank + 1));
      out_[rank].fill(-1);
      loopback_.connect(rank);
      loopback_.add_region(rank, 1, std::as_writable_bytes(std::span(in_[rank])));
      loopback_.add_region(rank, 2, std::as_writable_bytes(std::span(out_[rank])));
      protocol_.join(0, rank, rank);
      protocol_.announce(rank, notice, Status::kOk, 1);
    }
  }

  // Polls until nothing more comes.
  void move() {
    for (int quiet = 0; quiet < 3;) {
      const std::size_t work = pipeline_.poll_pulls() + pipeline_.poll_pushes();
      quiet = work > 0 ? 0 : quiet + 1;
    }
  }
  bool stored(float value) const {
    return std::all_of(out_.begin(), out_.end(), [&](const auto& out) {
      return std::all_of(out.begin(), out.end(), [&](float one) { return one == value; });
    });
  }

  transport::Loopback loopback_{{GetParam(), 0, 0}};
  protocol::Aggregator protocol_{config_of_test().protocol};
  ParentConnections parents_;
  ShardCounters counters_;
  CycleClock clock_;
  TilePipeline pipeline_{config_of_test(), loopback_, protocol_, parents_, counters_, clock_};
  std::array<std::array<float, kTileElements>, kPipelineRanks> in_{}, out_{};
};

TEST_P(TilePipelineTest, TileGoesFromItsInputsToItsReceivers) {
  EXPECT_EQ(pipeline_.start_tiles(), 1U);
  EXPECT_EQ(pipeline_.start_tiles(), 0U);
  EXPECT_EQ(pipeline_.pool().in_flight(), 1U);
  move();
  EXPECT_TRUE(stored(6));
  EXPECT_EQ(pipeline_.pool().in_flight(), 0U);
  EXPECT_EQ(loopback_.views_held(), 0U);
  EXPECT_EQ(protocol_.outbox().completions().size(), kPipelineRanks);
  EXPECT_EQ(counters_.bytes_in.read(), kPipelineRanks * sizeof in_[0]);
  EXPECT_EQ(counters_.bytes_out.read(), kPipelineRanks * sizeof out_[0]);
}

TEST_P(TilePipelineTest, InputThatDoesNotComeFailsTheOperationAndStoresNothing) {
  loopback_.remove_region(1, 1);
  EXPECT_EQ(pipeline_.start_tiles(), 1U);
  move();
  EXPECT_TRUE(stored(-1));
  EXPECT_EQ(pipeline_.pool().in_flight(), 0U);
  EXPECT_EQ(loopback_.views_held(), 0U);
  for (const auto& outgoing : protocol_.outbox().completions()) {
    EXPECT_NE(outgoing.completion.status, Status::kOk);
    EXPECT_EQ(outgoing.completion.culprit, 1);
  }
}

TEST_P(TilePipelineTest, SumOfMemoryThatWentAwayIsNotPushed) {
  loopback_.take_memory(1);
  EXPECT_EQ(pipeline_.start_tiles(), 1U);
  move();
  EXPECT_EQ(counters_.bytes_out.read(), 0U);
  EXPECT_EQ(pipeline_.pool().in_flight(), 0U);
  EXPECT_EQ(loopback_.views_held(), 0U);
  for (const auto& outgoing : protocol_.outbox().completions()) {
    EXPECT_EQ(outgoing.completion.status, Status::kPeerLost);
    EXPECT_EQ(outgoing.completion.culprit, 1);
  }
}

TEST_P(TilePipelineTest, SessionsThatHaveNotAnsweredAreAwaited) {
  pipeline_.start_tiles();
  const auto& records = pipeline_.pool().records();
  const auto used = std::find_if(records.begin(), records.end(), [](const TileRecord& record) {
    return !record.tile.sources.empty();
  });
  ASSERT_NE(used, records.end());
  const protocol::Stuck stuck{0, used->tile.operation};
  auto sessions = pipeline_.awaited(stuck);
  std::sort(sessions.begin(), sessions.end());
  EXPECT_EQ(sessions, (std::vector<protocol::SessionId>{0, 1, 2}));
  EXPECT_TRUE(pipeline_.awaited({1, used->tile.operation}).empty()) << "another job";
  move();
  EXPECT_TRUE(pipeline_.awaited(stuck).empty());
}

INSTANTIATE_TEST_SUITE_P(Transports, TilePipelineTest,
                         ::testing::Values(LoopbackConfig::Mode::kDirect,
                                           LoopbackConfig::Mode::kStaged),
                         [](const auto& mode) { return transport::name_of(mode.param); });

}  // namespace
}  // namespace tally::engine
