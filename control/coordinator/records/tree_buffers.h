// The memory between the vertices of a job's trees: how many buffers each child node has in its
// memory, and how large they are. Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "control/coordinator/records/store.h"
#include "control/plan/model/pieces.h"
#include "control/plan/model/served_limits.h"
#include "dataplane/protocol/job/vertex.h"

namespace tally::control {

// The limits that planners use (control/plan/model/served_limits.h, pieces.h).
inline constexpr std::uint32_t kMaxHeight = plan::kServedHeight;
inline constexpr std::uint64_t kLeastBufferBytes = plan::kLeastPiece;
inline constexpr std::uint64_t kMostBufferBytes = plan::kMostPiece;
inline constexpr std::uint32_t kMostBuffers = plan::kMostPieces;  // up and down each, of a height
using plan::most_tile_bytes;
// Most children of a vertex with child nodes.
inline constexpr std::uint64_t kMostChildren = plan::kServedChildren;

// One layout for all vertices of the job's deeper trees. The vertex with most children decides: one
// tile of all its inputs must fit a node's landing memory. Empty when all trees are stars.
protocol::BufferLayout buffer_layout(const std::vector<PlanNode>& nodes,
                                     const plan::Pieces& wanted);

}  // namespace tally::control
