#include "control/coordinator/records/tree_buffers.h"

#include <algorithm>

namespace tally::control {

protocol::BufferLayout buffer_layout(const std::vector<PlanNode>& nodes,
                                     const plan::Pieces& wanted) {
  std::uint32_t height = 1;
  std::uint64_t children = 1;
  for (const PlanNode& node : nodes) {
    for (const protocol::Vertex& vertex : node.vertices) {
      if (vertex.child_nodes.empty() && vertex.is_root()) continue;
      height = std::max(height, vertex.height);
      children = std::max<std::uint64_t>(children, vertex.children());
    }
  }
  if (height == 1) return {};
  const plan::Pieces pieces = plan::served_pieces(wanted, children);
  return {pieces.bytes, pieces.count, pieces.count, height - 1};
}

}  // namespace tally::control
