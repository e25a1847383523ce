// What a one-sided transport has for the shard and the shard has not taken yet: notices of peers,
// and the answers to its pulls and pushes. The transport adds, the shard takes in the same order.
// Notices count against their peer until the shard takes them.
#pragma once

#include <cstddef>
#include <deque>
#include <span>
#include <vector>

#include "dataplane/transport/answers.h"
#include "dataplane/transport/transport.h"

namespace tally::transport::onesided {

// One thread. Throws std::bad_alloc without memory.
class Inbox {
 public:
  // How many notices of a peer may wait here: more than any credit, with as many cancels.
  static constexpr std::size_t kMostNotices = 8192;

  // Returns false when the peer has more notices here than kMostNotices.
  bool add(const Received& notice);
  void add(const Pulled& answer) { pulled_.push_back(answer); }
  void add(const Pushed& answer) { pushed_.push_back(answer); }

  // Each fills the front of out and returns the number of entries.
  std::size_t take(std::span<Received> out);
  std::size_t take(std::span<Pulled> out) { return transport::take(pulled_, out); }
  std::size_t take(std::span<Pushed> out) { return transport::take(pushed_, out); }

  // Drops the peer's notices. The answers stay, because the shard waits for each.
  void forget(Peer peer);
  bool empty() const { return received_.empty() && pulled_.empty() && pushed_.empty(); }

 private:
  std::deque<Received> received_;
  std::vector<std::size_t> notices_;  // by Peer: how many in received_ are its own
  std::deque<Pulled> pulled_;
  std::deque<Pushed> pushed_;
};

}  // namespace tally::transport::onesided
