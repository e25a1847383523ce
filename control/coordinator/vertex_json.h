// How a node's places in trees travel. Ranks are runs, [first, count], since there are many.
//
//   "vertices": [{"tree": 3, "height": 2, "ranks": [[0, 2]], "branches": [{"number": 0, "ranks":
//   [[2, 2]]}],
//                 "parent": 1}]
//
// Left out where all are stars of all ranks.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <vector>

#include "dataplane/protocol/vertex.h"

namespace tally::control {

bool all_stars(const std::vector<protocol::Vertex>& vertices, std::uint32_t ranks);

nlohmann::json to_json(const std::vector<protocol::Vertex>& vertices);

struct VertexBounds {
  std::vector<std::uint32_t> trees;  // whose vertices they are, in order
  std::uint16_t ranks = 1;
  std::size_t below = 0;  // how many neighbours there are
  std::size_t above = 0;
};

// None: they are not what vertex.h says, or pass the bounds.
std::optional<std::vector<protocol::Vertex>> parse_vertices(const nlohmann::json& sent,
                                                            const VertexBounds& bounds);

}  // namespace tally::control
