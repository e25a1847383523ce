// What would make a plan faster, for people and as JSON. Pure.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "control/plan/advice/advice.h"

namespace tally::control {

// The advice as JSON; docs/planning.md lists the keys.
nlohmann::json changes_report(const plan::Network& network, const plan::Advice& advice);

// The report of changes_report(), or {"error": why there is none}, in words. The table has at most
// `rows` rows, the best first. tau: of the plan as it is, in seconds per byte, if new plans are to
// be compared with it.
std::string render_changes(const nlohmann::json& changes, std::optional<double> tau,
                           std::size_t rows);

}  // namespace tally::control
