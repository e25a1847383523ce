// What becomes of trees when the node of a machine is lost (docs/repair.md), in a simple form:
// another machine's node takes its vertices, and the operation is done again from its beginning.
#pragma once

#include <span>

#include "base/result.h"
#include "control/plan/model/network.h"
#include "control/sim/core/tree_set.h"

namespace tally::simulator {

// Returns the trees without a vertex at `failed`. As in the product, each vertex goes to the
// machine that sums the least, among equals the one with the lowest id, and to none that sums in
// the same tree already (control/coordinator/layout/substitutes.h). A failed worker stays a rank
// below the substitute, because only its node is lost. A substitute that was a leaf leaves its
// place as a leaf: its gradient does not need the network then. An error says that no machine can
// take a vertex.
Result<TreeSet> without_node(const TreeSet& set, const plan::Network& network,
                             plan::VertexId failed);

}  // namespace tally::simulator
