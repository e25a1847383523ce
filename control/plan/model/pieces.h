// Pieces are the memory between two nodes of a tree of several levels. Partial sums and results
// travel through them. This file computes the size of a piece and the number of pieces each way:
// those that the plan asks for (`chunk`, `window`), and those that nodes can have. It is pure.
#pragma once

#include <cstddef>
#include <cstdint>

#include "control/plan/model/plan.h"
#include "control/plan/model/tree.h"

namespace tally::plan {

// Bytes of a piece. The least holds the smallest tile of the widest element type. The most holds
// the largest tile that nodes cut by themselves.
inline constexpr std::uint64_t kLeastPiece = 32 << 10;
inline constexpr std::uint64_t kMostPiece = 256 << 10;
inline constexpr std::uint32_t kMostPieces = 64;  // each way, for each height above 1

// Returns the most bytes that all inputs of a tile with `children` inputs may have. No node has
// memory for more.
inline constexpr std::uint64_t most_tile_bytes(std::uint64_t children) {
  return children * kLeastPiece > (2 << 20) ? children * kLeastPiece : 2 << 20;
}

struct Pieces {
  std::uint64_t bytes = 0;  // of one piece; 0: nodes choose
  std::uint32_t count = 0;  // each way; 0: nodes choose

  bool operator==(const Pieces&) const = default;
};

// Returns whether any tree of the class is more than a star.
bool has_levels(const SizeClass& size_class);

// Returns the pieces that the plan asks for in this domain. They follow from the classes that have
// trees of several levels. If some of these classes are divided, only the divided ones count. Of
// several classes the largest values count. Both values are 0 when all trees are stars.
// Precondition: the plan has passed validate().
Pieces wanted_pieces(const Domain& domain);

// Returns the pieces that paced trees want: the plan's when it gives a count, and else as many and
// as small ones as there can be, because a tree of several levels has many small tiles in flight.
Pieces paced_pieces(const Pieces& wanted);

// Returns the pieces that nodes can have. `children`: the largest number of children of a vertex.
// The size is a multiple of kLeastPiece, and small enough for most_tile_bytes(). If `wanted` asks
// for smaller pieces than nodes would choose, and gives no count, the count grows so that the
// pieces take the same memory. The count is at most kMostPieces.
Pieces served_pieces(const Pieces& wanted, std::uint64_t children);

// Returns the number of the machine's children in a tree of the domain. A worker's own gradient
// counts as one.
std::size_t inputs_of(const Domain& domain, const Shape& shape, VertexId id);

// Returns the largest inputs_of() of any vertex in the domain's trees of several levels, or 0 when
// there are no such trees. Precondition: the plan has passed validate().
std::size_t most_inputs(const Domain& domain);

}  // namespace tally::plan
