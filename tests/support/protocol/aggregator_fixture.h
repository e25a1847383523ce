// A fixture for tests of the aggregator.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "dataplane/protocol/aggregator.h"

namespace tally::protocol {

// One shard with one job. The SessionId of each rank is its rank number. The test moves the tiles.
class AggregatorTest : public ::testing::Test {
 protected:
  static constexpr std::uint16_t kRanks = 3;
  static constexpr std::uint32_t kCredit = 4;

  void SetUp() override { reset({}); }

  void reset(AggregatorConfig config) {
    config.plan = even_partition(1, 1 << 20);
    aggregator_ = std::make_unique<Aggregator>(config);
    aggregator_->add_job(0, JobSpec{.epoch = 7, .ranks = kRanks, .weight = 1, .credit = kCredit});
    for (std::uint16_t rank = 0; rank < kRanks; ++rank) aggregator_->join(0, rank, rank);
  }

  static wire::Notice notice(std::uint32_t tag, std::uint32_t round = 0,
                             std::uint64_t count = 10'000) {
    wire::Notice n;
    n.epoch = 7;
    n.tag = tag;
    n.round = round;
    n.cookie = tag * 100 + round;
    n.count = count;
    n.in_region = 1;
    n.out_region = 2;
    return n;
  }

  void announce(SessionId member, const wire::Notice& n, Nanos now = 0,
                Status admissible = Status::kOk) {
    aggregator_->announce(member, n, admissible, now);
  }

  std::vector<Outgoing> take() {
    std::vector<Outgoing> out(aggregator_->outbox().completions().begin(),
                              aggregator_->outbox().completions().end());
    aggregator_->outbox().clear_completions();
    return out;
  }

  // Moves all tiles that can start. Returns their number.
  int move_all(Nanos now = 0) {
    Tile tile;
    int tiles = 0;
    for (; aggregator_->tiles().start_tile(tile); ++tiles) {
      aggregator_->tiles().pulling(tile, now);
      aggregator_->tiles().storing(tile, now);
      aggregator_->tiles().stored(tile, now);
      aggregator_->tiles().end_tile(tile, Status::kOk, kNoSession, now);
    }
    return tiles;
  }

  std::unique_ptr<Aggregator> aggregator_;
};

}  // namespace tally::protocol
