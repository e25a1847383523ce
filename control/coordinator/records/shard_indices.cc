#include "control/coordinator/records/shard_indices.h"

#include <algorithm>

namespace tally::control {

std::vector<std::uint32_t> shard_indices(const std::vector<protocol::Vertex>& vertices,
                                         const protocol::Partition& plan, std::uint32_t shards) {
  std::vector<std::uint32_t> indices;
  for (const protocol::Vertex& vertex : vertices) {
    std::size_t place = indices.size();
    const std::uint32_t sums = vertex.is_root() ? plan.sum_tree(vertex.tree) : protocol::kNoTree;
    for (std::size_t i = 0; i < vertices.size() && sums != protocol::kNoTree; ++i) {
      if (vertices[i].tree == sums && vertices[i].is_root()) place = i;
    }
    indices.push_back(static_cast<std::uint32_t>(place % shards));
  }
  return indices;
}

}  // namespace tally::control
