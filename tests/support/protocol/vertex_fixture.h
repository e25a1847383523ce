// A fixture for tests of one vertex of a tree. The test plays the vertex's parent and its child
// node.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "dataplane/protocol/aggregator.h"
#include "tests/support/protocol/two_levels.h"

namespace tally::protocol {

// The job has five ranks. Ranks 0 and 1 are children of the vertex, ranks 2 and 3 are below its
// child node (member 9), and rank 4 is elsewhere in the tree. When the vertex is the root, there is
// no rank 4.
class VertexTest : public ::testing::Test {
 protected:
  using Completion = wire::Completion;
  using Notice = wire::Notice;
  using VertexKind = wire::VertexKind;
  using VertexMessage = wire::VertexMessage;

  static constexpr std::uint64_t kCount = 10'000;  // three tiles of 4096 elements
  static constexpr SessionId kChildNode = 9;
  static constexpr ParentId kParent = 3;

  // `connected`: whether the child node and the parent have joined.
  void make(bool root, bool connected = true) {
    config_.tile_bytes = 4096 * 4;
    config_.max_height = 3;
    aggregator_ = std::make_unique<Aggregator>(config_);
    const JobSpec spec = two_levels(root);
    aggregator_->add_job(0, spec);
    for (std::uint16_t rank : {0, 1}) aggregator_->join(0, rank, rank);
    if (!connected) return;
    aggregator_->join(0, spec.ranks, kChildNode);
    if (!root) aggregator_->join_parent(0, 0, kParent, 44, 0);
  }

  static Notice notice(std::uint32_t tag = 1) {
    Notice n;
    n.epoch = 7;
    n.tag = tag;
    n.cookie = 100 + tag;
    n.count = kCount;
    n.in_region = 1;
    n.out_region = 2;
    n.deadline_ms = 1000;
    return n;
  }
  static Notice partial(std::uint32_t tag = 1) {
    Notice n = notice(tag);
    n.flags = wire::kPartial;
    n.cookie = 0;  // the number of the tree
    n.in_region = 5;
    n.out_region = 0;
    return n;
  }
  void announce(SessionId member, const Notice& n, Nanos now = 0) {
    aggregator_->announce(member, n, Status::kOk, now);
  }
  void announce_all(std::uint32_t tag = 1) {
    for (SessionId m : {1u, 0u}) announce(m, notice(tag));
    announce(kChildNode, partial(tag));
  }

  static VertexMessage message(VertexKind kind, std::uint64_t first = 0, std::uint32_t buffer = 0,
                               std::uint32_t count = 4096) {
    VertexMessage m;
    m.kind = kind;
    m.epoch = 7;
    m.tag = 1;
    if (kind == VertexKind::kMissing) return m;
    m.first = first;
    m.count = count;
    m.buffer = buffer;
    return m;
  }
  Status from_child_node(const VertexMessage& m) {
    return aggregator_->handle_child_message(kChildNode, wire::encode(m), 0);
  }
  Status from_parent(const VertexMessage& m, Nanos now = 0) {
    return aggregator_->handle_parent_message(kParent, wire::encode(m), now);
  }
  static Completion completion(Status status, std::uint16_t culprit = wire::kNoRank) {
    Completion c;
    c.status = status;
    c.culprit = culprit;
    c.epoch = 7;
    c.tag = 1;
    return c;
  }

  // Returns the messages to the child node or to the parent since the last call.
  std::vector<RingEntry> take(bool up) {
    std::vector<RingEntry> messages;
    for (const TreeMessage& tree_message :
         up ? aggregator_->outbox().messages_up() : aggregator_->outbox().messages_down()) {
      EXPECT_EQ(tree_message.to, up ? kParent : kChildNode);
      messages.push_back(tree_message.message);
    }
    aggregator_->outbox().clear_tree_messages();
    return messages;
  }
  template <typename Message>
  Message only(bool up) {
    const auto messages = take(up);
    EXPECT_EQ(messages.size(), 1u);
    Message parsed;
    if (messages.size() != 1 || wire::parse(messages[0], parsed) != Status::kOk) {
      ADD_FAILURE() << "another message was expected";
    }
    return parsed;
  }
  TileEvent tile_event() {
    EXPECT_EQ(aggregator_->outbox().tile_events().size(), 1u);
    const TileEvent one = aggregator_->outbox().tile_events().empty()
                              ? TileEvent{}
                              : aggregator_->outbox().tile_events()[0];
    aggregator_->outbox().clear_tile_events();
    return one;
  }
  // Acts as an engine that has pushed the result to the child node.
  void pass_down(Tile& tile, const TileEvent& push) {
    tile.below[push.index].buffer = push.buffer;
    aggregator_->tiles().passed_down(tile, push.index);
  }
  void sum(Tile& tile) {
    aggregator_->tiles().pulling(tile, 0);
    aggregator_->tiles().storing(tile, 0);
    aggregator_->tiles().stored(tile, 0);
  }

  AggregatorConfig config_;
  std::unique_ptr<Aggregator> aggregator_;
};

}  // namespace tally::protocol
