// The memory between two nodes of a plan's deeper trees, which partial sums and results travel
// through in pieces: how large a piece is and how many there are each way, as the plan wants it
// (`chunk`, `window`) and as nodes can have it. Pure.
#pragma once

#include <cstddef>
#include <cstdint>

#include "control/plan/plan.h"
#include "control/plan/tree.h"

namespace tally::plan {

// Of a piece: room for the smallest tile of the widest element, and for the largest that nodes cut
// by themselves.
inline constexpr std::uint64_t kLeastPiece = 32 << 10;
inline constexpr std::uint64_t kMostPiece = 256 << 10;
inline constexpr std::uint32_t kMostPieces = 64;  // each way, for each height of trees above 1

// Of all inputs of a tile that has so many: more pieces than that say is room for no node has.
inline constexpr std::uint64_t most_tile_bytes(std::uint64_t children) {
  return children * kLeastPiece > (2 << 20) ? children * kLeastPiece : 2 << 20;
}

struct Pieces {
  std::uint64_t bytes = 0;  // of one; 0: nodes choose
  std::uint32_t count = 0;  // each way; 0: nodes choose

  bool operator==(const Pieces&) const = default;
};

// Whether any of its trees is more than a star.
bool has_levels(const SizeClass& size_class);

// By the domain's classes that have trees of several levels: by those that are divided, where there
// are any, else by all of them, and of several what is largest. Nothing where all trees are stars.
// Precondition: the plan has passed validate().
Pieces wanted_pieces(const Domain& domain);

// Where the vertex with most children has so many: bytes are a multiple of kLeastPiece and small
// enough for most_tile_bytes(). Who wants smaller ones than nodes would choose and does not say how
// many gets as many as take the memory of those.
Pieces served_pieces(const Pieces& wanted, std::uint64_t children);

// Children of the machine in a tree of the domain, its own gradient included.
std::size_t inputs_of(const Domain& domain, const Shape& shape, VertexId id);

// Of the vertices of the domain's trees of several levels, the most that one has; 0: there are
// none. Precondition: as wanted_pieces().
std::size_t most_inputs(const Domain& domain);

}  // namespace tally::plan
