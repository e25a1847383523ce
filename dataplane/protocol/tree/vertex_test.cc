// What a vertex does at its place. Whole trees are simulated in tests/sim/trees.
#include "dataplane/protocol/job/vertex.h"

#include "tests/support/protocol/vertex_fixture.h"

namespace tally::protocol {
namespace {

// Whatever their numbers: in another order a sum of floats would have other bits.
TEST_F(VertexTest, ChildNodesAreAddedInTheOrderOfTheVertex) {
  make(true, false);
  JobSpec spec{.epoch = 7, .ranks = 4, .credit = 4};
  spec.plan = even_partition(1, 1 << 30);
  Vertex vertex;
  vertex.height = 2;
  vertex.child_nodes = {ChildNode{2, {0}}, ChildNode{0, {1, 2}}, ChildNode{1, {3}}};
  spec.vertices = {vertex};
  spec.child_nodes = 3;
  spec.buffers = BufferLayout{.bytes = 32 << 10, .up = 2, .down = 2, .classes = 2};
  aggregator_->add_job(1, spec);
  for (std::uint16_t child_node : {0, 1, 2})
    aggregator_->join(1, 4 + child_node, kChildNode + child_node);
  for (SessionId child_node : {1, 2, 0}) announce(kChildNode + child_node, partial());
  Tile tile;
  ASSERT_TRUE(aggregator_->tiles().start_tile(tile));
  ASSERT_EQ(tile.sources.size(), 3u);
  EXPECT_EQ(tile.partials, 3u);
  EXPECT_EQ(tile.sources[0].member, kChildNode + 2);
  EXPECT_EQ(tile.sources[1].member, kChildNode + 0);
  EXPECT_EQ(tile.sources[2].member, kChildNode + 1);
}

TEST_F(VertexTest, TheRootWaitsForTheSumsOfItsChildNodes) {
  make(true);
  announce_all();
  Tile tile;
  tile.handle = 77;
  ASSERT_TRUE(aggregator_->tiles().start_tile(tile));
  ASSERT_EQ(tile.sources.size(), 3u);
  EXPECT_EQ(tile.partials, 1u);
  EXPECT_EQ(tile.sources[2].member, kChildNode) << "ranks first, then child nodes";
  EXPECT_EQ(tile.sources[2].region, 5u);
  EXPECT_EQ(tile.divisor, 4u) << "all ranks of the job";
  EXPECT_EQ(tile.landings.size(), 2u);
  ASSERT_EQ(tile.below.size(), 1u);
  VertexMessage wanted = only<VertexMessage>(false);
  EXPECT_EQ(wanted.kind, VertexKind::kTileWanted);
  EXPECT_EQ(wanted.count, tile.count);
  EXPECT_TRUE(aggregator_->outbox().tile_events().empty());
  VertexMessage ready = wanted;
  ready.kind = VertexKind::kTileReady;
  ASSERT_EQ(from_child_node(ready), Status::kOk);
  EXPECT_EQ(from_child_node(ready), Status::kProtocol) << "once";
  const TileEvent pull = tile_event();
  EXPECT_EQ(pull.handle, 77u);
  EXPECT_EQ(pull.kind, TileEvent::Kind::kPull);
  EXPECT_EQ(pull.index, 2u);
  sum(tile);
  const TileEvent push = tile_event();
  EXPECT_EQ(push.kind, TileEvent::Kind::kPush);
  EXPECT_EQ(push.where.member, kChildNode);
  EXPECT_EQ(push.where.offset, 4u * (32 << 10)) << "behind the up buffers";
  EXPECT_TRUE(take(false).empty()) << "not before it stands there";
  pass_down(tile, push);
  VertexMessage result = only<VertexMessage>(false);
  EXPECT_EQ(result.kind, VertexKind::kTileResult);
  aggregator_->tiles().end_tile(tile, Status::kOk, kNoSession, 0);
  EXPECT_FALSE(aggregator_->inspect().buffers_free(0));
  result.kind = VertexKind::kTilePlaced;
  ASSERT_EQ(from_child_node(result), Status::kOk);
  EXPECT_EQ(from_child_node(result), Status::kProtocol) << "once";
  EXPECT_TRUE(aggregator_->inspect().buffers_free(0));
  EXPECT_TRUE(aggregator_->outbox().completions().empty()) << "there are more tiles";
}

// They land in pages of their own, and are there until the child node has summed.
TEST_F(VertexTest, InputsThatWaitForAChildNodeCountAsWholePages) {
  config_.window_bytes = 3 * 4096 / 2;  // twice this is two ranks' and the child node's
  make(true);
  for (const std::uint32_t tag : {1, 2}) {
    Notice small = notice(tag), below = partial(tag);
    small.count = below.count = 1;
    for (SessionId m : {0u, 1u}) announce(m, small);
    announce(kChildNode, below);
  }
  Tile first, second;
  ASSERT_TRUE(aggregator_->tiles().start_tile(first));
  EXPECT_FALSE(aggregator_->tiles().start_tile(second));
  VertexMessage ready = only<VertexMessage>(false);
  ready.kind = VertexKind::kTileReady;
  ASSERT_EQ(from_child_node(ready), Status::kOk);
  tile_event();
  sum(first);
  EXPECT_TRUE(aggregator_->tiles().start_tile(second));
}

TEST(MostInputs, UpperTilesHaveFewer) {
  AggregatorConfig config{.tiles = 64, .max_height = 4, .upper_tiles = 16, .upper_inputs = 256};
  constexpr std::uint32_t kWithSlow = 1 + kSlowPool;
  EXPECT_EQ(most_inputs(config, 1024), kWithSlow * (64U * 16 + 3 * 16 * 256));
  EXPECT_EQ(most_inputs(config, 100), kWithSlow * (64U * 16 + 3 * 16 * 100));
  EXPECT_EQ(most_inputs(config, 8), kWithSlow * (64U + 3 * 16) * 8);
  config.one_class = true;
  EXPECT_EQ(most_inputs(config, 1024), kWithSlow * 64U * 1024);
}

// As many tiles as there are buffers; then a result waits for one.
TEST_F(VertexTest, TilesHaveTheirBuffersOrWait) {
  make(true);
  announce_all();
  Tile tiles[3];
  for (std::uint32_t i = 0; i < 3; ++i) tiles[i].handle = i;
  ASSERT_TRUE(aggregator_->tiles().start_tile(tiles[0]));
  ASSERT_TRUE(aggregator_->tiles().start_tile(tiles[1]));
  EXPECT_FALSE(aggregator_->tiles().start_tile(tiles[2])) << "two up buffers";
  EXPECT_NE(tiles[0].sources[2].offset, tiles[1].sources[2].offset);
  const auto wanted = take(false);
  const auto go_on = [&](Tile& tile, const RingEntry& request) {
    VertexMessage ready;
    ASSERT_EQ(wire::parse(request, ready), Status::kOk);
    ready.kind = VertexKind::kTileReady;
    ASSERT_EQ(from_child_node(ready), Status::kOk);
    tile_event();
    sum(tile);
  };
  std::vector<VertexMessage> results;
  for (std::uint32_t i = 0; i < 2; ++i) {
    go_on(tiles[i], wanted[i]);
    pass_down(tiles[i], tile_event());
    results.push_back(only<VertexMessage>(false));
    aggregator_->tiles().end_tile(tiles[i], Status::kOk, kNoSession, 0);
  }
  ASSERT_TRUE(aggregator_->tiles().start_tile(tiles[2]));
  go_on(tiles[2], take(false)[0]);
  EXPECT_TRUE(aggregator_->outbox().tile_events().empty()) << "two down buffers, both in use";
  results[1].kind = VertexKind::kTilePlaced;
  ASSERT_EQ(from_child_node(results[1]), Status::kOk);
  const TileEvent push = tile_event();
  EXPECT_EQ(push.handle, 2u);
  pass_down(tiles[2], push);
  results[1] = only<VertexMessage>(false);
  EXPECT_EQ(results[1].count, kCount - 8192);
  aggregator_->tiles().end_tile(tiles[2], Status::kOk, kNoSession, 0);
  EXPECT_TRUE(aggregator_->outbox().completions().empty()) << "not placed everywhere";
  for (VertexMessage& result : results) {
    result.kind = VertexKind::kTilePlaced;
    ASSERT_EQ(from_child_node(result), Status::kOk);
  }
  EXPECT_EQ(aggregator_->outbox().completions().size(), 2u);
  EXPECT_EQ(only<Completion>(false).status, Status::kOk);
  EXPECT_TRUE(aggregator_->inspect().buffers_free(0));
  EXPECT_EQ(aggregator_->inspect().operations(0), 0u);
}

TEST_F(VertexTest, AVertexAnnouncesSumsAndHandsDown) {
  make(false);
  for (SessionId m : {0u, 1u}) announce(m, notice(), 250 * kMillisecond);
  EXPECT_TRUE(take(true).empty());
  announce(kChildNode, partial(), 500 * kMillisecond);
  const auto up = only<Notice>(true);
  EXPECT_EQ(up.flags, wire::kPartial);
  EXPECT_EQ(up.in_region, 44u);
  EXPECT_EQ(up.count, kCount);
  EXPECT_EQ(up.deadline_ms, 751u) << "what is left, rounded up";
  Tile tile;
  EXPECT_FALSE(aggregator_->tiles().start_tile(tile)) << "the parent decides when";
  ASSERT_EQ(from_parent(message(VertexKind::kTileWanted, 0, 3)), Status::kOk);
  ASSERT_TRUE(aggregator_->tiles().start_tile(tile));
  EXPECT_TRUE(tile.partial);
  EXPECT_EQ(tile.own.parent_id, kParent);
  EXPECT_EQ(tile.own.index, 3u);
  EXPECT_TRUE(tile.landings.empty());
  EXPECT_TRUE(tile.below.empty());
  VertexMessage ready = only<VertexMessage>(false);
  ready.kind = VertexKind::kTileReady;
  ASSERT_EQ(from_child_node(ready), Status::kOk);
  tile_event();
  sum(tile);
  aggregator_->tiles().end_tile(tile, Status::kOk, kNoSession, 0);
  const auto answer = only<VertexMessage>(true);
  EXPECT_EQ(answer.kind, VertexKind::kTileReady);
  EXPECT_EQ(answer.buffer, 3u);
  EXPECT_EQ(answer.flags, 0);
  ASSERT_EQ(from_parent(message(VertexKind::kTileResult, 0, 1)), Status::kOk);
  EXPECT_EQ(from_parent(message(VertexKind::kTileResult, 4096, 1)), Status::kProtocol) << "in use";
  ASSERT_TRUE(aggregator_->tiles().start_down(tile));
  EXPECT_EQ(tile.own.index, 1u);
  EXPECT_EQ(tile.landings.size(), 2u);
  pass_down(tile, tile_event());
  VertexMessage result = only<VertexMessage>(false);
  aggregator_->tiles().end_down(tile, Status::kOk, kNoSession, 0);
  EXPECT_TRUE(take(true).empty()) << "the child node does not have it everywhere";
  result.kind = VertexKind::kTilePlaced;
  ASSERT_EQ(from_child_node(result), Status::kOk);
  EXPECT_EQ(only<VertexMessage>(true).kind, VertexKind::kTilePlaced);
  EXPECT_TRUE(aggregator_->outbox().completions().empty());
  aggregator_->handle_parent_message(kParent, wire::encode(completion(Status::kOk)), 0);
  ASSERT_EQ(aggregator_->outbox().completions().size(), 2u);
  EXPECT_EQ(aggregator_->outbox().completions()[0].completion.cookie, 101u) << "the rank's own";
  EXPECT_EQ(only<Completion>(false).cookie, 0u) << "the tree";
  EXPECT_EQ(aggregator_->inspect().operations(0), 0u);
}

// f16 and bf16 are rounded once, and divided once: at the root.
TEST_F(VertexTest, PartialSumsAreWideAndNotDivided) {
  make(false);
  Notice n = notice();
  n.type = ElementType::kBf16;
  n.operation = Operation::kAverage;
  for (SessionId m : {0u, 1u}) announce(m, n);
  n.flags = wire::kPartial;
  n.cookie = 0;
  announce(kChildNode, n);
  ASSERT_EQ(from_parent(message(VertexKind::kTileWanted)), Status::kOk);
  Tile tile;
  ASSERT_TRUE(aggregator_->tiles().start_tile(tile));
  EXPECT_EQ(tile.type, ElementType::kBf16);
  EXPECT_EQ(tile.partial_type, ElementType::kF32);
  EXPECT_EQ(tile.reduction, Operation::kSum);
  EXPECT_EQ(tile.sources[0].bytes, 4096u * 2);
  EXPECT_EQ(tile.sources[2].bytes, 4096u * 4);
}

TEST_F(VertexTest, AFailureIsReportedAndTheVerdictComesFromAbove) {
  make(false);
  announce_all();
  ASSERT_EQ(from_parent(message(VertexKind::kTileWanted)), Status::kOk);
  take(true);
  Notice cancel = notice();
  cancel.kind = wire::Kind::kCancel;
  cancel.root = 1;
  announce(1, cancel);
  const auto sent = take(true);
  ASSERT_EQ(sent.size(), 2u);
  Completion report;
  VertexMessage answer;
  ASSERT_EQ(wire::parse(sent[0], report), Status::kOk) << "the report goes first";
  EXPECT_EQ(report.status, Status::kCancelled);
  EXPECT_EQ(report.culprit, 1);
  ASSERT_EQ(wire::parse(sent[1], answer), Status::kOk);
  EXPECT_EQ(answer.flags, wire::kVoid) << "the request is answered all the same";
  EXPECT_TRUE(aggregator_->outbox().completions().empty());
  ASSERT_EQ(from_parent(message(VertexKind::kTileWanted, 4096)), Status::kOk) << "it crossed";
  EXPECT_EQ(only<VertexMessage>(true).flags, wire::kVoid);
  aggregator_->handle_parent_message(kParent, wire::encode(completion(Status::kPeerLost, 4)), 0);
  ASSERT_EQ(aggregator_->outbox().completions().size(), 2u);
  EXPECT_EQ(aggregator_->outbox().completions()[0].completion.status, Status::kPeerLost)
      << "another came first";
  EXPECT_EQ(aggregator_->outbox().completions()[0].completion.culprit, 4);
}

TEST_F(VertexTest, AParentThatIsSilentAfterAReportIsNotWaitedFor) {
  make(false);
  announce_all();
  ASSERT_EQ(from_parent(message(VertexKind::kTileWanted)), Status::kOk);
  Notice cancel = notice();
  cancel.kind = wire::Kind::kCancel;
  announce(1, cancel);
  aggregator_->expire(5 * kSecond - 1);
  EXPECT_TRUE(aggregator_->outbox().completions().empty());
  aggregator_->expire(5 * kSecond);
  ASSERT_EQ(aggregator_->outbox().completions().size(), 2u);
  EXPECT_EQ(aggregator_->outbox().completions()[0].completion.status, Status::kCancelled);
  EXPECT_NE(aggregator_->outbox().completions()[0].completion.flags & wire::kStarted, 0)
      << "who knows";
}

TEST_F(VertexTest, AChildNodeIsAskedWhichRanksAreMissing) {
  make(true);
  for (SessionId m : {0u, 1u}) announce(m, notice());
  aggregator_->expire(kSecond);
  EXPECT_EQ(only<VertexMessage>(false).kind, VertexKind::kMissing);
  EXPECT_TRUE(aggregator_->outbox().completions().empty());
  EXPECT_EQ(aggregator_->next_deadline(), 2 * kSecond);
  Completion report = completion(Status::kDeadline, 3);
  report.missing = 1;
  ASSERT_EQ(aggregator_->handle_child_message(kChildNode, wire::encode(report), kSecond),
            Status::kOk);
  ASSERT_EQ(aggregator_->outbox().completions().size(), 2u);
  EXPECT_EQ(aggregator_->outbox().completions()[0].completion.culprit, 3);
  EXPECT_EQ(only<Completion>(false).culprit, 3) << "the child node is notified too";
}

TEST_F(VertexTest, AChildNodeThatDoesNotAnswerIsNobodysFault) {
  make(true);
  for (SessionId m : {0u, 1u}) announce(m, notice());
  aggregator_->expire(kSecond);
  aggregator_->expire(2 * kSecond);
  ASSERT_EQ(aggregator_->outbox().completions().size(), 2u);
  EXPECT_EQ(aggregator_->outbox().completions()[0].completion.status, Status::kDeadline);
  EXPECT_EQ(aggregator_->outbox().completions()[0].completion.culprit, wire::kNoRank);
  EXPECT_EQ(aggregator_->outbox().completions()[0].completion.missing, 1);
}

TEST_F(VertexTest, AskedForWhatItDoesNotKnowItNamesItsFirstRank) {
  make(false);
  ASSERT_EQ(from_parent(message(VertexKind::kMissing)), Status::kOk);
  const auto report = only<Completion>(true);
  EXPECT_EQ(report.status, Status::kDeadline);
  EXPECT_EQ(report.culprit, 0);
  EXPECT_EQ(report.cookie, 0u) << "the tree";
}

// Neither its parent connections nor its unsent messages reach the next job with its JobId.
TEST_F(VertexTest, AJobThatIsRemovedLeavesNothing) {
  make(false);
  announce_all();
  for (SessionId m : {0u, 1u, kChildNode}) aggregator_->gone(m, Status::kPeerLeft, 0);
  EXPECT_FALSE(aggregator_->outbox().messages_up().empty());
  aggregator_->remove_job(0);
  EXPECT_TRUE(aggregator_->outbox().messages_up().empty());
  JobSpec star{.epoch = 8, .ranks = 2};
  star.plan = even_partition(1, 1 << 30);
  star.vertices = {protocol::star(0, 2)};
  aggregator_->add_job(0, star);
  EXPECT_EQ(from_parent(message(VertexKind::kMissing)), Status::kProtocol);
  aggregator_->parent_gone(kParent, Status::kPeerLost, 0);
  aggregator_->join(0, 0, 0);
  Notice n = notice();
  n.epoch = 8;
  announce(0, n);
  EXPECT_TRUE(aggregator_->outbox().completions().empty()) << "it has lost nobody";
}

// Ranks that announce the operation later get the verdict at once.
TEST_F(VertexTest, AVerdictOnWhatIsNotKnownIsKept) {
  make(false);
  aggregator_->handle_parent_message(kParent, wire::encode(completion(Status::kDeadline, 4)), 0);
  EXPECT_EQ(only<Completion>(false).culprit, 4) << "handed on";
  announce(0, notice());
  ASSERT_EQ(aggregator_->outbox().completions().size(), 1u);
  EXPECT_EQ(aggregator_->outbox().completions()[0].completion.culprit, 4);
  announce(kChildNode, partial());
  EXPECT_TRUE(take(false).empty()) << "it has the verdict";
  announce(1, notice());
  EXPECT_EQ(aggregator_->inspect().operations(0), 0u);
}

// It must not be left to find out by its own deadline.
TEST_F(VertexTest, AChildNodeThatJoinsLateIsNotifiedOfFailures) {
  make(true, false);
  announce(0, notice());
  Notice other = notice();
  other.count += 1;
  announce(1, other);
  ASSERT_EQ(aggregator_->outbox().completions().size(), 2u);
  EXPECT_EQ(aggregator_->outbox().completions()[1].completion.status, Status::kMismatch);
  aggregator_->join(0, 4, kChildNode);
  const auto verdict = only<Completion>(false);
  EXPECT_EQ(verdict.status, Status::kMismatch);
  EXPECT_EQ(verdict.culprit, 1);
  EXPECT_EQ(verdict.tag, 1u);
  EXPECT_EQ(verdict.cookie, 0u) << "the tree";
  EXPECT_EQ(aggregator_->inspect().operations(0), 0u) << "all know";
  announce(kChildNode, partial());
  EXPECT_TRUE(take(false).empty()) << "it crossed";
}

TEST_F(VertexTest, AParentThatJoinsLateIsNotifiedOfFailuresBelow) {
  make(false, false);
  aggregator_->join(0, 5, kChildNode);
  const auto report = [&](std::uint32_t tag) {
    Completion c = completion(Status::kDeadline, 3);
    c.tag = tag;
    EXPECT_EQ(aggregator_->handle_child_message(kChildNode, wire::encode(c), 0), Status::kOk);
  };
  report(1);
  EXPECT_TRUE(take(true).empty());
  aggregator_->join_parent(0, 0, kParent, 44, 0);
  EXPECT_EQ(only<Completion>(true).culprit, 3);
  EXPECT_EQ(aggregator_->inspect().operations(0), 0u);
  make(false, false);
  aggregator_->join(0, 5, kChildNode);
  for (std::uint32_t tag = 0; tag < 100; ++tag) report(tag);
  aggregator_->join_parent(0, 0, kParent, 44, 0);
  EXPECT_EQ(take(true).size(), 4u) << "credit bounds what is kept";
}

// Landing memory has room for what the window lets be in flight: partial sums as wide as they are,
// which child nodes have yet to make.
TEST_F(VertexTest, TheWindowCountsPartialSumsAtTheirWidth) {
  config_.window_bytes = 28 << 10;
  make(true);
  Notice n = notice();
  n.type = ElementType::kBf16;
  for (SessionId m : {0u, 1u}) announce(m, n);
  n.flags = wire::kPartial;
  n.cookie = 0;
  announce(kChildNode, n);
  Tile first;
  Tile second;
  second.handle = 1;
  ASSERT_TRUE(aggregator_->tiles().start_tile(first));
  EXPECT_EQ(first.sources[0].bytes * 2 + first.sources[2].bytes, 64u << 10);
  EXPECT_FALSE(aggregator_->tiles().start_tile(second));
  aggregator_->tiles().end_tile(first, Status::kOk, kNoSession, 0);
  EXPECT_TRUE(aggregator_->tiles().start_tile(second));
}

TEST_F(VertexTest, ResultsThatWouldNotStayInTheCachesPassThemAtEveryVertex) {
  for (const bool large : {false, true}) {
    config_.stream_bytes = large ? kCount * 4 : UINT64_MAX;
    make(false);
    announce_all();
    ASSERT_EQ(from_parent(message(VertexKind::kTileResult)), Status::kOk);
    Tile tile;
    ASSERT_TRUE(aggregator_->tiles().start_down(tile));
    EXPECT_EQ(tile.stream, large);
  }
}

TEST_F(VertexTest, ALossIsKnownEverywhere) {
  make(false);
  announce(0, notice());
  aggregator_->gone(1, Status::kPeerLost, 0);
  const auto down = only<VertexMessage>(false);
  EXPECT_EQ(down.kind, VertexKind::kBroken);
  EXPECT_EQ(down.culprit, 1);
  announce(0, notice(2));
  ASSERT_EQ(take(true).size(), 1u) << "the next operation is reported, for the parent to judge";
  EXPECT_TRUE(aggregator_->outbox().completions().empty());
  aggregator_->parent_gone(kParent, Status::kPeerLost, 0);
  EXPECT_EQ(aggregator_->outbox().completions().size(), 2u) << "nobody is left to judge";
  announce(0, notice(3));
  EXPECT_EQ(aggregator_->outbox().completions().back().completion.culprit, 1);
}

}  // namespace
}  // namespace tally::protocol
