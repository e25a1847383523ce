// A vertex is the role of a shard in a tree. The leaves of a tree are ranks. Its inner vertices and
// its root are shards of nodes. Sums go up from child to parent, and the result goes down. A vertex
// whose children are all ranks, and which has no parent, is a star. A star carries a job that one
// node serves alone.
//
// Where results go another way than sums, two trees of the job carry the two ways, with the same
// root (Partition::result_trees). A shard that has the root has a vertex in each of them.
#pragma once

#include <cstdint>
#include <numeric>
#include <vector>

#include "base/clock.h"

namespace tally::protocol {

// A child that is itself a vertex, at another node.
struct ChildNode {
  // The child node's number among the job's child nodes at this shard. A child node may be a child
  // in several trees.
  std::uint16_t number = 0;
  std::vector<std::uint16_t> ranks;  // below the child node in this tree; ascending, at least one

  bool operator==(const ChildNode&) const = default;
};

inline constexpr std::uint32_t kNoParent = UINT32_MAX;

// How often a root with a pace starts a tile, where sizes of tiles allow it.
inline constexpr Nanos kTileTime = 20 * kMillisecond;

// Returns the bytes that the pace carries in that time.
inline std::uint64_t paced_bytes(std::uint64_t bytes_per_second) {
  return bytes_per_second / (kSecond / kTileTime);
}

struct Vertex {
  std::uint32_t tree = 0;
  std::uint32_t height = 1;            // hops of the longest way down to a rank
  std::vector<std::uint16_t> ranks;    // children, ascending
  std::vector<ChildNode> child_nodes;  // children, in the order in which the vertex adds them
  // The parent's number among the job's parents at this shard; kNoParent when this vertex is the
  // root.
  std::uint32_t parent = kNoParent;
  // Of a root: at how many bytes per second of the operation it starts tiles (Pacer). 0: as fast as
  // windows let it.
  std::uint64_t pace = 0;

  bool operator==(const Vertex&) const = default;
  bool is_root() const { return parent == kNoParent; }
  std::uint32_t children() const {
    return static_cast<std::uint32_t>(ranks.size() + child_nodes.size());
  }
};

// Memory of a vertex's node that the parent's node may read and write. For each class of the
// parent's vertices it has `up` buffers for partial sums and `down` buffers for results. There is
// one class for each height from 2 on. All buffers have the same size. A tile of a class waits only
// for buffers of that class. The parent chooses the buffer that a tile uses. So a node waits for
// room in another node's memory only where it has reserved that room itself.
//
// The root cuts the tiles for all vertices, and no tile is larger than a buffer. So `bytes` bounds
// tiles at a vertex that has more children than the root. The code that chooses `bytes` must make
// sure that every node has enough landing memory: that many bytes for each child of the node's
// widest vertex in the job.
struct BufferLayout {
  std::uint64_t bytes = 0;  // of one buffer
  std::uint32_t up = 0;     // buffers of a class
  std::uint32_t down = 0;
  std::uint32_t classes = 0;

  bool operator==(const BufferLayout&) const = default;
  std::uint32_t all_up() const { return up * classes; }
  std::uint32_t all_down() const { return down * classes; }
  // Offsets are bytes from the beginning of the region.
  std::uint64_t up_offset(std::uint32_t buffer) const { return std::uint64_t{buffer} * bytes; }
  std::uint64_t down_offset(std::uint32_t buffer) const {
    return (std::uint64_t{all_up()} + buffer) * bytes;
  }
  std::uint64_t total_bytes() const { return std::uint64_t{all_up() + all_down()} * bytes; }
};

// Returns the vertex of a tree in which all ranks are children of the root.
inline Vertex star(std::uint32_t tree, std::uint16_t ranks) {
  Vertex vertex;
  vertex.tree = tree;
  vertex.ranks.resize(ranks);
  std::iota(vertex.ranks.begin(), vertex.ranks.end(), std::uint16_t{0});
  return vertex;
}

}  // namespace tally::protocol
