// The view of `tallyctl top`, computed from two looks: rates, the ranks that others wait for, and
// the late ranks. Pure. docs/metrics.md defines every field.
#pragma once

#include <nlohmann/json.hpp>

#include "control/cli/top/look.h"

namespace tally::control::top {

// Returns {"seconds", "coordinator", "note", "nodes", "jobs", "waiting", "stragglers", "shards"}.
// The last five are lists of rows. A row has no rate when the rate is unknown: the node gave no
// earlier answer, or it restarted in between. Answers may have any type; nothing throws.
nlohmann::json top_view(const Look& before, const Look& now);

}  // namespace tally::control::top
