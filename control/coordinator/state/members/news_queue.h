// The news that wait for each node: assignments to serve, and assignments that are withdrawn. A
// node asks for news and waits until there is some, or until its wait ends. A node that does not
// ask again for FaultTimeouts::node_silence() is silent. The coordinator calls this on its thread,
// with the time; no call fails. Precondition of the calls with a node, except listen(): add() has
// been called for the node.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "base/clock.h"
#include "base/timeouts/fault_timeouts.h"
#include "control/coordinator/records/job_assignment.h"
#include "control/coordinator/records/store.h"

namespace tally::control {

inline constexpr Nanos kTogether = 250 * kMillisecond;

struct NodeNews {
  NodeId node = 0;
  std::vector<JobAssignment> placements;
  std::vector<std::uint64_t> withdraw;
};

class NewsQueue {
 public:
  // `silence` is FaultTimeouts::node_silence().
  explicit NewsQueue(Nanos silence = FaultTimeouts{}.node_silence()) : silence_(silence) {}

  // The node must ask for news within `silence`. Its news wait, also those from before this call.
  void add(NodeId node, Nanos now, Nanos silence);
  void add(NodeId node, Nanos now) { add(node, now, silence_); }
  void erase(NodeId node) { listeners_.erase(node); }
  // The node waits for news until then. Does nothing for a node that has left.
  void listen(NodeId node, Nanos until);

  // Does nothing when the assignment waits already.
  void assign(NodeId node, JobAssignment assignment);
  // Returns whether the node knows the assignment, and so must be notified. Otherwise the
  // assignment leaves the queue, and the node never learns of it.
  bool withdraw(NodeId node, std::uint64_t assignment);

  // The nodes that have not asked for too long.
  std::vector<NodeId> silent(Nanos now) const;
  // The news to send now. Each of these nodes must listen again. When a wait has ended, those that
  // end within kTogether end too: nodes then ask together, and an idle coordinator seldom wakes up.
  std::vector<NodeNews> take(Nanos now);
  Nanos next_deadline() const;  // kForever when there is none

 private:
  struct Listener {
    NodeNews news;
    bool listens = false;
    Nanos until = 0;  // end of the wait; when it does not listen: the time by which it must
  };

  Nanos silence_;
  std::map<NodeId, Listener> listeners_;
};

}  // namespace tally::control
