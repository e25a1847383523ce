#include "control/plan/packing/trees/rooting.h"

#include <algorithm>
#include <limits>

namespace tally::plan {
namespace {

using Adjacency = std::vector<std::vector<VertexId>>;

// Parents of a search from `root`, and the machines in the order in which it finds them.
struct Search {
  Search(const Adjacency& edges_of, VertexId root) : parents(edges_of.size(), kIsAbsent) {
    parents[root] = kIsRoot;
    order.push_back(root);
    for (std::size_t next = 0; next < order.size(); ++next) {
      const VertexId at = order[next];
      for (const VertexId next_to : edges_of[at]) {
        if (parents[next_to] != kIsAbsent) continue;
        parents[next_to] = static_cast<std::int32_t>(at);
        order.push_back(next_to);
      }
    }
  }

  Parents parents;
  std::vector<VertexId> order;
};

// The middle of a longest path. Of two middles, that with more edges.
VertexId centre(const Adjacency& edges_of, VertexId any) {
  const VertexId end = Search(edges_of, any).order.back();
  const Search from_end(edges_of, end);
  std::vector<VertexId> path;
  for (std::int32_t at = static_cast<std::int32_t>(from_end.order.back()); at >= 0;
       at = from_end.parents[static_cast<std::size_t>(at)]) {
    path.push_back(static_cast<VertexId>(at));
  }
  const VertexId first = path[(path.size() - 1) / 2], second = path[path.size() / 2];
  return edges_of[second].size() > edges_of[first].size() ? second : first;
}

// The machines of a tree, parents before children.
std::vector<VertexId> top_down(const Parents& parents) {
  std::vector<std::vector<VertexId>> children(parents.size());
  std::vector<VertexId> order;
  for (VertexId id = 0; id < parents.size(); ++id) {
    if (parents[id] == kIsRoot) order.push_back(id);
    if (parents[id] >= 0) children[static_cast<std::size_t>(parents[id])].push_back(id);
  }
  for (std::size_t next = 0; next < order.size(); ++next) {
    for (const VertexId child : children[order[next]]) order.push_back(child);
  }
  return order;
}

// Of a root that is no worker and has one child, the child becomes the root, again and again.
void drop_idle_roots(Parents& parents, const std::vector<bool>& is_worker) {
  for (const VertexId at : top_down(parents)) {
    if (parents[at] != kIsRoot || is_worker[at]) continue;
    const auto root = static_cast<std::int32_t>(at);
    if (std::count(parents.begin(), parents.end(), root) != 1) continue;
    *std::find(parents.begin(), parents.end(), root) = kIsRoot;
    parents[at] = kIsAbsent;
  }
}

}  // namespace

std::uint32_t levels_of(const Parents& parents) {
  std::vector<std::uint32_t> depth(parents.size(), 0);
  std::uint32_t levels = 0;
  for (const VertexId id : top_down(parents)) {
    if (parents[id] >= 0) depth[id] = depth[static_cast<std::size_t>(parents[id])] + 1;
    levels = std::max(levels, depth[id]);
  }
  return levels;
}

void drop_idle_leaves(Parents& parents, const std::vector<bool>& is_worker) {
  std::vector<std::size_t> children(parents.size(), 0);
  for (const std::int32_t parent : parents) {
    if (parent >= 0) ++children[static_cast<std::size_t>(parent)];
  }
  const auto order = top_down(parents);
  for (auto at = order.rbegin(); at != order.rend(); ++at) {
    if (is_worker[*at] || children[*at] > 0 || parents[*at] < 0) continue;
    --children[static_cast<std::size_t>(parents[*at])];
    parents[*at] = kIsAbsent;
  }
}

void limit_height(Parents& parents, std::uint32_t max_height,
                  const std::function<double(VertexId, VertexId)>& price) {
  std::vector<std::uint32_t> depth(parents.size(), 0);
  std::vector<VertexId> high_enough;
  for (const VertexId id : top_down(parents)) {
    if (parents[id] >= 0) depth[id] = depth[static_cast<std::size_t>(parents[id])] + 1;
    if (depth[id] > max_height) {
      double least = std::numeric_limits<double>::infinity();
      for (const VertexId parent : high_enough) {
        const double found = price(id, parent);
        if (found >= least) continue;
        least = found;
        parents[id] = static_cast<std::int32_t>(parent);
        depth[id] = depth[parent] + 1;
      }
    }
    if (depth[id] < max_height) high_enough.push_back(id);
  }
}

Parents root_at_centre(std::size_t machines, std::span<const TreeEdge> edges,
                       const std::vector<bool>& is_worker, std::uint32_t max_height,
                       const std::function<double(VertexId, VertexId)>& price) {
  Adjacency edges_of(machines);
  for (const auto& [a, b] : edges) {
    edges_of[a].push_back(b);
    edges_of[b].push_back(a);
  }
  const auto any = static_cast<VertexId>(std::find(is_worker.begin(), is_worker.end(), true) -
                                         is_worker.begin());
  Parents parents = Search(edges_of, centre(edges_of, any)).parents;
  drop_idle_leaves(parents, is_worker);
  limit_height(parents, max_height, price);
  drop_idle_leaves(parents, is_worker);
  drop_idle_roots(parents, is_worker);
  return parents;
}

}  // namespace tally::plan
