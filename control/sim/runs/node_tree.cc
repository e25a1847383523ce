#include "control/sim/runs/node_tree.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace tally::simulator {
namespace {

// Adds the vertices of one tree, children before their parents. A worker without children is a
// rank only.
void add_tree(NodeTrees& nodes, std::uint32_t tree, const std::vector<bool>& is_worker) {
  const plan::Shape& shape = nodes.trees[tree].up;
  std::vector<std::uint32_t> vertex_of(is_worker.size(), kNone);
  std::uint32_t number = 0;
  for (std::size_t i = shape.order().size(); i-- > 0;) {
    const plan::VertexId machine = shape.order()[i];
    if (shape.children(machine).empty()) continue;
    NodeVertex vertex{.tree = tree,
                      .machine = machine,
                      .height = shape.height(machine),
                      .number = number++,
                      .has_own_rank = is_worker[machine]};
    const auto here = static_cast<std::uint32_t>(nodes.vertices.size());
    for (const plan::VertexId child : shape.children(machine)) {
      if (vertex_of[child] == kNone) {
        vertex.ranks.push_back(child);
      } else {
        NodeVertex& below = nodes.vertices[vertex_of[child]];
        below.parent = here;
        below.index = static_cast<std::uint32_t>(vertex.child_nodes.size());
        vertex.child_nodes.push_back(vertex_of[child]);
      }
    }
    vertex_of[machine] = here;
    nodes.max_height = std::max(nodes.max_height, vertex.height);
    if (shape.depth() > 1) nodes.most_inputs = std::max(nodes.most_inputs, vertex.inputs());
    nodes.vertices.push_back(std::move(vertex));
  }
  nodes.roots.push_back(vertex_of[shape.root()]);
  nodes.vertices_of.push_back(number);
}

}  // namespace

NodeTrees node_trees(const TreeSet& set, Passages& passages,
                     std::span<const plan::VertexId> workers) {
  NodeTrees nodes;
  nodes.trees = flat_trees(set, passages);
  std::vector<bool> is_worker(passages.network().machines());
  for (const plan::VertexId worker : workers) is_worker[worker] = true;
  for (std::uint32_t tree = 0; tree < nodes.trees.size(); ++tree) add_tree(nodes, tree, is_worker);
  std::map<std::tuple<plan::VertexId, plan::VertexId, std::uint32_t>, std::uint32_t> pools;
  for (NodeVertex& vertex : nodes.vertices) {
    for (const std::uint32_t child : vertex.child_nodes) {
      const auto key = std::tuple(vertex.machine, nodes.vertices[child].machine, vertex.height);
      const auto [pool, is_new] = pools.try_emplace(key, nodes.pools);
      if (is_new) ++nodes.pools;
      vertex.down_buffers.push_back(pool->second);
    }
  }
  return nodes;
}

}  // namespace tally::simulator
