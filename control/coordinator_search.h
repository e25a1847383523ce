// Which of the addresses in cluster.coordinators a node joins: the one where others have joined
// already; else the first of those who are there, of which only one may find itself to be it.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string_view>

#include "base/clock.h"
#include "base/result.h"

namespace tally::client {
class RpcChannel;
}

namespace tally::control {

// What an address says of itself (method cluster.coordinator).
struct CoordinatorAnswer {
  bool answers = false;
  bool is_this_node = false;
  bool has_members = false;
  bool is_electing = false;  // it has found no coordinator yet, and may join itself
};

struct CoordinatorChoice {
  std::optional<std::size_t> join;  // of the addresses; none: ask again
  bool step_aside = false;          // another who comes before this node may join itself
};

// In the order of the list. Who may join himself says so before he asks (is_electing), and then
// asks all: of two who do, at least one hears of the other, and the later in the list waits.
// `patient`: waits for those later who may join themselves; for as long as a start takes.
CoordinatorChoice choose_coordinator(std::span<const CoordinatorAnswer> answers, bool patient);

// `instance`: of this node. An error: it does not answer before the deadline.
Result<CoordinatorAnswer> ask_coordinator(client::RpcChannel& channel, std::string_view instance,
                                          Nanos deadline);

}  // namespace tally::control
