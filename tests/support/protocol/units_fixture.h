// A fixture for tests of single units of the protocol, without the Aggregator.
#pragma once

#include <gtest/gtest.h>

#include <vector>

#include "dataplane/protocol/job/job_inspector.h"
#include "dataplane/protocol/matching/matching.h"
#include "dataplane/protocol/tiles/tiles.h"
#include "dataplane/protocol/verdicts/deadlines.h"
#include "dataplane/protocol/verdicts/losses.h"
#include "tests/support/protocol/two_levels.h"

namespace tally::protocol {

// The units, and one job of VertexTest's kind: ranks 0 and 1 are children, ranks 2 and 3 are below
// the child node (member 9), and rank 4 is elsewhere in the tree. The root has no rank 4.
class UnitsTest : public ::testing::Test {
 protected:
  static constexpr std::uint64_t kCount = 10'000;
  static constexpr SessionId kChildNode = 9;
  static constexpr ParentId kParent = 3;

  Job& make(bool root, bool connected = true) {
    JobSpec spec = two_levels(root);
    Job& job = jobs_.add(0, spec, false);
    scheduler_.add_job(0, {});
    scheduler_.reserve(0, 1, spec.credit);
    for (std::uint16_t rank : {0, 1}) jobs_.join(0, rank, rank);
    if (!connected) return job;
    jobs_.join(0, spec.ranks, kChildNode);
    if (!root) jobs_.join_parent(0, 0, kParent);
    return job;
  }

  static std::uint16_t child_node(const Job& job) { return job.spec.ranks; }

  // Adds an operation that these children have announced. It is ready when all three have.
  static PoolIndex add(Job& job, std::uint32_t tag, const std::vector<std::uint16_t>& children) {
    const PoolIndex index = job.table.create(OperationKey{0, 0, tag, 0}, 3);
    OperationRecord& operation = job.table[index];
    operation.shape.ranks = job.spec.ranks;
    operation.shape.count = operation.end = kCount;
    operation.deadline = kSecond;
    job.deadlines.insert(index, operation.deadline);
    for (const std::uint16_t child : children) {
      Announcement announcement;
      announcement.member = job.members[child].member;
      announcement.rank = child;
      announcement.cookie = 100 + child;
      job.table.mark(index, child);
      job.table.park(operation, announcement);
      ++job.members[child].outstanding;
    }
    if (children.size() < 3) return index;
    job.table.order_by_rank(operation);
    operation.state = OperationRecord::State::kActive;
    return index;
  }
  static PoolIndex add_ready(Job& job, std::uint32_t tag = 1) {
    return add(job, tag, {0, 1, child_node(job)});
  }

  static wire::VertexMessage message(wire::VertexKind kind, std::uint64_t first = 0,
                                     std::uint32_t buffer = 0) {
    wire::VertexMessage m;
    m.kind = kind;
    m.epoch = 7;
    m.tag = 1;
    m.first = first;
    m.count = 4096;
    m.buffer = buffer;
    return m;
  }

  // Returns the only message to the child node or to the parent, and clears both lists.
  template <typename Message>
  Message only(bool up) {
    const auto messages = up ? outbox_.messages_up() : outbox_.messages_down();
    Message parsed;
    EXPECT_EQ(messages.size(), 1u);
    if (messages.size() != 1 || wire::parse(messages[0].message, parsed) != Status::kOk) {
      ADD_FAILURE() << "another message was expected";
    }
    outbox_.clear_tree_messages();
    return parsed;
  }

  AggregatorConfig config_;
  Pacer pacer_;
  TileScheduler scheduler_{{{4 << 20, 64}, {4 << 20, 16}, {4 << 20, 16}}};
  TileSizing sizing_{nullptr};
  Backlog backlog_{UINT64_MAX};
  JobRegistry jobs_;
  Outbox outbox_;
  ParentNodes parents_{outbox_, scheduler_, sizing_, backlog_};
  ChildNodes children_{outbox_, parents_};
  Verdicts verdicts_{outbox_, scheduler_, pacer_, backlog_, parents_, children_};
  Losses losses_{jobs_, outbox_, verdicts_, parents_, children_};
  Deadlines deadlines_{jobs_, outbox_, verdicts_, parents_, children_};
  Matching matching_{config_, outbox_, scheduler_, sizing_, backlog_, verdicts_, parents_};
  JobInspector inspector_{jobs_, scheduler_};
};

}  // namespace tally::protocol
