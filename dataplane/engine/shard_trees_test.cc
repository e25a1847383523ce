// Trees of real shards over the loopback transport: every collective gives the bits of the scalar
// kernel, summed vertex by vertex; and what is lost on the way is lost for all, within the
// deadline.
#include <gtest/gtest.h>

#include <cstring>
#include <span>
#include <string>

#include "dataplane/engine/shard.h"
#include "dataplane/wire/vertex.h"
#include "tests/support/shard_tree.h"
#include "tests/support/single_shard.h"
#include "tests/support/tier.h"

namespace tally::engine {
namespace {

using testing::Expected;
using testing::ShardTree;
using testing::SingleShard;
using testing::TreeShape;
using transport::LoopbackConfig;
using wire::Kind;
using wire::Notice;

// The root has two ranks and two racks of two and three.
TreeShape two_levels() {
  return {{0, {2, 5}}, {0, {0, 3}}, {0, {1, 4, 6}}};
}
// The root has only child nodes, of different heights; ranks of one are not next to each other.
TreeShape three_levels() {
  return {{0, {}}, {0, {7}}, {0, {1, 4}}, {1, {0, 6}}, {1, {2, 3, 5}}};
}

// The root adds its ranks up in two groups, then the child node's sum.
TreeShape many_ranks() {
  return {{0, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 18}}, {0, {16, 17}}};
}

struct TreeManners {
  TreeShape (*tree)();
  LoopbackConfig::Mode mode;
  std::size_t span_bytes;
  const char* name;
};

class ShardTreesTest : public ::testing::TestWithParam<TreeManners> {
 protected:
  static ShardTree::Options options() {
    ShardTree::Options options;
    options.tree = GetParam().tree();
    options.loopback = {GetParam().mode, GetParam().span_bytes, 0};
    return options;
  }

  static Notice notice(Kind kind, std::uint64_t count, std::uint32_t tag) {
    Notice n = SingleShard::notice(kind, count, tag);
    n.epoch = ShardTree::kEpoch;
    n.in_region = ShardTree::kIn;
    n.out_region = ShardTree::kOut;
    return n;
  }

  // Of a rank's memory; some more than its elements.
  static std::size_t used_bytes(const protocol::Shape& shape) {
    return (shape.count + 64) * element_bytes(shape.type) / 8 * 8;
  }

  // What the ranks have, and what they have to get.
  static Expected prepare(ShardTree& tree, const protocol::Shape& shape) {
    const std::size_t used = used_bytes(shape);
    std::vector<const std::byte*> inputs;
    for (std::uint16_t rank = 0; rank < tree.ranks(); ++rank) {
      auto& worker = tree.worker(rank);
      SingleShard::fill(std::span(worker.in).first(used), rank + 17 * shape.count);
      std::memset(worker.out.data(), 0xee, used);
      inputs.push_back(worker.in.data());
    }
    Expected expected;
    testing::compute_expected_in(GetParam().tree(), shape, inputs, expected);
    return expected;
  }

  static void expect_result(ShardTree& tree, std::uint16_t rank, const protocol::Shape& shape,
                            const Expected& expected) {
    const auto& out = tree.worker(rank).out;
    const auto result = testing::result_of(shape, rank, expected);
    EXPECT_TRUE(result.empty() || std::memcmp(result.data(), out.data(), result.size()) == 0)
        << "rank " << rank;
    const auto rest = std::span(out).first(used_bytes(shape)).subspan(result.size());
    const std::vector<std::byte> untouched(rest.size(), std::byte{0xee});
    EXPECT_EQ(std::memcmp(rest.data(), untouched.data(), rest.size()), 0) << "rank " << rank;
  }

  // `flags` for the ranks that are no multiple of 3, checksums for the even ones.
  static void check(ShardTree& tree, const Notice& n, std::uint8_t flags = 0,
                    bool checksums = false) {
    const protocol::Shape shape{n.kind, n.type, n.operation, n.root, tree.ranks(), n.count};
    const Expected expected = prepare(tree, shape);
    for (std::uint16_t rank = tree.ranks(); rank-- > 0;) {
      Notice own = n;
      if (flags != 0 && rank % 3 != 0) own.flags = flags, own.side_region = ShardTree::kSide;
      if (checksums && rank % 2 == 0) tree.add_checksums(rank, shape, own);
      tree.send(rank, own);
    }
    tree.settle();
    for (std::uint16_t rank = 0; rank < tree.ranks(); ++rank) {
      const auto completions = tree.take(rank);
      ASSERT_EQ(completions.size(), 1u) << "rank " << rank;
      EXPECT_EQ(completions[0].status, Status::kOk) << "rank " << rank;
      EXPECT_EQ(completions[0].cookie, n.cookie);
      expect_result(tree, rank, shape, expected);
      if (flags == 0 || rank % 3 == 0) continue;
      const std::size_t bytes = expected.stats.size() * sizeof(BlockStats);
      EXPECT_EQ(std::memcmp(tree.worker(rank).side.data(), expected.stats.data(), bytes), 0)
          << "rank " << rank;
    }
    EXPECT_TRUE(tree.clean());
  }

  static void expect_all(ShardTree& tree, Status status) {
    for (std::uint16_t rank = 0; rank < tree.ranks(); ++rank) {
      const auto completions = tree.take(rank);
      ASSERT_EQ(completions.size(), 1u) << "rank " << rank;
      EXPECT_EQ(completions[0].status, status) << "rank " << rank;
    }
  }
};

TEST_P(ShardTreesTest, EveryCollectiveGivesTheBitsOfTheScalarKernel) {
  ShardTree tree(options());
  std::uint32_t tag = 0;
  for (const Kind kind : {Kind::kAllReduce, Kind::kReduce, Kind::kBroadcast, Kind::kReduceScatter,
                          Kind::kAllGather, Kind::kBarrier}) {
    for (const std::uint64_t count : {0, 1, 7, 4096, 4097, 9001, 40'003}) {
      if (kind == Kind::kBarrier && count != 0) continue;
      const bool rooted = kind == Kind::kReduce || kind == Kind::kBroadcast;
      // Every root for one count, one root for the others.
      const std::uint16_t roots = rooted && count == 4097 ? tree.ranks() : 1;
      for (std::uint16_t root = 0; root < roots; ++root) {
        SCOPED_TRACE(std::string(name(kind)) + " of " + std::to_string(count) + " root " +
                     std::to_string(root));
        Notice n = notice(kind, count, ++tag);
        n.root = root;
        if (kind == Kind::kBarrier) n.in_region = n.out_region = wire::kNoRegion;
        check(tree, n);
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_P(ShardTreesTest, EveryTypeAndOperation) {
  ShardTree tree(options());
  std::uint32_t tag = 0;
  for (const auto& type : kElementTypes) {
    for (const Operation operation :
         {Operation::kSum, Operation::kAverage, Operation::kMin, Operation::kMax}) {
      SCOPED_TRACE(std::string(type.name) + " " + std::string(name(operation)));
      Notice n = notice(Kind::kAllReduce, 9001, ++tag);
      n.type = type.type;
      n.operation = operation;
      check(tree, n, wire::kWantStats, true);
      if (HasFatalFailure()) return;
    }
  }
}

// Many more tiles than buffers, up and down.
TEST_P(ShardTreesTest, LargeOperations) {
  auto large = options();
  large.region_bytes = 3 << 20;
  ShardTree tree(large);
  std::uint32_t tag = 0;
  for (const Kind kind : {Kind::kAllReduce, Kind::kReduceScatter, Kind::kAllGather}) {
    const std::uint64_t part = testing::test_tier() == "fast" ? 4 : 1;
    Notice n = notice(kind, kind == Kind::kAllReduce ? 700'001 / part : 200'001 / part, ++tag);
    n.type = kind == Kind::kReduceScatter ? ElementType::kBf16 : ElementType::kF32;
    n.operation = Operation::kAverage;
    check(tree, n, 0, true);
    if (HasFatalFailure()) return;
  }
}

TEST_P(ShardTreesTest, ManyOperationsAtOnce) {
  ShardTree tree(options());
  for (std::uint32_t round = 0; round < 3; ++round) {
    for (std::uint32_t tag = 0; tag < 8; ++tag) {
      Notice n = notice(Kind::kAllReduce, 30'000, tag);
      n.round = round;
      n.priority = static_cast<std::uint8_t>(tag % 3);
      for (std::uint16_t rank = 0; rank < tree.ranks(); ++rank) tree.send(rank, n);
    }
    tree.settle();
    for (std::uint16_t rank = 0; rank < tree.ranks(); ++rank) {
      const auto completions = tree.take(rank);
      EXPECT_EQ(completions.size(), 8u);
      for (const auto& completion : completions) EXPECT_EQ(completion.status, Status::kOk);
    }
  }
  EXPECT_TRUE(tree.clean());
}

// Whatever has been done by then: the loss comes after any number of turns.
TEST_P(ShardTreesTest, ALostChildNodeFailsTheOperationForAll) {
  for (int turns = 0; turns < 14; ++turns) {
    SCOPED_TRACE(turns);
    ShardTree tree(options());
    for (std::uint16_t rank = 0; rank < tree.ranks(); ++rank) {
      tree.send(rank, notice(Kind::kAllReduce, 60'000, 1));
    }
    for (int i = 0; i < turns; ++i) tree.turn();
    tree.loopback(0).drop(tree.child_node(1));
    for (int i = 0; i < 8; ++i) {
      tree.turn(kSecond);
      tree.settle();
    }
    for (std::uint16_t rank = 0; rank < tree.ranks(); ++rank) {
      const auto completions = tree.take(rank);
      ASSERT_EQ(completions.size(), 1u) << "rank " << rank;
      // No verdict names both. Ranks that had the result by then keep it.
      EXPECT_TRUE(completions[0].status == Status::kPeerLost ||
                  completions[0].status == Status::kOk);
      EXPECT_NE(turns == 0 && completions[0].status == Status::kOk, true);
    }
    EXPECT_TRUE(tree.clean());
    EXPECT_EQ(tree.shard(0).counters().peers_lost.read(), 1u);
    EXPECT_EQ(tree.shard(1).counters().parents_lost.read(), 1u);
  }
}

// Its memory is closed to the node before the transport reports the loss.
TEST_P(ShardTreesTest, AFencedChildNodeIsNamedToAll) {
  for (int turns = 0; turns < 14; ++turns) {
    SCOPED_TRACE(turns);
    ShardTree tree(options());
    for (std::uint16_t rank = 0; rank < tree.ranks(); ++rank) {
      tree.send(rank, notice(Kind::kAllReduce, 60'000, 1));
    }
    for (int i = 0; i < turns; ++i) tree.turn();
    tree.loopback(0).fence(tree.child_node(1));
    tree.settle();
    for (std::uint16_t rank = 0; rank < tree.ranks(); ++rank) {
      const auto completions = tree.take(rank);
      ASSERT_EQ(completions.size(), 1u) << "rank " << rank;
      EXPECT_NE(turns == 0 && completions[0].status == Status::kOk, true);
      if (completions[0].status == Status::kOk) continue;
      EXPECT_EQ(completions[0].status, Status::kPeerLost);
      EXPECT_EQ(completions[0].culprit, wire::kNoRank);
      EXPECT_EQ(completions[0].culprit_value, ShardTree::node_number(1)) << "rank " << rank;
    }
    EXPECT_TRUE(tree.clean());
  }
}

TEST_P(ShardTreesTest, ALostRankIsNamedToAll) {
  for (std::uint16_t lost = 0; lost < 7; ++lost) {
    SCOPED_TRACE(lost);
    ShardTree tree(options());
    for (std::uint16_t rank = 0; rank < tree.ranks(); ++rank) {
      if (rank != lost) tree.send(rank, notice(Kind::kAllReduce, 60'000, 1));
    }
    tree.turn();
    tree.loopback(tree.worker(lost).vertex).drop(lost);
    tree.settle();
    for (std::uint16_t rank = 0; rank < tree.ranks(); ++rank) {
      if (rank == lost) continue;
      const auto completions = tree.take(rank);
      ASSERT_EQ(completions.size(), 1u) << "rank " << rank;
      EXPECT_EQ(completions[0].status, Status::kPeerLost);
      EXPECT_EQ(completions[0].culprit, lost) << "rank " << rank;
    }
    EXPECT_TRUE(tree.clean());
  }
}

TEST_P(ShardTreesTest, ADeadlineNamesTheRankThatIsMissingBelow) {
  ShardTree tree(options());
  Notice n = notice(Kind::kAllReduce, 9001, 1);
  n.deadline_ms = 100;
  for (std::uint16_t rank = 0; rank < tree.ranks(); ++rank) {
    if (rank != 3) tree.send(rank, n);
  }
  for (int i = 0; i < 100; ++i) {
    tree.turn(50 * kMillisecond);
    tree.turn();
  }
  for (std::uint16_t rank = 0; rank < tree.ranks(); ++rank) {
    if (rank == 3) continue;
    const auto completions = tree.take(rank);
    ASSERT_EQ(completions.size(), 1u) << "rank " << rank;
    EXPECT_EQ(completions[0].status, Status::kDeadline);
    EXPECT_EQ(completions[0].culprit, 3) << "rank " << rank;
  }
  EXPECT_TRUE(tree.clean());
}

// A shard that has nothing to do may sleep: what a deadline ends must not need another turn. Here
// also tiles that wait for room in a child node that has not moved since.
TEST_P(ShardTreesTest, NoVerdictWaitsForATurnThatNobodyTakes) {
  auto narrow = options();
  narrow.down_buffers = 1;
  for (int turns = 0; turns < 20; ++turns) {
    SCOPED_TRACE(turns);
    ShardTree tree(narrow);
    for (std::uint16_t rank = 0; rank < tree.ranks(); ++rank) {
      tree.send(rank, notice(Kind::kAllReduce, 60'000, 1));
    }
    for (int i = 0; i < turns; ++i) tree.turn();
    Nanos now = tree.now();
    const auto until_quiet = [&] {
      now += kMillisecond;
      while (tree.shard(0).turn(now)) {
      }
    };
    until_quiet();
    now += 60 * kSecond;
    until_quiet();
    const std::uint64_t failures = tree.shard(0).counters().failures.read();
    tree.shard(0).turn(now);
    EXPECT_EQ(tree.shard(0).counters().failures.read(), failures);
    EXPECT_EQ(tree.shard(0).protocol().outbox().messages_down().size(), 0u);
  }
}

// A parent that names a buffer that does not exist is disconnected; the ranks below get an error.
TEST_P(ShardTreesTest, AParentThatBreaksTheProtocolIsLost) {
  ShardTree tree(options());
  const TreeShape shape = GetParam().tree();
  const std::size_t last = shape.size() - 1;
  for (const std::uint16_t rank : shape[last].ranks) {
    tree.send(rank, notice(Kind::kAllReduce, 9001, 1));
  }
  tree.settle();
  wire::VertexMessage wanted;
  wanted.kind = wire::VertexKind::kTileWanted;
  wanted.epoch = ShardTree::kEpoch;
  wanted.tag = 1;
  wanted.count = 4096;
  wanted.buffer = 1000;
  const transport::Message message{tree.child_node(last), wire::encode(wanted)};
  tree.loopback(shape[last].parent).complete({&message, 1});
  tree.settle();
  EXPECT_TRUE(tree.parent_connection(last).lost());
  EXPECT_EQ(tree.shard(last).counters().parents_lost.read(), 1u);
  for (const std::uint16_t rank : shape[last].ranks) {
    const auto completions = tree.take(rank);
    ASSERT_EQ(completions.size(), 1u);
    EXPECT_EQ(completions[0].status, Status::kPeerLost);
  }
}

// In one batch of tasks: the last rank leaves, its job ends, its parent goes.
TEST_P(ShardTreesTest, LastMessagesGoOutBeforeTheParentConnectionEnds) {
  ShardTree tree(options());
  const TreeShape shape = GetParam().tree();
  const std::size_t last = shape.size() - 1;
  tree.send(shape[last].ranks[0], notice(Kind::kAllReduce, 9001, 1));
  tree.settle();
  engine::Shard& shard = tree.shard(last);
  shard.post([&] {
    for (const std::uint16_t rank : shape[last].ranks) {
      shard.protocol().gone(rank, Status::kPeerLeft, tree.now());
    }
  });
  shard.post([&] { shard.remove_job(0); });
  shard.post([&] { shard.remove_parent_connection(0); });
  tree.settle();
  for (std::uint16_t rank = 0; rank < tree.ranks(); ++rank) {
    if (tree.worker(rank).vertex == last) continue;
    tree.send(rank, notice(Kind::kAllReduce, 9001, 1));
    tree.settle();
    const auto completions = tree.take(rank);
    ASSERT_EQ(completions.size(), 1u) << "rank " << rank;
    EXPECT_EQ(completions[0].status, Status::kPeerLeft);
    EXPECT_EQ(completions[0].culprit, shape[last].ranks[0]) << "rank " << rank;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Trees, ShardTreesTest,
    ::testing::Values(
        TreeManners{two_levels, LoopbackConfig::Mode::kDirect, 0, "TwoLevelsDirect"},
        TreeManners{two_levels, LoopbackConfig::Mode::kStaged, 4096, "TwoLevelsStagedInPieces"},
        TreeManners{three_levels, LoopbackConfig::Mode::kStaged, 0, "ThreeLevelsStaged"},
        TreeManners{three_levels, LoopbackConfig::Mode::kDirect, 2040, "ThreeLevelsDirectInPieces"},
        TreeManners{many_ranks, LoopbackConfig::Mode::kStaged, 0, "ManyRanksStaged"}),
    [](const auto& param) { return std::string(param.param.name); });

}  // namespace
}  // namespace tally::engine
