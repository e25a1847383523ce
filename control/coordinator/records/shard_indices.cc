#include "control/coordinator/records/shard_indices.h"

#include <algorithm>

namespace tally::control {

std::vector<std::uint32_t> shard_indices(const std::vector<protocol::Vertex>& vertices,
                                         const protocol::Partition& plan, std::uint32_t shards) {
  std::vector<std::uint32_t> indices;
  for (const protocol::Vertex& vertex : vertices) {
    auto place = static_cast<std::ptrdiff_t>(indices.size());
    const std::uint32_t sums = vertex.is_root() ? plan.sum_tree(vertex.tree) : protocol::kNoTree;
    if (sums != protocol::kNoTree) {
      const auto root = std::find_if(vertices.begin(), vertices.end(), [&](const auto& other) {
        return other.tree == sums && other.is_root();
      });
      if (root != vertices.end()) place = root - vertices.begin();
    }
    indices.push_back(static_cast<std::uint32_t>(place) % shards);
  }
  return indices;
}

}  // namespace tally::control
