// Child nodes and parents of a vertex that break the protocol.
#include <algorithm>
#include <random>
#include <utility>

#include "tests/support/protocol/vertex_fixture.h"

namespace tally::protocol {
namespace {

TEST_F(VertexTest, RefusesWhatNoParentWants) {
  make(false);
  EXPECT_EQ(from_parent(message(VertexKind::kTileReady)), Status::kProtocol) << "a child's word";
  VertexMessage wrong = message(VertexKind::kTileWanted);
  wrong.tree = 5;
  EXPECT_EQ(from_parent(wrong), Status::kProtocol) << "no vertex of that tree";
  wrong = message(VertexKind::kTileWanted);
  wrong.epoch = 6;
  EXPECT_EQ(from_parent(wrong), Status::kProtocol) << "another epoch";
  announce(0, notice());
  EXPECT_EQ(from_parent(message(VertexKind::kTileWanted)), Status::kProtocol) << "not announced";
  announce(1, notice());
  announce(kChildNode, partial());
  const auto refused = [&](std::uint64_t first, std::uint32_t buffer, std::uint32_t count) {
    return from_parent(message(VertexKind::kTileWanted, first, buffer, count)) == Status::kProtocol;
  };
  EXPECT_TRUE(refused(0, 4, 4096)) << "no such buffer";
  EXPECT_TRUE(refused(0, 0, 1000)) << "no tile ends there";
  EXPECT_TRUE(refused(1000, 0, 3096)) << "none begins there";
  EXPECT_TRUE(refused(8192, 0, 4096)) << "past the end";
  EXPECT_TRUE(refused(1ULL << 46, 0, 4096)) << "far past the end";
  EXPECT_TRUE(refused(0, 0, kCount)) << "more than a buffer holds";
  EXPECT_FALSE(refused(4096, 0, 4096));
  EXPECT_TRUE(refused(8192, 0, kCount - 8192)) << "the buffer is in use";
  EXPECT_TRUE(refused(4096, 1, 4096)) << "asked for already";
  EXPECT_TRUE(refused(0, 1, 4096)) << "requests rise";
  EXPECT_FALSE(refused(8192, 1, kCount - 8192));
  EXPECT_EQ(aggregator_->handle_parent_message(kParent + 1,
                                               wire::encode(message(VertexKind::kMissing)), 0),
            Status::kProtocol);
  EXPECT_EQ(aggregator_->handle_child_message(0, wire::encode(message(VertexKind::kTileReady)), 0),
            Status::kProtocol)
      << "a rank is no vertex";
  announce(0, partial(2));
  EXPECT_EQ(aggregator_->outbox().completions().back().completion.status, Status::kInvalidArgument)
      << "nor has it partial sums";
}

TEST_F(VertexTest, RefusesVerdictsThatNobodyCanHaveComeTo) {
  make(false);
  announce(0, notice());
  const auto judged = [&](const Completion& c) {
    return aggregator_->handle_parent_message(kParent, wire::encode(c), 0);
  };
  const auto reported = [&](const Completion& c) {
    return aggregator_->handle_child_message(kChildNode, wire::encode(c), 0);
  };
  Completion strange = completion(Status::kMismatch, 1);
  strange.witness = 5;
  for (const Completion& c :
       {completion(Status::kCancelled, 5), completion(Status::kDuplicate), strange}) {
    EXPECT_EQ(judged(c), Status::kProtocol);
    EXPECT_EQ(reported(c), Status::kProtocol);
  }
  VertexMessage broken;
  broken.kind = VertexKind::kBroken;
  broken.epoch = 7;
  for (const Status status : {Status::kCancelled, Status::kDeadline, Status::kDuplicate}) {
    broken.status = status;
    EXPECT_EQ(from_parent(broken), Status::kProtocol);
    EXPECT_EQ(from_child_node(broken), Status::kProtocol);
  }
  EXPECT_TRUE(aggregator_->outbox().completions().empty());
  strange.witness = 4;
  EXPECT_EQ(judged(strange), Status::kOk);
  EXPECT_EQ(aggregator_->outbox().completions().size(), 1u);
}

// A tile, and how many of its TileEvents have yet to come: it cannot end before.
struct Flying {
  Tile tile;
  bool down = false;
  std::size_t steps_left = 0;
};

// Whatever child nodes and parents send, the bookkeeping stays consistent; when all have gone,
// nothing is left.
TEST_F(VertexTest, StaysConsistentWhateverIsReceived) {
  for (std::uint32_t seed = 0; seed < 60; ++seed) {
    make(seed % 2 == 0);
    const bool root = seed % 2 == 0;
    std::mt19937 random(seed);
    std::vector<Flying> flying;
    std::uint32_t handle = 0;
    const auto start = [&] {
      Flying one;
      one.tile.handle = handle++;
      one.down = aggregator_->tiles().start_down(one.tile);
      if (!one.down && !aggregator_->tiles().start_tile(one.tile)) return false;
      one.steps_left = one.down ? one.tile.below.size() : one.tile.partials;
      flying.push_back(std::move(one));
      return true;
    };
    const auto take_tile_events = [&] {
      for (const TileEvent& tile_event : aggregator_->outbox().tile_events()) {
        const auto one = std::find_if(flying.begin(), flying.end(), [&](const Flying& tile) {
          return tile.tile.handle == tile_event.handle;
        });
        ASSERT_NE(one, flying.end()) << "it has ended";
        if (tile_event.kind == TileEvent::Kind::kPush)
          one->tile.below[tile_event.index].buffer = tile_event.buffer;
        --one->steps_left;
      }
      aggregator_->outbox().clear_tile_events();
    };
    const auto end = [&](Status status) {
      Flying& one = flying.front();
      ASSERT_EQ(one.steps_left, 0u);
      one.down ? aggregator_->tiles().end_down(one.tile, status, kNoSession, 0)
               : aggregator_->tiles().end_tile(one.tile, status, kNoSession, 0);
      flying.erase(flying.begin());
    };
    for (int i = 0; i < 2000; ++i) {
      VertexMessage m = message(static_cast<VertexKind>(0x40 + random() % 5), random() % 3 * 4096,
                                random() % 5, random() % 4 == 0 ? kCount - 8192 : 4096);
      m.tag = random() % 3;
      m.flags = m.kind == VertexKind::kTileReady && random() % 4 == 0 ? wire::kVoid : 0;
      Completion c = completion(random() % 3 == 0 ? Status::kOk : Status::kCancelled, 0);
      c.tag = random() % 3;
      switch (random() % 6) {
        case 0:
          announce(random() % 2, notice(random() % 3));
          break;
        case 1:
          announce(kChildNode, partial(random() % 3));
          break;
        case 2:
          aggregator_->handle_child_message(
              kChildNode, random() % 8 == 0 ? wire::encode(c) : wire::encode(m), 0);
          break;
        case 3:
          if (root) break;
          aggregator_->handle_parent_message(
              kParent, random() % 8 == 0 ? wire::encode(c) : wire::encode(m), 0);
          break;
        case 4:
          start();
          break;
        case 5:
          if (!flying.empty() && flying[0].steps_left == 0) end(Status::kInternal);
          break;
      }
      take_tile_events();
      aggregator_->outbox().clear_completions();
      aggregator_->outbox().clear_tree_messages();
    }
    for (SessionId m : {0u, 1u, kChildNode}) aggregator_->gone(m, Status::kPeerLost, 0);
    if (!root) aggregator_->parent_gone(kParent, Status::kPeerLost, 0);
    while (start()) continue;
    take_tile_events();
    while (!flying.empty() && !HasFatalFailure()) end(Status::kPeerLost), take_tile_events();
    EXPECT_FALSE(aggregator_->inspect().busy(0)) << seed;
    EXPECT_EQ(aggregator_->inspect().operations(0), 0u) << seed;
  }
}

}  // namespace
}  // namespace tally::protocol
