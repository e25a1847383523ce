// The place of a shard in a tree. Leaves of a tree are ranks; its inner vertices and its root are
// shards of nodes. Sums go up from child to parent, the result goes down. A vertex whose children
// are all ranks is a star: what carries a job that one node serves alone.
#pragma once

#include <cstdint>
#include <numeric>
#include <vector>

namespace tally::protocol {

// A child that is itself a vertex, at another node.
struct Branch {
  // Which one of the job's branches at this shard: one of them may be a child in several trees.
  std::uint16_t number = 0;
  std::vector<std::uint16_t> ranks;  // below it in this tree, ascending, at least one

  bool operator==(const Branch&) const = default;
};

inline constexpr std::uint32_t kNoParent = UINT32_MAX;

struct Vertex {
  std::uint32_t tree = 0;
  std::uint32_t height = 1;          // the longest way down to a rank: 1 is a star
  std::vector<std::uint16_t> ranks;  // children, ascending
  std::vector<Branch> branches;      // children, in the order of the sum
  // Which one of the job's parents at this shard; kNoParent: this is the root.
  std::uint32_t parent = kNoParent;

  bool operator==(const Vertex&) const = default;
  bool is_root() const { return parent == kNoParent; }
  std::uint32_t children() const {
    return static_cast<std::uint32_t>(ranks.size() + branches.size());
  }
};

// Memory of a vertex's node that its parent's node may read and write: `up` slots for partial sums
// and `down` slots for results, for each class of the parent's vertices (one for each height from 2
// on), all of the same size. A tile of a class waits only for slots of that class. The parent says
// which slot a tile uses; so nobody waits for room in another's memory that he has not reserved
// himself.
//
// Tiles are cut by the root for all vertices, and are no larger than a slot. So `bytes` is what
// bounds them where a vertex has more children than the root: whoever chooses it sees to it that
// every node has landing memory for that much of each child of its widest vertex in the job.
struct SlotLayout {
  std::uint64_t bytes = 0;  // of one slot
  std::uint32_t up = 0;     // of a class
  std::uint32_t down = 0;
  std::uint32_t classes = 0;

  bool operator==(const SlotLayout&) const = default;
  std::uint32_t all_up() const { return up * classes; }
  std::uint32_t all_down() const { return down * classes; }
  // From the beginning of the region.
  std::uint64_t up_offset(std::uint32_t slot) const { return std::uint64_t{slot} * bytes; }
  std::uint64_t down_offset(std::uint32_t slot) const {
    return (std::uint64_t{all_up()} + slot) * bytes;
  }
  std::uint64_t total_bytes() const { return std::uint64_t{all_up() + all_down()} * bytes; }
};

// All ranks' parent in a tree that has no other.
inline Vertex star(std::uint32_t tree, std::uint16_t ranks) {
  Vertex vertex;
  vertex.tree = tree;
  vertex.ranks.resize(ranks);
  std::iota(vertex.ranks.begin(), vertex.ranks.end(), std::uint16_t{0});
  return vertex;
}

}  // namespace tally::protocol
