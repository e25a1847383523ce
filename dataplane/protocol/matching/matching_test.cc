// Matching at vertices with child nodes and parents. aggregator_test.cc has stars.
#include "dataplane/protocol/matching/matching.h"

#include "tests/support/protocol/units_fixture.h"

namespace tally::protocol {
namespace {

using wire::Notice;

class MatchingTest : public UnitsTest {
 protected:
  static Notice notice() {
    Notice n;
    n.epoch = 7;
    n.tag = 1;
    n.count = kCount;
    n.in_region = 1;
    n.out_region = 2;
    return n;
  }
  static Notice partial() {
    Notice n = notice();
    n.flags = wire::kPartial;
    n.in_region = 5;
    return n;
  }
  void announce(Job& job, std::uint16_t child, const Notice& n) {
    matching_.announce(job, child, n, Status::kOk, 0);
  }
};

TEST_F(MatchingTest, TheLastNoticeMakesAnOperationReady) {
  Job& job = make(true);
  announce(job, 1, notice());
  announce(job, child_node(job), partial());
  EXPECT_FALSE(scheduler_.has_ready());
  announce(job, 0, notice());
  EXPECT_TRUE(scheduler_.has_ready());
  EXPECT_FALSE(backlog_.empty());
  EXPECT_EQ(job.child_nodes[0].region, 5u);
  std::vector<std::uint16_t> order;
  for (PoolIndex i = job.table[0].announcements; i != kNone; i = job.table.announcement(i).next) {
    order.push_back(job.table.announcement(i).rank);
  }
  EXPECT_EQ(order, (std::vector<std::uint16_t>{0, 1, child_node(job)}));
}

TEST_F(MatchingTest, BelowAParentAReadyOperationIsAnnounced) {
  Job& job = make(false);
  for (const std::uint16_t rank : {0, 1}) announce(job, rank, notice());
  announce(job, child_node(job), partial());
  EXPECT_EQ(only<Notice>(true).flags, wire::kPartial);
  EXPECT_FALSE(scheduler_.has_ready()) << "the parent requests the tiles";
}

TEST_F(MatchingTest, RanksAndChildNodesAnnounceDifferently) {
  Job& job = make(true);
  announce(job, 0, partial());
  ASSERT_EQ(outbox_.completions().size(), 1u);
  EXPECT_EQ(outbox_.completions()[0].completion.status, Status::kInvalidArgument);
  announce(job, child_node(job), notice());
  EXPECT_EQ(only<wire::Completion>(false).status, Status::kInvalidArgument);
  EXPECT_EQ(job.table.size(), 0u);
  EXPECT_EQ(job.members[0].counters.failures, 1u);
}

TEST_F(MatchingTest, AChildNodeGetsNoAnswerForADuplicate) {
  Job& job = make(true);
  announce(job, child_node(job), partial());
  announce(job, child_node(job), partial());
  EXPECT_TRUE(outbox_.messages_down().empty());
  announce(job, 0, notice());
  announce(job, 0, notice());
  ASSERT_EQ(outbox_.completions().size(), 1u);
  EXPECT_EQ(outbox_.completions()[0].completion.status, Status::kDuplicate);
}

TEST_F(MatchingTest, ADisagreementWithAChildNodeNamesItsFirstRank) {
  Job& job = make(true);
  announce(job, child_node(job), partial());
  Notice other = notice();
  other.count = 9'999;
  announce(job, 1, other);
  ASSERT_EQ(outbox_.completions().size(), 1u);
  EXPECT_EQ(outbox_.completions()[0].completion.witness, 2);
  EXPECT_EQ(outbox_.completions()[0].completion.culprit, 1);
}

TEST_F(MatchingTest, TheExtentsOfAChildNodeAreItsBuffers) {
  const Job& job = make(true);
  const Extents of_node = extents_of(job, child_node(job), kChildNode, partial());
  EXPECT_EQ(of_node.in.bytes, job.spec.buffers.total_bytes());
  EXPECT_EQ(of_node.out.bytes, 0u);
  const Extents of_rank = extents_of(job, 0, 0, notice());
  EXPECT_EQ(of_rank.in.bytes, kCount * 4);
  EXPECT_EQ(of_rank.out.bytes, kCount * 4);
  EXPECT_EQ(of_rank.side.bytes, 0u);
}

}  // namespace
}  // namespace tally::protocol
