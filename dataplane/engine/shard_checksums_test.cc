// Bytes that come with checksums: damage is found before anything is stored, mended by pulling
// again, and reported with the rank's number where that does not help.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "dataplane/engine/shard.h"
#include "tests/support/single_shard.h"
#include "tests/support/tier.h"
#include "tests/support/transport/faulty.h"

namespace tally::engine {
namespace {

using testing::Expected;
using testing::SingleShard;
using transport::FaultEvent;
using transport::Faulty;
using transport::LoopbackConfig;
using wire::Kind;
using wire::Notice;

constexpr std::uint16_t kRanks = 3;

struct ChecksumManners {
  LoopbackConfig::Mode mode;
  std::size_t span_bytes;
  const char* name;
};

class ShardChecksumsTest : public ::testing::TestWithParam<ChecksumManners> {
 protected:
  // With a Faulty between that does nothing until corrupt(), and then spares what `spares_` says.
  SingleShard::Options options(std::uint16_t ranks = kRanks) {
    SingleShard::Options options;
    options.ranks = ranks;
    options.loopback = {GetParam().mode, GetParam().span_bytes, 0};
    options.decorate = [this](transport::Loopback& inner) {
      transport::FaultyConfig config;
      config.seed = seed_;
      config.spares = [this](const transport::Range& range) { return spares_ && spares_(range); };
      auto decorator = std::make_unique<Faulty>(inner, config);
      decorator->observe([this](FaultEvent event, transport::Peer, const RingEntry*) {
        corrupted_ += event == FaultEvent::kCorrupted;
      });
      faulty_ = decorator.get();
      return decorator;
    };
    return options;
  }

  void corrupt(std::uint16_t rank, double rate) {
    faulty_->set_rates(rank, {.corrupt_pull = rate});
  }

  // Announces an operation whose inputs are random at all ranks; true when all of its results are
  // right, to the bit.
  bool run(SingleShard& node, Notice n, std::uint16_t ranks, bool with_checksums) {
    const protocol::Shape shape{n.kind, n.type, n.operation, n.root, ranks, n.count};
    std::vector<std::vector<std::byte>> before(ranks);
    std::vector<const std::byte*> inputs(ranks);
    for (std::uint16_t rank = 0; rank < ranks; ++rank) {
      SingleShard::fill(node.worker(rank).in, rank + 17 * n.count + seed_);
      before[rank] = node.worker(rank).in;
      inputs[rank] = before[rank].data() + n.in_offset;
      node.send(rank, with_checksums ? node.checked(rank, n) : n);
    }
    node.settle();
    Expected expected;
    testing::compute_expected(shape, inputs, expected);
    bool good = true;
    for (std::uint16_t rank = 0; rank < ranks; ++rank) {
      const auto completions = node.take(rank);
      if (completions.size() != 1 || completions[0].status != Status::kOk) return false;
      const auto result = testing::result_of(shape, rank, expected);
      const auto& memory =
          n.out_region == n.in_region ? node.worker(rank).in : node.worker(rank).out;
      good &= std::equal(result.begin(), result.end(),
                         memory.begin() + static_cast<std::ptrdiff_t>(n.out_offset));
    }
    EXPECT_TRUE(node.clean());
    return good;
  }

  static std::uint64_t damaged(SingleShard& node) { return node.shard().counters().damaged.read(); }

  Faulty* faulty_ = nullptr;
  std::function<bool(const transport::Range&)> spares_;
  std::uint64_t corrupted_ = 0;
  std::uint64_t seed_ = 1;
};

TEST_P(ShardChecksumsTest, GoodBytesPass) {
  for (const std::uint16_t ranks : {1, 2, 5}) {
    SingleShard node(options(ranks));
    std::uint32_t tag = 0;
    for (const Kind kind : {Kind::kAllReduce, Kind::kReduce, Kind::kBroadcast, Kind::kReduceScatter,
                            Kind::kAllGather}) {
      for (const std::uint64_t count : {0, 1, 7, 1023, 4096, 4097, 9001}) {
        for (const ElementType type : {ElementType::kF32, ElementType::kBf16, ElementType::kI8}) {
          Notice n = SingleShard::notice(kind, count, ++tag);
          n.type = type;
          n.in_offset = 64;
          EXPECT_TRUE(run(node, n, ranks, true))
              << name(kind) << " of " << count << " by " << ranks;
        }
      }
    }
    EXPECT_EQ(damaged(node), 0u);
  }
}

// Damage of every collective, in and out of place: found each time, mended each time.
TEST_P(ShardChecksumsTest, DamagedBytesArePulledAgain) {
  std::map<std::uint64_t, int> times;  // so often each was damaged: never beyond what is repeated
  spares_ = [&](const transport::Range& range) {
    return range.region == SingleShard::kStats ||
           ++times[range.offset << 8 | range.peer] > 3;  // this operation's
  };
  const std::uint64_t seeds = testing::test_tier() == "fast" ? 10 : 40;
  for (seed_ = 1; seed_ <= seeds; ++seed_) {
    corrupted_ = 0;
    SingleShard node(options());
    for (std::uint16_t rank = 0; rank < kRanks; ++rank) corrupt(rank, 0.4);
    std::uint32_t tag = 0;
    for (const Kind kind : {Kind::kAllReduce, Kind::kReduce, Kind::kBroadcast, Kind::kReduceScatter,
                            Kind::kAllGather}) {
      for (const bool in_place : {false, true}) {
        if (in_place && kind != Kind::kAllReduce) continue;
        times.clear();
        Notice n = SingleShard::notice(kind, 9001, ++tag);
        if (in_place) n.out_region = n.in_region;
        EXPECT_TRUE(run(node, n, kRanks, true)) << name(kind) << ", seed " << seed_;
      }
    }
    EXPECT_GT(corrupted_, 0u);
    EXPECT_EQ(damaged(node), corrupted_) << "seed " << seed_;
    std::uint64_t of_ranks = 0;
    for (const auto& rank : node.shard().protocol().inspect().rank_counters(0))
      of_ranks += rank.damaged;
    EXPECT_EQ(of_ranks, corrupted_);
  }
}

// A damaged group is pulled again before it is added to the sum of those before it.
TEST_P(ShardChecksumsTest, DamagedGroupsOfManyRanksArePulledAgain) {
  constexpr std::uint16_t kMany = 40;
  std::map<std::uint64_t, int> times;
  spares_ = [&](const transport::Range& range) {
    return range.region == SingleShard::kStats || ++times[range.offset << 8 | range.peer] > 3;
  };
  const std::uint64_t seeds = testing::test_tier() == "fast" ? 2 : 5;
  for (seed_ = 1; seed_ <= seeds; ++seed_) {
    corrupted_ = 0;
    times.clear();
    SingleShard node(options(kMany));
    for (std::uint16_t rank = 0; rank < kMany; ++rank) corrupt(rank, 0.2);
    EXPECT_TRUE(run(node, SingleShard::notice(Kind::kAllReduce, 9001), kMany, true));
    EXPECT_GT(corrupted_, 0u);
    EXPECT_EQ(damaged(node), corrupted_) << "seed " << seed_;
  }
}

// The same damage without checksums goes into the sums: else the test above would show nothing.
TEST_P(ShardChecksumsTest, WithoutChecksumsDamageIsNotNoticed) {
  int wrong = 0;
  for (seed_ = 1; seed_ <= 40; ++seed_) {
    SingleShard node(options());
    corrupt(1, 0.4);
    Notice n = SingleShard::notice(Kind::kAllReduce, 9001);
    n.type = ElementType::kI32;  // each bit shows
    corrupted_ = 0;
    const bool good = run(node, n, kRanks, false);
    EXPECT_EQ(good, corrupted_ == 0) << "seed " << seed_;
    wrong += good ? 0 : 1;
    EXPECT_EQ(damaged(node), 0u);
  }
  EXPECT_GT(wrong, 20);
}

TEST_P(ShardChecksumsTest, DamagedChecksumsArePulledAgainToo) {
  int times = 0;
  spares_ = [&](const transport::Range& range) {
    return range.region != SingleShard::kStats || ++times > 2;
  };
  SingleShard node(options());
  corrupt(2, 1);
  EXPECT_TRUE(run(node, SingleShard::notice(Kind::kAllReduce, 3000), kRanks, true));
  EXPECT_EQ(damaged(node), 2u);
  EXPECT_EQ(node.shard().protocol().inspect().rank_counters(0)[2].damaged, 2u);
}

// Nothing was stored: in place, too, every input is as it was.
TEST_P(ShardChecksumsTest, DamageThatStaysEndsTheOperationAndNamesTheRank) {
  SingleShard node(options());
  corrupt(1, 1);
  Notice n = SingleShard::notice(Kind::kAllReduce, 1000);
  n.out_region = n.in_region;
  for (std::uint16_t rank = 0; rank < kRanks; ++rank) {
    SingleShard::fill(node.worker(rank).in, rank);
    node.send(rank, node.checked(rank, n));
  }
  const auto before = node.worker(0).in;
  node.settle();
  for (std::uint16_t rank = 0; rank < kRanks; ++rank) {
    const auto completions = node.take(rank);
    ASSERT_EQ(completions.size(), 1u);
    EXPECT_EQ(completions[0].status, Status::kDamaged);
    EXPECT_EQ(completions[0].culprit, 1);
    EXPECT_EQ(completions[0].flags & wire::kStarted, 0);
  }
  EXPECT_TRUE(node.worker(0).in == before);
  EXPECT_TRUE(node.clean());
  EXPECT_EQ(damaged(node), 4u) << "the first time and three more";
  n.tag = 2;
  corrupt(1, 0);
  EXPECT_TRUE(run(node, n, kRanks, true)) << "the job goes on";
}

TEST_P(ShardChecksumsTest, WhoGivesNoneIsNotChecked) {
  SingleShard node(options());
  for (std::uint16_t rank = 0; rank < kRanks; ++rank) SingleShard::fill(node.worker(rank).in, rank);
  Notice n = SingleShard::notice(Kind::kAllReduce, 9001);
  node.send(0, node.checked(0, n));
  node.worker(1).in[5] ^= std::byte{1};
  node.send(1, n);
  node.send(2, node.checked(2, n));
  node.worker(2).in[36'003] ^= std::byte{1};  // after it was announced
  node.settle();
  for (std::uint16_t rank = 0; rank < kRanks; ++rank) {
    const auto completions = node.take(rank);
    ASSERT_EQ(completions.size(), 1u);
    EXPECT_EQ(completions[0].status, Status::kDamaged);
    EXPECT_EQ(completions[0].culprit, 2);
  }
}

TEST_P(ShardChecksumsTest, StatisticsAndChecksumsShareARegion) {
  SingleShard node(options());
  Notice n = SingleShard::notice(Kind::kAllReduce, 9001);
  n.flags = wire::kWantStats;
  n.side_region = SingleShard::kStats;
  EXPECT_TRUE(run(node, n, kRanks, true));
  EXPECT_EQ(damaged(node), 0u);
  BlockStats first;
  std::memcpy(&first, node.worker(0).stats.data(), sizeof first);
  EXPECT_GT(first.nonfinite, 0u) << "random bits are not all numbers";
}

TEST_P(ShardChecksumsTest, ARegionThatIsNotThereIsRefused) {
  SingleShard node(options());
  Notice n = SingleShard::notice(Kind::kAllReduce, 1000);
  n.flags = wire::kHasChecksums;
  n.side_region = 99;
  node.send_all(n);
  node.settle();
  for (std::uint16_t rank = 0; rank < kRanks; ++rank) {
    const auto completions = node.take(rank);
    ASSERT_EQ(completions.size(), 1u);
    EXPECT_EQ(completions[0].status, Status::kBadRegion);
  }
}

TEST_P(ShardChecksumsTest, ANodeThatCannotCheckRefuses) {
  auto without = options();
  without.checksums = false;
  SingleShard node(without);
  for (std::uint16_t rank = 0; rank < kRanks; ++rank) {
    node.send(rank, node.checked(rank, SingleShard::notice(Kind::kAllReduce, 1000)));
  }
  node.settle();
  for (std::uint16_t rank = 0; rank < kRanks; ++rank) {
    const auto completions = node.take(rank);
    ASSERT_EQ(completions.size(), 1u);
    EXPECT_EQ(completions[0].status, Status::kUnsupported);
  }
}

// A rank that goes while a tile waits for its second pull is not asked again.
TEST_P(ShardChecksumsTest, ARankLostBetweenTwoPulls) {
  SingleShard node(options());
  faulty_->set_rates(1, {.delay_pull = 1, .corrupt_pull = 1});
  for (std::uint16_t rank = 0; rank < kRanks; ++rank) {
    node.send(rank, node.checked(rank, SingleShard::notice(Kind::kAllReduce, 1000)));
  }
  for (int turn = 0; damaged(node) == 0 && turn < 100; ++turn) node.turn();
  ASSERT_GT(damaged(node), 0u);
  node.loopback().drop(1);
  node.settle();
  for (const std::uint16_t rank : {0, 2}) {
    const auto completions = node.take(rank);
    ASSERT_EQ(completions.size(), 1u);
    EXPECT_EQ(completions[0].status, Status::kPeerLost);
    EXPECT_EQ(completions[0].culprit, 1);
  }
  EXPECT_TRUE(node.clean());
}

INSTANTIATE_TEST_SUITE_P(
    Transports, ShardChecksumsTest,
    ::testing::Values(ChecksumManners{LoopbackConfig::Mode::kDirect, 0, "Direct"},
                      ChecksumManners{LoopbackConfig::Mode::kStaged, 0, "Staged"},
                      ChecksumManners{LoopbackConfig::Mode::kDirect, 2040, "DirectInPieces"},
                      ChecksumManners{LoopbackConfig::Mode::kStaged, 24, "StagedInPieces"}),
    [](const auto& param) { return std::string(param.param.name); });

}  // namespace
}  // namespace tally::engine
