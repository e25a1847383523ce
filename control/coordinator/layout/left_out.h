// Takes the ranks that a version of a job leaves out from its trees. Pure.
#pragma once

#include "control/coordinator/records/store.h"

namespace tally::control {

// The vertices have the other ranks as children; trees, nodes and the cut stay as they are. False:
// a vertex would have no rank below it, and the layout is not usable.
[[nodiscard]] bool leave_out(const RankNumbers& ranks, Layout& layout);

}  // namespace tally::control
