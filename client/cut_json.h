// How the plan of the cut travels: in answers to session.open and job.open, and in placements. Both
// ends use this.
//
//   "plan": {"trees": 3, "classes": [
//     {"max_bytes": 65535, "divided": false, "trees": [2], "weights": [65536]},
//     {"max_bytes": null, "divided": true, "trees": [0, 1, 2], "weights": [20000, 20000, 25536]}],
//    "homes": [[17, 4096, 2]]}
//
// `homes`, of tag, bytes and tree, is left out where there are none.
//
// The version before knew plans of two classes over the same trees, and said `weights`, by tree,
// and `split_bytes`. A plan that can be said so is said both ways, and either is understood.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <vector>

#include "dataplane/protocol/cut.h"

namespace tally::client {

// Adds "plan" to an object. Precondition: valid(plan).
void put_plan(nlohmann::json& object, const protocol::Plan& plan);
// Adds what the version before reads, where it can be said.
void put_weights(nlohmann::json& object, const protocol::Plan& plan);

// Of an object from outside; a valid plan, or none.
std::optional<protocol::Plan> find_plan(const nlohmann::json& object);

// An array from outside: whole numbers up to `max`, at most `count` of them; none where anything
// else is there.
std::vector<std::uint32_t> read_numbers(const nlohmann::json& array, std::size_t count,
                                        std::uint32_t max);

}  // namespace tally::client
