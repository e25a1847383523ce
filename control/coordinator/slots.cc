#include "control/coordinator/slots.h"

#include <algorithm>

namespace tally::control {
namespace {

// Eight tiles of 256 KiB on their way are what 100 Gbit/s carry in 160 us: more than a round trip
// between two nodes of a data centre, and the wait for a level in between.
constexpr std::uint32_t kSlots = 8;

}  // namespace

protocol::SlotLayout slot_layout(const std::vector<PlanNode>& nodes) {
  std::uint32_t height = 1;
  std::uint64_t children = 1;
  for (const PlanNode& node : nodes) {
    for (const protocol::Vertex& vertex : node.vertices) {
      height = std::max(height, vertex.height);
      children = std::max<std::uint64_t>(children, vertex.children());
    }
  }
  if (height == 1) return {};
  const std::uint64_t bytes =
      std::clamp(most_tile_bytes(children) / children, kLeastSlotBytes, kMostSlotBytes);
  return {bytes / kLeastSlotBytes * kLeastSlotBytes, kSlots, kSlots, height - 1};
}

}  // namespace tally::control
