// The vertices of an operation's trees at the nodes, as the data plane has them: a leaf of a tree
// is a rank, and every other machine of a tree has a vertex there (docs/protocol.md, "Between
// vertices").
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "control/plan/model/pieces.h"
#include "control/sim/core/flat_tree.h"
#include "dataplane/protocol/job/config.h"

namespace tally::simulator {

// How nodes are configured. The defaults are those of tallyd.
struct NodeOptions {
  protocol::AggregatorConfig node{.upper_tiles = plan::kMostPieces};
  // The rate of the plan that nodes know, in multiples of 1 / tau; 0: they know none.
  double pace = 1;
};

struct NodeVertex {
  std::uint32_t tree = 0;
  plan::VertexId machine = 0;
  std::uint32_t height = 0;
  std::uint32_t parent = kNone;       // a vertex; kNone at the root
  std::uint32_t index = 0;            // among the child nodes of its parent
  std::uint32_t number = 0;           // among the vertices of the tree
  bool has_own_rank = false;          // the machine is a worker; its rank comes before the others
  std::vector<plan::VertexId> ranks;  // leaves below it, by rising id
  std::vector<std::uint32_t> child_nodes;   // vertices, by rising machine
  std::vector<std::uint32_t> down_buffers;  // by child node: index of the pool of its down buffers

  std::uint32_t rank_inputs() const {
    return static_cast<std::uint32_t>(ranks.size()) + (has_own_rank ? 1 : 0);
  }
  std::uint32_t inputs() const {
    return rank_inputs() + static_cast<std::uint32_t>(child_nodes.size());
  }
  bool is_root() const { return parent == kNone; }
};

struct NodeTrees {
  std::vector<FlatTree> trees;
  std::vector<NodeVertex> vertices;
  std::vector<std::uint32_t> roots;        // by tree; kNone: the root is alone
  std::vector<std::uint32_t> vertices_of;  // by tree: how many
  std::uint32_t pools = 0;  // of down buffers: one for each parent, child node and height
  std::uint32_t max_height = 1;
  std::uint32_t most_inputs = 0;  // of a vertex in trees of several levels; 0: there are none
};

// Precondition: `down` of each tree is empty, as nodes require (control/plan/json/served.h).
NodeTrees node_trees(const TreeSet& set, Passages& passages,
                     std::span<const plan::VertexId> workers);

}  // namespace tally::simulator
