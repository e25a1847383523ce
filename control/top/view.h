// What `tallyctl top` shows, computed of two looks: rates, who is waited for, who comes late. Pure.
// docs/metrics.md defines every field.
#pragma once

#include <nlohmann/json.hpp>

#include "control/top/look.h"

namespace tally::control::top {

// {"seconds", "coordinator", "note", "nodes", "jobs", "waiting", "stragglers", "shards"}: the last
// five are lists of rows. A rate is left out where it is not known: there was no earlier answer of
// the node, or it was restarted in between. Answers of any type are taken; nothing throws.
nlohmann::json top_view(const Look& before, const Look& now);

}  // namespace tally::control::top
