// Which address of cluster.coordinators a node joins. Where the nodes elect their coordinator in a
// store (cluster.store), the node joins the acting coordinator with the highest term. Otherwise it
// prefers a coordinator with members, and then takes the first address that answers. At most one
// node may choose its own address.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "base/clock.h"
#include "base/result.h"

namespace tally::rpc {
class RpcChannel;
}

namespace tally::control {

// What the node at an address reports about itself (method cluster.coordinator).
struct CoordinatorAnswer {
  bool answers = false;
  bool is_this_node = false;
  bool has_members = false;
  bool is_electing = false;  // it has found no coordinator yet, and may join itself
  // Of a node with cluster.store: its term; 0: it does not act now. nullopt: no such node.
  std::optional<std::uint64_t> term{};
};

struct CoordinatorChoice {
  std::optional<std::size_t> join;  // index of the address; none: ask again
  bool step_aside = false;          // an earlier node in the list may join itself
};

// Chooses from the answers, which are in the order of the list. A node that may join itself first
// sets is_electing and then asks all addresses. So of two such nodes at least one sees the other,
// and the later one in the list waits. patient: the node also waits for later nodes that may join
// themselves; a node is patient for as long as a start takes. least_term: the highest term that the
// node knows; it joins no coordinator of a lower one.
CoordinatorChoice choose_coordinator(std::span<const CoordinatorAnswer> answers, bool patient,
                                     std::uint64_t least_term = 0);

// Asks the node behind `channel`. instance is this node's own. Returns an error when there is no
// valid answer before the deadline.
Result<CoordinatorAnswer> ask_coordinator(rpc::RpcChannel& channel, std::string_view instance,
                                          Nanos deadline);

}  // namespace tally::control
