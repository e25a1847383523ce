// For tests of one vertex of a tree: its neighbours are played by the test.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "dataplane/protocol/aggregator.h"

namespace tally::protocol {

// Five ranks: 0 and 1 are children here, 2 and 3 below the branch (member 9), 4 is elsewhere. As
// the root there is no 4.
class VertexTest : public ::testing::Test {
 protected:
  using Completion = wire::Completion;
  using Notice = wire::Notice;
  using VertexKind = wire::VertexKind;
  using VertexMessage = wire::VertexMessage;

  static constexpr std::uint64_t kCount = 10'000;  // three tiles of 4096 elements
  static constexpr Member kBranch = 9;
  static constexpr Link kParent = 3;

  // `connected`: the branch and the parent are there.
  void make(bool root, bool connected = true) {
    config_.tile_bytes = 4096 * 4;
    config_.max_height = 3;
    aggregator_ = std::make_unique<Aggregator>(config_);
    JobSpec spec{.epoch = 7, .ranks = std::uint16_t(root ? 4 : 5), .credit = 4};
    spec.plan = even_plan(1, 1 << 30);
    Vertex vertex;
    vertex.height = 2;
    vertex.ranks = {0, 1};
    vertex.branches = {Branch{0, {2, 3}}};
    if (!root) vertex.parent = 0;
    spec.vertices = {vertex};
    spec.branches = 1;
    spec.parents = root ? 0 : 1;
    spec.slots = SlotLayout{.bytes = 32 << 10, .up = 2, .down = 2, .classes = 2};
    aggregator_->add_job(0, spec);
    for (std::uint16_t rank : {0, 1}) aggregator_->join(0, rank, rank);
    if (!connected) return;
    aggregator_->join(0, spec.ranks, kBranch);
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
    n.cookie = 0;  // the tree
    n.in_region = 5;
    n.out_region = 0;
    return n;
  }
  void announce(Member member, const Notice& n, Nanos now = 0) {
    aggregator_->announce(member, n, Status::kOk, now);
  }
  void announce_all(std::uint32_t tag = 1) {
    for (Member m : {1u, 0u}) announce(m, notice(tag));
    announce(kBranch, partial(tag));
  }

  static VertexMessage message(VertexKind kind, std::uint64_t first = 0, std::uint32_t slot = 0,
                               std::uint32_t count = 4096) {
    VertexMessage m;
    m.kind = kind;
    m.epoch = 7;
    m.tag = 1;
    if (kind == VertexKind::kMissing) return m;
    m.first = first;
    m.count = count;
    m.slot = slot;
    return m;
  }
  Status from_branch(const VertexMessage& m) {
    return aggregator_->heard(kBranch, wire::encode(m), 0);
  }
  Status from_parent(const VertexMessage& m, Nanos now = 0) {
    return aggregator_->heard_above(kParent, wire::encode(m), now);
  }
  static Completion completion(Status status, std::uint16_t culprit = wire::kNoRank) {
    Completion c;
    c.status = status;
    c.culprit = culprit;
    c.epoch = 7;
    c.tag = 1;
    return c;
  }

  // What was sent to the branch or to the parent since the last time.
  std::vector<RingSlot> take(bool up) {
    std::vector<RingSlot> messages;
    for (const Letter& letter : up ? aggregator_->letters_up() : aggregator_->letters_down()) {
      EXPECT_EQ(letter.to, up ? kParent : kBranch);
      messages.push_back(letter.message);
    }
    aggregator_->clear_letters();
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
  Step step() {
    EXPECT_EQ(aggregator_->steps().size(), 1u);
    const Step one = aggregator_->steps().empty() ? Step{} : aggregator_->steps()[0];
    aggregator_->clear_steps();
    return one;
  }
  // As an engine that has pushed the result there.
  void pass_down(Tile& tile, const Step& push) {
    tile.below[push.index].slot = push.slot;
    aggregator_->passed_down(tile, push.index);
  }
  void sum(Tile& tile) {
    aggregator_->pulling(tile, 0);
    aggregator_->storing(tile, 0);
    aggregator_->stored(tile, 0);
  }

  AggregatorConfig config_;
  std::unique_ptr<Aggregator> aggregator_;
};

}  // namespace tally::protocol
