// Changes of a network that may let an operation take less time: one more helper at a switch, and
// faster links, NICs or sums. Places that are alike are one possible change.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "control/plan/model/network.h"
#include "control/plan/model/passages.h"

namespace tally::plan {

struct HelperPlace {
  VertexId at = 0;        // a switch
  std::size_t alike = 1;  // switches at which the same helper does the same, this one included
};

// Returns a switch of each kind, in the order of their ids. Switches are alike if they and their
// racks can change places (symmetry.h). `is_worker`: by machine.
std::vector<HelperPlace> helper_places(Routes& routes, const std::vector<bool>& is_worker);

// Returns the network with one more machine, joined to this switch by a link as fast as its NIC.
// The machine has the first id behind the other machines, and ids of switches rise by one.
Network with_helper(const Network& network, VertexId at, const Vertex& helper);

enum class UpgradeKind : std::uint8_t {
  kLinks,  // between switches or between machines, in both directions
  kNics,   // with the links of the machine
  kSums,
};

struct Upgrade {
  UpgradeKind kind = UpgradeKind::kLinks;
  std::vector<std::uint32_t> links;  // kLinks: indices of all directions
  std::vector<VertexId> machines;    // kNics, kSums: ascending
  // Pairs of vertices with links, or machines: those that get faster, and those that are alike. All
  // that are alike get faster, or one.
  std::size_t count = 1;
  std::size_t alike = 1;
};

// Returns for each kind of links, NICs and sums the upgrade of all and the upgrade of one. NICs are
// of one kind if their speeds are within a tenth of each other, and all or none of the machines are
// workers. So are sums.
std::vector<Upgrade> possible_upgrades(const Network& network, const std::vector<bool>& is_worker);

// Returns the indices of the passages that get faster.
std::vector<std::size_t> passages_of(const Upgrade& upgrade, const Passages& passages);

// Returns the network with these places `factor` times as fast. A link to a machine that does not
// get faster is at most as fast as that machine. Precondition: factor >= 1.
Network upgraded(const Network& network, const Upgrade& upgrade, double factor);

}  // namespace tally::plan
