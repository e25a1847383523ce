// The JSON form of the partition (protocol::Partition) in answers to session.open and job.open,
// and in placements. The sender and the receiver use these functions.
//
//   "plan": {"trees": 3, "classes": [
//     {"max_bytes": 65535, "divided": false, "trees": [2], "weights": [65536]},
//     {"max_bytes": null, "divided": true, "trees": [0, 1, 2], "weights": [20000, 20000, 25536]}],
//    "homes": [[17, 4096, 2]]}
//
// `divided` is "in order" where operations are cut in the order of the trees (SizeClass::in_order).
// Each entry of `homes` is a tag, a size in bytes and a tree. The sender omits an empty `homes`.
//
// The previous version of the protocol has only partitions of at most two classes over the same
// trees. It writes `weights`, by tree, and `split_bytes`. The sender writes such a partition in
// both forms, and the receiver reads either form.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <vector>

#include "dataplane/partition/partition.h"

namespace tally::rpc {

// Adds "plan" to an object. Precondition: valid(plan).
void put_partition(nlohmann::json& object, const protocol::Partition& plan);
// Adds the form of the previous version, when that form can express the plan.
void put_weights(nlohmann::json& object, const protocol::Partition& plan);

// Reads a plan from an object of another process. Returns a valid plan, or none.
std::optional<protocol::Partition> find_partition(const nlohmann::json& object);

// Reads an array of another process: at most `count` whole numbers of at most `max`. Empty when the
// array has anything else.
std::vector<std::uint32_t> read_numbers(const nlohmann::json& array, std::size_t count,
                                        std::uint32_t max);

}  // namespace tally::rpc
