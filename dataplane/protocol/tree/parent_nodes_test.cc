#include "dataplane/protocol/tree/parent_nodes.h"

#include "tests/support/protocol/units_fixture.h"

namespace tally::protocol {
namespace {

using wire::VertexKind;
using wire::VertexMessage;
using ParentNodesTest = UnitsTest;

TEST_F(ParentNodesTest, RequestsMustAscendAndBeTiles) {
  Job& job = make(false);
  const PoolIndex index = add_ready(job);
  ASSERT_EQ(parents_.tile_wanted(job, 0, message(VertexKind::kTileWanted, 4096)), Status::kOk);
  EXPECT_FALSE(backlog_.empty());
  EXPECT_TRUE(scheduler_.has_ready());
  EXPECT_EQ(parents_.tile_wanted(job, 0, message(VertexKind::kTileWanted, 0, 1)),
            Status::kProtocol);
  EXPECT_EQ(parents_.tile_wanted(job, 0, message(VertexKind::kTileWanted, 8192, 0)),
            Status::kProtocol)
      << "the buffer is in use";
  VertexMessage across = message(VertexKind::kTileWanted, 8192, 1);
  EXPECT_EQ(parents_.tile_wanted(job, 0, across), Status::kProtocol) << "past the end";
  across.count = kCount - 8192;
  EXPECT_EQ(parents_.tile_wanted(job, 0, across), Status::kOk);
  const auto first = ParentNodes::take_request(job, job.table[index]);
  EXPECT_EQ(first.first, 4096u);
  EXPECT_EQ(first.own.parent_id, kParent);
  const auto second = ParentNodes::take_request(job, job.table[index]);
  EXPECT_EQ(second.first, 8192u);
  EXPECT_EQ(second.own.index, 1u);
  EXPECT_EQ(job.table[index].first_wanted, kNone);
}

TEST_F(ParentNodesTest, RequestsOfAFailedOperationGetVoidAnswers) {
  Job& job = make(false);
  const PoolIndex index = add_ready(job);
  ASSERT_EQ(parents_.tile_wanted(job, 0, message(VertexKind::kTileWanted)), Status::kOk);
  ASSERT_EQ(parents_.tile_wanted(job, 0, message(VertexKind::kTileWanted, 4096, 1)), Status::kOk);
  parents_.refuse_requests(job, job.table[index]);
  EXPECT_TRUE(backlog_.empty());
  ASSERT_EQ(outbox_.messages_up().size(), 2u);
  for (const TreeMessage& one : outbox_.messages_up()) {
    VertexMessage answer;
    ASSERT_EQ(wire::parse(one.message, answer), Status::kOk);
    EXPECT_EQ(answer.kind, VertexKind::kTileReady);
    EXPECT_NE(answer.flags & wire::kVoid, 0);
  }
  EXPECT_TRUE(inspector_.buffers_free(0));
}

TEST_F(ParentNodesTest, ReportsWaitForTheParent) {
  Job& job = make(false, false);
  const Verdict verdict{.status = Status::kDeadline, .culprit = 2};
  for (std::uint32_t tag = 0; tag < 10; ++tag) {
    parents_.pass_on(job, 0, OperationKey{0, 0, tag, 0}, 0, verdict);
  }
  EXPECT_TRUE(outbox_.messages_up().empty());
  jobs_.join_parent(0, 0, kParent);
  parents_.joined(job, 0, 0);
  EXPECT_EQ(outbox_.messages_up().size(), job.spec.credit) << "no more than ranks may have failed";
}

TEST_F(ParentNodesTest, AParentThatJoinsLateGetsTheAnnouncement) {
  Job& job = make(false, false);
  jobs_.join(0, child_node(job), kChildNode);
  const PoolIndex index = add_ready(job);
  parents_.announce(job, index, 0);
  EXPECT_EQ(job.table[index].deadline, kSecond + 4 * kSecond) << "the parent is first to see it";
  EXPECT_TRUE(outbox_.messages_up().empty());
  jobs_.join_parent(0, 0, kParent);
  parents_.joined(job, 0, 400 * kMillisecond);
  const auto notice = only<wire::Notice>(true);
  EXPECT_EQ(notice.flags, wire::kPartial);
  EXPECT_EQ(notice.deadline_ms, 601u);
}

TEST_F(ParentNodesTest, AResultIsAnsweredWhenTheLastHasIt) {
  Job& job = make(false);
  const PoolIndex index = add_ready(job);
  ASSERT_EQ(parents_.tile_result(job, 0, message(VertexKind::kTileResult)), Status::kOk);
  EXPECT_EQ(job.table[index].tiles_in_flight, 1u);
  ASSERT_TRUE(parents_.has_results());
  EXPECT_EQ(parents_.take_result().buffer, 0u);
  EXPECT_FALSE(parents_.has_results());
  ++job.parents[0].down[0].pending;  // a child node
  parents_.placed(job, 0, 0);
  EXPECT_TRUE(outbox_.messages_up().empty());
  parents_.placed(job, 0, 0);
  EXPECT_EQ(only<VertexMessage>(true).kind, VertexKind::kTilePlaced);
}

TEST_F(ParentNodesTest, AResultOfAnUnknownOperationIsAnsweredAtOnce) {
  Job& job = make(false);
  ASSERT_EQ(parents_.tile_result(job, 0, message(VertexKind::kTileResult)), Status::kOk);
  EXPECT_FALSE(parents_.has_results());
  EXPECT_EQ(only<VertexMessage>(true).kind, VertexKind::kTilePlaced);
}

}  // namespace
}  // namespace tally::protocol
