// tallyctl plan make --network: packed trees for any network, and what they are worth.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "base/result.h"
#include "control/plan/model/plan.h"

namespace tally::control {

// Reads the file and plans for all its workers together. chunk: bytes. Errors name the file and the
// place in it, and what to change.
Result<plan::Plan> plan_for_network(const std::string& path, std::uint64_t chunk,
                                    std::uint64_t epoch);

// How good the plan is: the numbers of machines and trees, tau and the lower bound. For people: the
// same in words. Precondition: a plan of plan_for_network().
nlohmann::json describe_packed(const plan::Plan& plan);
std::string render_packed(const nlohmann::json& described);

}  // namespace tally::control
