// What the protocol sends: completions to ranks, messages to other vertices, events for tiles in
// flight, and operations that are stuck. The units of the protocol add entries. The engine takes
// them after its calls, and clears each list. Everything runs in the shard's thread. The lists keep
// their memory, so only an entry beyond what reserve() asked for may throw std::bad_alloc.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "dataplane/protocol/scheduling/tile.h"
#include "dataplane/wire/completion.h"

namespace tally::protocol {

// A completion and the session that it goes to.
struct Outgoing {
  SessionId member = kNoSession;
  wire::Completion completion;
};

// An operation that has failed, and whose tiles do not end.
struct Stuck {
  JobId job = 0;
  PoolIndex operation = kNone;
};

class Outbox {
 public:
  // -- the protocol adds ---------------------------------------------------------------------
  void complete(const Outgoing& outgoing) { completions_.push_back(outgoing); }
  // Does nothing for kNoSession: the child node has not joined, or is gone.
  void send_down(SessionId child_node, const RingEntry& message) {
    if (child_node != kNoSession) messages_down_.push_back(TreeMessage{child_node, message});
  }
  // Does nothing for kNoParentId.
  void send_up(ParentId parent, const RingEntry& message) {
    if (parent != kNoParentId) messages_up_.push_back(TreeMessage{parent, message});
  }
  void add_event(const TileEvent& event) { tile_events_.push_back(event); }
  void add_stuck(const Stuck& stuck) { stuck_.push_back(stuck); }

  // The session has ended. What has not been sent to it is dropped, because the transport no longer
  // knows the peer.
  void drop_member(SessionId member) {
    std::erase_if(completions_, [&](const Outgoing& one) { return one.member == member; });
    std::erase_if(messages_down_, [&](const TreeMessage& one) { return one.to == member; });
  }
  void drop_parent(ParentId parent) {
    std::erase_if(messages_up_, [&](const TreeMessage& one) { return one.to == parent; });
  }

  // The most entries of a turn. Bursts of verdicts may have more.
  void reserve(std::size_t completions, std::size_t down, std::size_t up) {
    completions_.reserve(completions);
    messages_down_.reserve(down);
    messages_up_.reserve(up);
    tile_events_.reserve(down);
  }

  // -- the engine takes ----------------------------------------------------------------------
  // Completions to ranks.
  std::span<const Outgoing> completions() const { return completions_; }
  void clear_completions() { completions_.clear(); }
  // Messages to child nodes and to parents. The caller must send them in this order.
  std::span<const TreeMessage> messages_down() const { return messages_down_; }
  std::span<const TreeMessage> messages_up() const { return messages_up_; }
  void clear_tree_messages() { messages_down_.clear(), messages_up_.clear(); }
  // The events for which tiles in flight have waited. The caller must take them after every call
  // that may produce some: Tiles::stored(), end_tile(), end_down(), start_down(), and all events of
  // the Aggregator. A tile that has ended gets none.
  std::span<const TileEvent> tile_events() const { return tile_events_; }
  void clear_tile_events() { tile_events_.clear(); }
  // Failed operations whose verdicts have waited too long for their tiles. The caller must take
  // them after Aggregator::expire(), and disconnect the peers that these tiles wait for.
  std::span<const Stuck> stuck() const { return stuck_; }
  void clear_stuck() { stuck_.clear(); }

 private:
  std::vector<Outgoing> completions_;
  std::vector<TreeMessage> messages_down_;
  std::vector<TreeMessage> messages_up_;
  std::vector<TileEvent> tile_events_;
  std::vector<Stuck> stuck_;
};

}  // namespace tally::protocol
