// The memory between vertices of a job's trees: how many slots there are in each branch's memory,
// and how large. Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "control/coordinator/store.h"
#include "control/plan/served.h"
#include "dataplane/protocol/vertex.h"

namespace tally::control {

// What plans are told (control/plan/served.h).
inline constexpr std::uint32_t kMaxHeight = plan::kServedHeight;

// Of a slot: room for the smallest tile of the widest element, and for the largest that nodes cut
// by themselves.
inline constexpr std::uint64_t kLeastSlotBytes = 32 << 10;
inline constexpr std::uint64_t kMostSlotBytes = 256 << 10;
inline constexpr std::uint32_t kMostSlots = 64;  // up, and down, of a class
// Of a vertex with branches.
inline constexpr std::uint64_t kMostChildren = plan::kServedChildren;
// Of all inputs of a tile that has so many: more slots than that say is room for no node has.
inline constexpr std::uint64_t most_tile_bytes(std::uint64_t children) {
  return children * kLeastSlotBytes > (2 << 20) ? children * kLeastSlotBytes : 2 << 20;
}

// For all vertices of the job alike, by the one with most children: a tile of all its inputs is not
// larger than what a node has landing memory for. Empty where all are stars.
protocol::SlotLayout slot_layout(const std::vector<PlanNode>& nodes);

}  // namespace tally::control
