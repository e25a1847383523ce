#include "control/plan/model/pieces.h"

#include <algorithm>

namespace tally::plan {
namespace {

// Eight tiles of 256 KiB in flight are what 100 Gbit/s carry in 160 us. That is more than a round
// trip between two nodes of a data centre, and the wait for a level in between. More tiles do not
// help: with two or more children the window is full before (a tile is half of it, or the largest
// piece). Trees of height 3 and 4 took as long with 64 as with 8 (docs/perf.md). With 1 and 2 they
// starve. Where roots have a pace, paced_pieces() decides instead.
constexpr std::uint32_t kPieces = 8;

}  // namespace

bool has_levels(const SizeClass& size_class) {
  const auto is_deep = [](const Parents& parents) {
    const auto shape = Shape::of(parents, "up");
    return shape && shape->depth() > 1;
  };
  return std::any_of(size_class.trees.begin(), size_class.trees.end(), [&](const Tree& tree) {
    return is_deep(tree.up) || (!tree.down.empty() && is_deep(tree.down));
  });
}

Pieces wanted_pieces(const Domain& domain) {
  Pieces divided, whole;
  for (const SizeClass& one : domain.classes) {
    if (!has_levels(one)) continue;
    Pieces& wanted = one.is_divided() ? divided : whole;
    wanted.bytes = std::max(wanted.bytes, one.chunk);
    wanted.count = std::max(wanted.count, one.window);
  }
  return divided.bytes != 0 ? divided : whole;
}

Pieces paced_pieces(const Pieces& wanted) {
  return wanted.count != 0 ? wanted : Pieces{kLeastPiece, kMostPieces};
}

Pieces served_pieces(const Pieces& wanted, std::uint64_t children) {
  const std::uint64_t most =
      std::clamp(most_tile_bytes(children) / children, kLeastPiece, kMostPiece);
  const auto whole = [](std::uint64_t bytes) { return bytes / kLeastPiece * kLeastPiece; };
  Pieces served{whole(most), kPieces};
  if (wanted.bytes != 0) served.bytes = whole(std::clamp(wanted.bytes, kLeastPiece, most));
  served.count *= static_cast<std::uint32_t>(whole(most) / served.bytes);
  if (wanted.count != 0) served.count = wanted.count;
  served.count = std::min(served.count, kMostPieces);
  return served;
}

std::size_t inputs_of(const Domain& domain, const Shape& shape, VertexId id) {
  const bool own = std::binary_search(domain.workers.begin(), domain.workers.end(), id);
  return shape.children(id).size() + (own ? 1 : 0);
}

std::size_t most_inputs(const Domain& domain) {
  std::size_t most = 0;
  const auto add = [&](const Parents& parents) {
    const auto shape = Shape::of(parents, "up");
    if (!shape || shape->depth() < 2) return;
    for (const VertexId id : shape->order()) {
      if (!shape->children(id).empty()) most = std::max(most, inputs_of(domain, *shape, id));
    }
  };
  for (const SizeClass& one : domain.classes) {
    for (const Tree& tree : one.trees) {
      add(tree.up);
      if (!tree.down.empty()) add(tree.down);
    }
  }
  return most;
}

}  // namespace tally::plan
