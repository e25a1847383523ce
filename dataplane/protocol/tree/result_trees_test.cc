// What a vertex does where results go another way than sums. Whole trees are simulated in
// tests/sim/trees.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/protocol/vertex_fixture.h"

namespace tally::protocol {
namespace {

// Tree 0 has the sums, tree 1 their results. Ranks 0 and 1 and the child node are children in
// tree 0. In tree 1 the child node has rank 1 below it, too.
class ResultTreesTest : public VertexTest {
 protected:
  // `below_both`: the child node is below the vertex of the results, too.
  void make_both(bool root, bool below_both = true) {
    config_.tile_bytes = 4096 * 4;
    config_.max_height = 3;
    aggregator_ = std::make_unique<Aggregator>(config_);
    JobSpec spec = two_levels(root);
    spec.plan.trees = 2;
    spec.plan.result_trees = {1, kNoTree};
    Vertex results = spec.vertices[0];
    results.tree = 1;
    results.ranks = below_both ? std::vector<std::uint16_t>{0} : std::vector<std::uint16_t>{0, 1};
    results.child_nodes.clear();
    if (below_both) results.child_nodes = {ChildNode{0, {1, 2, 3}}};
    spec.vertices.push_back(results);
    aggregator_->add_job(0, spec);
    for (std::uint16_t rank : {0, 1}) aggregator_->join(0, rank, rank);
    aggregator_->join(0, spec.ranks, kChildNode);
    if (!root) aggregator_->join_parent(0, 0, kParent, 44, 0);
  }

  static Notice of_part(std::uint16_t part) {
    Notice n = notice();
    n.count = 4096;
    n.part = part;
    return n;
  }
  static Notice partial_of(std::uint16_t part) {
    Notice n = partial();
    n.count = 4096;
    n.part = part;
    n.cookie = part;  // the number of the tree
    return n;
  }
  void announce_sums() {
    for (SessionId m : {1u, 0u}) announce(m, of_part(0));
    announce(kChildNode, partial_of(0));
  }
  void announce_results() {
    announce(0, of_part(1));
    announce(kChildNode, partial_of(1));
  }
  // By session and part, sorted.
  std::vector<std::pair<SessionId, std::uint16_t>> completions(Status status) {
    std::vector<std::pair<SessionId, std::uint16_t>> list;
    for (const Outgoing& one : aggregator_->outbox().completions()) {
      EXPECT_EQ(one.completion.status, status);
      list.emplace_back(one.member, one.completion.part);
    }
    aggregator_->outbox().clear_completions();
    std::sort(list.begin(), list.end());
    return list;
  }

  const std::vector<std::pair<SessionId, std::uint16_t>> all_ = {{0, 0}, {0, 1}, {1, 0}};
};

TEST_F(ResultTreesTest, TheRootPullsInOneTreeAndPlacesInTheOther) {
  make_both(true);
  announce_sums();
  announce_results();
  Tile tile;
  ASSERT_TRUE(aggregator_->tiles().start_tile(tile));
  EXPECT_EQ(tile.sources.size(), 3u);
  ASSERT_EQ(tile.landings.size(), 1u) << "rank 1 gets its result elsewhere";
  EXPECT_EQ(tile.landings[0].member, 0u);
  EXPECT_EQ(tile.members, (std::vector<SessionId>{0, 1, kChildNode})) << "each once";
  ASSERT_EQ(tile.below.size(), 1u);
  VertexMessage ready = only<VertexMessage>(false);
  EXPECT_EQ(ready.tree, 0u);
  ready.kind = VertexKind::kTileReady;
  ASSERT_EQ(from_child_node(ready), Status::kOk);
  tile_event();
  sum(tile);
  pass_down(tile, tile_event());
  VertexMessage result = only<VertexMessage>(false);
  EXPECT_EQ(result.kind, VertexKind::kTileResult);
  EXPECT_EQ(result.tree, 1u);
  EXPECT_EQ(result.part, 1u);
  aggregator_->tiles().end_tile(tile, Status::kOk, kNoSession, 0);
  EXPECT_TRUE(completions(Status::kOk).empty()) << "it is not placed everywhere";
  result.kind = VertexKind::kTilePlaced;
  ASSERT_EQ(from_child_node(result), Status::kOk);
  EXPECT_EQ(completions(Status::kOk), all_);
  EXPECT_EQ(take(false).size(), 2u) << "a completion in each tree";
  EXPECT_EQ(aggregator_->inspect().operations(0), 0u);
  EXPECT_TRUE(aggregator_->inspect().buffers_free(0));
}

TEST_F(ResultTreesTest, AnOperationIsReadyWhenBothTreesHaveAnnouncedIt) {
  for (const bool sums_first : {true, false}) {
    make_both(true);
    sums_first ? announce_sums() : announce_results();
    Tile tile;
    EXPECT_FALSE(aggregator_->tiles().start_tile(tile));
    ASSERT_EQ(aggregator_->inspect().waiting(0).size(), 1u);
    EXPECT_EQ(aggregator_->inspect().waiting(0)[0].missing.front(), 0u);
    sums_first ? announce_results() : announce_sums();
    EXPECT_TRUE(aggregator_->tiles().start_tile(tile));
  }
}

TEST_F(ResultTreesTest, TheDeadlineNamesWhoIsMissingInTheOtherTree) {
  make_both(true);
  announce_sums();
  announce(kChildNode, partial_of(1));
  aggregator_->expire(2 * kSecond);
  ASSERT_EQ(aggregator_->outbox().completions().size(), 2u);
  EXPECT_EQ(aggregator_->outbox().completions()[0].completion.culprit, 0u);
  completions(Status::kDeadline);
  announce(0, of_part(1), 2 * kSecond);
  EXPECT_EQ(completions(Status::kDeadline).size(), 1u) << "the verdict is kept for a late rank";
  EXPECT_EQ(aggregator_->inspect().operations(0), 0u);
}

TEST_F(ResultTreesTest, ChildNodesThatAreMissingInTheOtherTreeAreAsked) {
  make_both(true);
  announce_sums();
  announce(0, of_part(1));
  aggregator_->expire(2 * kSecond);
  const auto asked = only<VertexMessage>(false);
  EXPECT_EQ(asked.kind, VertexKind::kMissing);
  EXPECT_EQ(asked.tree, 1u);
  aggregator_->expire(4 * kSecond);
  EXPECT_EQ(completions(Status::kDeadline), all_);
}

TEST_F(ResultTreesTest, AFailureInOneTreeEndsBoth) {
  for (const std::uint16_t part : {0, 1}) {
    make_both(true);
    announce_sums();
    announce_results();
    Notice cancel = of_part(part);
    cancel.kind = wire::Kind::kCancel;
    announce(0, cancel);
    EXPECT_EQ(completions(Status::kCancelled), all_);
    EXPECT_EQ(aggregator_->inspect().operations(0), 0u);
  }
}

TEST_F(ResultTreesTest, ARankThatIsGoneGetsNothing) {
  make_both(true);
  announce_sums();
  announce_results();
  aggregator_->gone(0, Status::kPeerLost, 0);
  EXPECT_EQ(completions(Status::kPeerLost), (decltype(all_){{1, 0}}));
}

TEST_F(ResultTreesTest, AReportOfAnUnknownOperationIsKeptInBothTrees) {
  make_both(true);
  Completion report = completion(Status::kDeadline, 2);
  report.cookie = 1;
  report.part = 1;
  EXPECT_EQ(aggregator_->handle_child_message(kChildNode, wire::encode(report), 0), Status::kOk);
  for (SessionId m : {1u, 0u}) announce(m, of_part(0));
  announce(0, of_part(1));
  EXPECT_EQ(completions(Status::kDeadline), all_);
}

TEST_F(ResultTreesTest, SumsAndResultsKeepToTheirTrees) {
  make_both(false);
  announce_sums();
  announce_results();
  EXPECT_EQ(take(true).size(), 2u) << "it announces in both";
  const auto in = [](std::uint32_t tree, VertexKind kind) {
    VertexMessage m = message(kind);
    m.tree = tree;
    m.part = static_cast<std::uint16_t>(tree);
    return m;
  };
  EXPECT_EQ(from_parent(in(1, VertexKind::kTileWanted)), Status::kProtocol);
  EXPECT_EQ(from_parent(in(0, VertexKind::kTileResult)), Status::kProtocol);
  EXPECT_EQ(from_parent(in(0, VertexKind::kTileWanted)), Status::kOk);
  EXPECT_EQ(from_parent(in(1, VertexKind::kTileResult)), Status::kOk);
  Tile down;
  ASSERT_TRUE(aggregator_->tiles().start_down(down));
  EXPECT_EQ(down.landings.size(), 1u);
  Tile up;
  ASSERT_TRUE(aggregator_->tiles().start_tile(up));
  EXPECT_EQ(up.sources.size(), 3u);
  EXPECT_TRUE(up.landings.empty());
}

TEST_F(ResultTreesTest, ADisagreementNamesARankThatIsBelowTheOtherRootAlone) {
  make_both(true, false);
  announce(kChildNode, partial_of(0));
  Notice other = of_part(1);
  other.count = 8192;
  announce(0, other);
  ASSERT_EQ(aggregator_->outbox().completions().size(), 1u);
  const Completion& completion = aggregator_->outbox().completions()[0].completion;
  EXPECT_EQ(completion.status, Status::kMismatch);
  EXPECT_EQ(completion.culprit, 0u);
  EXPECT_EQ(completion.witness, 2u) << "the first rank below the child node";
}

// Each of them has a record in both trees.
TEST_F(ResultTreesTest, VerdictsOfAsManyOperationsAsThereIsCreditAreKept) {
  const std::uint32_t credit = two_levels(true).credit;
  make_both(true);
  const auto tagged = [](std::uint32_t tag) {
    Notice n = of_part(0);
    n.tag = tag;
    return n;
  };
  for (std::uint32_t i = 0; i < credit; ++i) announce(0, tagged(i));
  for (const Nanos now : {2 * kSecond, 4 * kSecond}) aggregator_->expire(now);  // it asks first
  EXPECT_EQ(completions(Status::kDeadline).size(), credit);
  for (std::uint32_t i = 0; i < credit; ++i) {
    announce(1, tagged(i), 4 * kSecond);
    EXPECT_EQ(completions(Status::kDeadline).size(), 1U) << "tag " << i;
  }
}

TEST_F(ResultTreesTest, WithoutOneAResultMayOvertakeARequest) {
  make(false);
  const auto gather = [](Notice n) {
    n.kind = wire::Kind::kAllGather;
    n.count = 5 * 4096;  // a block of each rank
    return n;
  };
  for (SessionId m : {1u, 0u}) announce(m, gather(notice()));
  announce(kChildNode, gather(partial()));
  take(true);
  // The share of rank 4, which is elsewhere, comes down before the parent asks for that of rank 0.
  EXPECT_EQ(from_parent(message(VertexKind::kTileResult, 4 * 4096)), Status::kOk);
  EXPECT_EQ(from_parent(message(VertexKind::kTileWanted, 0)), Status::kOk);
}

}  // namespace
}  // namespace tally::protocol
