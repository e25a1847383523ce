// The JSON form of a node's vertices. Ranks are runs, [first, count], because there are many.
//
//   "vertices": [{"tree": 3, "height": 2, "ranks": [[0, 2]], "child_nodes": [{"number": 0, "ranks":
//   [[2, 2]]}],
//                 "parent": 1}]
//
// The field is omitted when all trees are stars of all ranks.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <vector>

#include "control/coordinator/records/rank_loss.h"
#include "dataplane/protocol/job/vertex.h"

namespace tally::control {

bool all_stars(const std::vector<protocol::Vertex>& vertices, std::uint32_t ranks);

nlohmann::json to_json(const std::vector<protocol::Vertex>& vertices);

struct VertexBounds {
  std::vector<std::uint32_t> trees;  // the trees of the vertices, in order
  std::uint16_t ranks = 1;
  RankNumbers left_out{};  // ranks that no vertex may name
  std::size_t below = 0;   // number of child shards; above is the number of parent shards
  std::size_t above = 0;
};

// nullopt when the vertices are not as vertex.h requires, or exceed the bounds.
std::optional<std::vector<protocol::Vertex>> parse_vertices(const nlohmann::json& sent,
                                                            const VertexBounds& bounds);

}  // namespace tally::control
