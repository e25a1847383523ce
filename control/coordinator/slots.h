// The memory between vertices of a job's trees: how many slots there are in each branch's memory,
// and how large. Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "control/coordinator/store.h"
#include "control/plan/pieces.h"
#include "control/plan/served.h"
#include "dataplane/protocol/vertex.h"

namespace tally::control {

// What plans are told (control/plan/served.h, pieces.h).
inline constexpr std::uint32_t kMaxHeight = plan::kServedHeight;
inline constexpr std::uint64_t kLeastSlotBytes = plan::kLeastPiece;
inline constexpr std::uint64_t kMostSlotBytes = plan::kMostPiece;
inline constexpr std::uint32_t kMostSlots = plan::kMostPieces;  // up, and down, of a class
using plan::most_tile_bytes;
// Of a vertex with branches.
inline constexpr std::uint64_t kMostChildren = plan::kServedChildren;

// For all vertices of the job's deeper trees alike, by the one with most children: a tile of all
// its inputs is not larger than what a node has landing memory for. Empty where all are stars.
protocol::SlotLayout slot_layout(const std::vector<PlanNode>& nodes, const plan::Pieces& wanted);

}  // namespace tally::control
