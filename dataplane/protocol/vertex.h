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
};

inline constexpr std::uint32_t kNoParent = UINT32_MAX;

struct Vertex {
  std::uint32_t tree = 0;
  std::uint32_t height = 1;          // the longest way down to a rank: 1 is a star
  std::vector<std::uint16_t> ranks;  // children, ascending
  std::vector<Branch> branches;      // children, by ascending number
  // Which one of the job's parents at this shard; kNoParent: this is the root.
  std::uint32_t parent = kNoParent;

  bool is_root() const { return parent == kNoParent; }
  std::uint32_t children() const {
    return static_cast<std::uint32_t>(ranks.size() + branches.size());
  }
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
