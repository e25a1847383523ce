#include "control/coordinator/layout/left_out.h"

#include <vector>

namespace tally::control {

bool leave_out(const RankNumbers& ranks, Layout& layout) {
  const auto remove_from = [&ranks](std::vector<std::uint16_t>& list) {
    std::erase_if(list, [&ranks](std::uint16_t rank) { return ranks.contains(rank); });
  };
  for (PlanNode& node : layout.nodes) {
    for (protocol::Vertex& vertex : node.vertices) {
      remove_from(vertex.ranks);
      if (vertex.children() == 0) return false;
      for (protocol::ChildNode& child : vertex.child_nodes) {
        remove_from(child.ranks);
        if (child.ranks.empty()) return false;
      }
    }
  }
  return true;
}

}  // namespace tally::control
