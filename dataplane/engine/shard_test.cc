// The shard over the loopback transport: every collective gives the bits of the scalar kernel, in
// every receiver's memory, whatever the transport's manners are.
#include "dataplane/engine/shard.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <vector>

#include "tests/support/single_shard.h"
#include "tests/support/tier.h"

namespace tally::engine {
namespace {

using testing::Expected;
using testing::SingleShard;
using transport::LoopbackConfig;
using wire::Kind;
using wire::Notice;

constexpr std::byte kPoison{0xee};

// The transport's manners.
struct Manners {
  LoopbackConfig::Mode mode;
  std::size_t span_bytes;
  const char* name;
  bool mixed = false;
};

class ShardTest : public ::testing::TestWithParam<Manners> {
 protected:
  static SingleShard::Options options(std::uint16_t ranks) {
    SingleShard::Options options;
    options.ranks = ranks;
    options.loopback = {GetParam().mode, GetParam().span_bytes, 0};
    options.mixed = GetParam().mixed;
    return options;
  }

  // Where a rank's buffers are when it works in place: the result over its own contribution.
  static void place(Notice& n, const protocol::Shape& shape, std::uint16_t rank, bool in_place) {
    const std::uint64_t size = element_bytes(n.type);
    n.in_offset = 64 + 8 * rank;
    n.out_offset = 128;
    if (!in_place) return;
    n.out_region = n.in_region;
    const auto in = protocol::contribution(shape, rank);
    const auto out = protocol::result(shape, rank);
    n.out_offset = n.in_offset;
    if (out.first > in.first) n.out_offset += (out.first - in.first) * size;
    if (in.first > out.first) n.in_offset += (in.first - out.first) * size;
  }

  // Runs one operation and compares everything that any worker can see of it.
  static void check(SingleShard& node, Notice n, std::uint16_t ranks, bool in_place) {
    const protocol::Shape shape{n.kind, n.type, n.operation, n.root, ranks, n.count};
    std::vector<std::vector<std::byte>> in(ranks), out(ranks);
    std::vector<const std::byte*> inputs(ranks);
    std::vector<Notice> notices(ranks, n);
    for (std::uint16_t rank = 0; rank < ranks; ++rank) {
      place(notices[rank], shape, rank, in_place);
      auto& worker = node.worker(rank);
      SingleShard::fill(worker.in, rank + 17 * n.count);
      std::fill(worker.out.begin(), worker.out.end(), kPoison);
      in[rank] = worker.in;
      out[rank] = worker.out;
      inputs[rank] = in[rank].data() + notices[rank].in_offset;
    }
    Expected expected;
    testing::compute_expected(shape, inputs, expected);
    for (std::uint16_t rank = ranks; rank-- > 0;) {
      const auto result = testing::result_of(shape, rank, expected);
      auto& memory = in_place ? in[rank] : out[rank];
      std::copy(result.begin(), result.end(),
                memory.begin() + static_cast<std::ptrdiff_t>(notices[rank].out_offset));
      node.send(rank, notices[rank]);
    }
    node.settle();
    for (std::uint16_t rank = 0; rank < ranks; ++rank) {
      const auto completions = node.take(rank);
      ASSERT_EQ(completions.size(), 1u) << "rank " << rank;
      EXPECT_EQ(completions[0].status, Status::kOk);
      EXPECT_EQ(completions[0].cookie, n.cookie);
      EXPECT_TRUE(node.worker(rank).in == in[rank]) << "rank " << rank;
      EXPECT_TRUE(node.worker(rank).out == out[rank]) << "rank " << rank;
    }
    EXPECT_TRUE(node.clean());
    EXPECT_EQ(node.shard().protocol().inspect().operations(0), 0u);
  }
};

TEST_P(ShardTest, EveryCollectiveGivesTheBitsOfTheScalarKernel) {
  const std::vector<std::uint16_t> widths = testing::test_tier() == "fast"
                                                ? std::vector<std::uint16_t>{1, 3}
                                                : std::vector<std::uint16_t>{1, 2, 3, 5, 17};
  for (const std::uint16_t ranks : widths) {
    SingleShard node(options(ranks));
    std::uint32_t tag = 0;
    for (const Kind kind : {Kind::kAllReduce, Kind::kReduce, Kind::kBroadcast, Kind::kReduceScatter,
                            Kind::kAllGather}) {
      for (const std::uint64_t count : {0, 1, 7, 4096, 4097, 9001}) {
        for (const bool in_place : {false, true}) {
          SCOPED_TRACE(std::string(name(kind)) + " of " + std::to_string(count) + " by " +
                       std::to_string(ranks) + (in_place ? " in place" : ""));
          Notice n = SingleShard::notice(kind, count, ++tag);
          const bool rooted = kind == Kind::kReduce || kind == Kind::kBroadcast;
          n.root = rooted ? ranks / 2 : 0;
          check(node, n, ranks, in_place);
        }
      }
    }
  }
}

// Added up in groups, and pushed to a few at a time.
TEST_P(ShardTest, ManyRanksGetTheBitsOfOnePass) {
  const bool fast = testing::test_tier() == "fast";
  const std::vector<std::uint16_t> widths = fast
                                                ? std::vector<std::uint16_t>{17, 100}
                                                : std::vector<std::uint16_t>{17, 33, 64, 100, 1024};
  std::uint32_t tag = 0;
  for (const std::uint16_t ranks : widths) {
    auto many = options(ranks);
    many.region_bytes = 32 << 10;
    SingleShard node(many);
    for (const Kind kind : {Kind::kAllReduce, Kind::kReduce, Kind::kReduceScatter}) {
      for (const ElementType type : {ElementType::kF32, ElementType::kBf16}) {
        if (ranks == 1024 && kind != Kind::kAllReduce) continue;
        SCOPED_TRACE(std::string(name(kind)) + " by " + std::to_string(ranks));
        Notice n = SingleShard::notice(kind, 4500, ++tag);  // two tiles
        n.type = type;
        n.operation = tag % 3 == 0 ? Operation::kAverage : Operation::kSum;
        n.root = kind == Kind::kReduce ? ranks - 1 : 0;
        check(node, n, ranks, tag % 2 == 0);
      }
    }
  }
}

TEST_P(ShardTest, EveryTypeAndOperation) {
  SingleShard node(options(3));
  std::uint32_t tag = 0;
  for (const auto& type : kElementTypes) {
    for (const Operation operation :
         {Operation::kSum, Operation::kAverage, Operation::kMin, Operation::kMax}) {
      SCOPED_TRACE(std::string(type.name) + " " + std::string(name(operation)));
      Notice n = SingleShard::notice(Kind::kAllReduce, 5001, ++tag);
      n.type = type.type;
      n.operation = operation;
      check(node, n, 3, tag % 2 == 0);
    }
  }
}

TEST_P(ShardTest, ABarrierNeedsNoMemory) {
  SingleShard node(options(5));
  Notice n = SingleShard::notice(Kind::kBarrier, 0);
  n.in_region = n.out_region = wire::kNoRegion;
  for (std::uint16_t rank = 0; rank < 4; ++rank) node.send(rank, n);
  node.settle();
  for (std::uint16_t rank = 0; rank < 5; ++rank) EXPECT_TRUE(node.take(rank).empty());
  node.send(4, n);
  node.settle();
  for (std::uint16_t rank = 0; rank < 5; ++rank) {
    const auto completions = node.take(rank);
    ASSERT_EQ(completions.size(), 1u);
    EXPECT_EQ(completions[0].status, Status::kOk);
  }
  EXPECT_EQ(node.shard().counters().tiles.read(), 0u);
}

TEST_P(ShardTest, StatisticsStandWithTheResultWhereTheyAreWanted) {
  constexpr std::uint64_t kCount = 9001;
  SingleShard node(options(3));
  std::vector<const std::byte*> inputs;
  for (std::uint16_t rank = 0; rank < 3; ++rank) {
    SingleShard::fill(node.worker(rank).in, rank);
    inputs.push_back(node.worker(rank).in.data());
  }
  Expected expected;
  testing::compute_expected({Kind::kAllReduce, ElementType::kBf16, Operation::kSum, 0, 3, kCount},
                            inputs, expected);
  ASSERT_EQ(expected.stats.size(), 3u);
  for (std::uint16_t rank = 0; rank < 3; ++rank) {
    Notice n = SingleShard::notice(Kind::kAllReduce, kCount);
    n.type = ElementType::kBf16;
    if (rank != 1) n.flags = wire::kWantStats, n.side_region = SingleShard::kStats;
    node.send(rank, n);
  }
  node.settle();
  for (std::uint16_t rank = 0; rank < 3; ++rank) {
    const auto& stats = node.worker(rank).stats;
    const std::size_t bytes = rank == 1 ? 0 : 3 * sizeof(summation::BlockStats);
    EXPECT_EQ(std::memcmp(stats.data(), expected.stats.data(), bytes), 0) << "rank " << rank;
    EXPECT_TRUE(std::all_of(stats.begin() + static_cast<std::ptrdiff_t>(bytes), stats.end(),
                            [](std::byte b) { return b == kPoison; }));
    EXPECT_EQ(node.take(rank).size(), 1u);
  }
}

TEST_P(ShardTest, ManyOperationsShareFewTiles) {
  auto few = options(3);
  few.tiles = 2;
  few.window_bytes = 40'000;
  SingleShard node(few);
  for (std::uint32_t round = 0; round < 3; ++round) {
    for (std::uint32_t tag = 0; tag < 8; ++tag) {
      Notice n = SingleShard::notice(Kind::kAllReduce, 20'000, tag);
      n.round = round;
      n.priority = static_cast<std::uint8_t>(tag % 3);
      node.send_all(n);
    }
    node.settle();
    for (std::uint16_t rank = 0; rank < 3; ++rank) EXPECT_EQ(node.take(rank).size(), 8u);
  }
  EXPECT_TRUE(node.clean());
}

TEST_P(ShardTest, CountsWhatItMoves) {
  SingleShard node(options(3));
  node.send_all(SingleShard::notice(Kind::kAllReduce, 20'000));
  node.settle();
  const ShardCounters& counters = node.shard().counters();
  EXPECT_EQ(counters.notices.read(), 3u);
  EXPECT_EQ(counters.completions.read(), 3u);
  EXPECT_EQ(counters.failures.read(), 0u);
  EXPECT_EQ(counters.tiles.read(), 5u);
  EXPECT_EQ(counters.bytes_in.read(), 3 * 80'000u);
  EXPECT_EQ(counters.bytes_out.read(), 3 * 80'000u);
  EXPECT_GT(counters.turns.read(), counters.idle_turns.read());
}

// A network answers what was under way when its peers are let go of: before the job's table goes,
// these answers have to be taken.
TEST_P(ShardTest, AJobGoesAfterTheAnswersOfItsPeers) {
  SingleShard node(options(3));
  node.send_all(SingleShard::notice(Kind::kAllReduce, 20'000));
  node.turn();
  for (std::uint16_t rank = 0; rank < 3; ++rank) {
    node.shard().protocol().gone(0, rank, Status::kPeerLeft, node.now());
    node.loopback_of(rank).drop(rank);
  }
  node.shard().remove_job(0);
  EXPECT_EQ(node.shard().tiles_in_flight(), 0u);
  node.turns(5);
  EXPECT_TRUE(node.clean());
}

// A flood of notices by one way does not keep those by another one waiting.
TEST(Mux, EveryWayHasItsTurn) {
  transport::Loopback flooded({}), quiet({});
  transport::Mux mux({&flooded, &quiet});
  flooded.connect(0);
  quiet.connect(1);
  mux.route(0, 0);
  mux.route(1, 1);
  for (int i = 0; i < 100; ++i) flooded.send(0, RingEntry{});
  quiet.send(1, RingEntry{});
  std::array<transport::Received, 8> received;
  bool received_from_other = false;
  for (int call = 0; call < 2; ++call) {
    const std::size_t count = mux.receive(received);
    for (std::size_t i = 0; i < count; ++i) received_from_other |= received[i].peer == 1;
  }
  EXPECT_TRUE(received_from_other);
}

// A connection to a parent node may need a transport that no peer uses.
TEST(Mux, AWayInUseIsAskedWithoutPeers) {
  transport::Loopback first({}), other({});
  transport::Mux mux({&first, &other});
  other.connect(1);
  other.send(1, RingEntry{});
  std::array<transport::Received, 8> received;
  EXPECT_EQ(mux.receive(received), 0U);
  mux.use(1);
  EXPECT_EQ(mux.receive(received), 1U);
  mux.end_use(1);
  other.send(1, RingEntry{});
  EXPECT_EQ(mux.receive(received), 0U);
}

// Also where the shard does not take all of them at once.
TEST(Mux, AnswersOfTheLastPeerOfAWayAreTakenAfterItHasGone) {
  transport::Loopback first({}), other({});
  transport::Mux mux({&first, &other});
  std::array<std::byte, 64> memory{};
  first.connect(0);
  first.add_region(0, 1, memory);
  other.connect(1);
  other.add_region(1, 1, memory);
  mux.route(0, 0);
  mux.route(1, 1);
  const transport::Pull pulls[] = {{{0, 1, 0, 64}, 10}, {{0, 1, 0, 64}, 11}, {{1, 1, 0, 64}, 12}};
  mux.pull(pulls);
  mux.forget(1);
  std::array<transport::Pulled, 1> one;
  std::array<transport::Pulled, 8> rest;
  std::array<transport::Pushed, 8> none;
  ASSERT_EQ(mux.pulled(one), 1U);
  EXPECT_EQ(mux.pushed(none), 0U);
  ASSERT_EQ(mux.pulled(rest), 2U);
  EXPECT_EQ(rest[1].user, 12U);
  for (const transport::Pulled& pulled : {one[0], rest[0], rest[1]}) mux.release(pulled.handle);
}

INSTANTIATE_TEST_SUITE_P(
    Transports, ShardTest,
    ::testing::Values(Manners{LoopbackConfig::Mode::kDirect, 0, "Direct"},
                      Manners{LoopbackConfig::Mode::kStaged, 0, "Staged"},
                      Manners{LoopbackConfig::Mode::kDirect, 2040, "DirectInPieces"},
                      Manners{LoopbackConfig::Mode::kStaged, 4096, "StagedInPieces"},
                      Manners{LoopbackConfig::Mode::kDirect, 0, "DirectAndStaged", true},
                      Manners{LoopbackConfig::Mode::kStaged, 0, "StagedAndDirect", true}),
    [](const auto& param) { return std::string(param.param.name); });

}  // namespace
}  // namespace tally::engine
