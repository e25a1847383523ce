// Which nodes stand still. A node asks for news again at once when it has an answer, so each
// request is a heartbeat. A node that does not ask within FaultTimeouts::heartbeat() after an
// answer is *silent*: its process is stopped, or the network between does not pass its requests. A
// node that has lost its coordinator is silent when it does not join the next one within
// node_rejoin().
//
// The coordinator itself may stand still or be busy, and read the requests of that time only
// afterwards. So a node is silent when it is late at two looks that are second_look() apart,
// because the coordinator reads its connections between them. A second look that comes late shows
// that the coordinator is still behind, and counts as a first one.
//
// The coordinator's thread calls this, with the time; no call fails.
#pragma once

#include <map>
#include <vector>

#include "base/clock.h"
#include "base/timeouts/fault_timeouts.h"
#include "control/coordinator/records/store.h"

namespace tally::control {

inline constexpr Nanos kOnTime = 100 * kMillisecond;  // limit for the delay of a look

class Heartbeats {
 public:
  explicit Heartbeats(Nanos second_look = FaultTimeouts{}.second_look())
      : second_look_(second_look) {}

  // The node must ask until then. Later calls replace earlier ones.
  void expect(NodeId node, Nanos until) { waits_[node] = {until, false}; }
  void asked(NodeId node) { waits_.erase(node); }
  void erase(NodeId node) { waits_.erase(node); }

  // The nodes that are silent since the last call; each is returned once, until it asks again.
  std::vector<NodeId> take_silent(Nanos now);
  Nanos next_deadline() const;  // kForever when there is none

 private:
  struct Wait {
    Nanos until = 0;
    bool is_late = false;
  };

  Nanos second_look_;
  std::map<NodeId, Wait> waits_;  // for the next request of each node
};

}  // namespace tally::control
