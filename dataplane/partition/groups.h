// A shard pulls and adds up the sources of a tile in groups, in their order. The sum of the earlier
// groups is the first operand of the next group. So the result has the same bits as one pass over
// all sources. Only one group of a tile is in flight and in landing memory at a time. So several
// tiles fit the window, for any number of ranks (docs/decisions/0021-many-ranks.md).
#pragma once

#include <algorithm>
#include <cstdint>

namespace tally::protocol {

// The most operands that a kernel adds up in one pass with one result. A tile also pushes its
// result to at most this many ranks at a time.
inline constexpr std::uint32_t kGroupSources = 16;

// The sources [begin, end) of a tile.
struct Group {
  std::uint32_t begin = 0;
  std::uint32_t end = 0;

  bool operator==(const Group&) const = default;
};

// Returns the group that begins with source `begin` of a tile whose sources are `ranks` ranks and
// `partials` child nodes. Groups of ranks have about the same size. A tile has to wait for its
// child nodes. When there are many ranks, the child nodes' partial sums are a group of their own.
// Then only the ranks' sum is kept while the tile waits, and not the ranks' inputs.
constexpr Group group_from(std::uint32_t begin, std::uint32_t ranks, std::uint32_t partials) {
  const std::uint32_t left = ranks - begin;
  if (left == 0 || (begin == 0 && left <= kGroupSources)) return {begin, ranks + partials};
  // Operands beside the sum of the earlier groups.
  constexpr std::uint32_t kMore = kGroupSources - 1;
  const std::uint32_t groups = (left - (begin == 0 ? 1 : 0) + kMore - 1) / kMore;
  return {begin, begin + (left + groups - 1) / groups};
}

// Returns the number of receivers that a tile pushes its result to at a time. When a push is
// answered, the shard starts another. The number divides the receivers into rounds of about equal
// size, so that the last round is not small.
constexpr std::uint32_t receivers_at_once(std::size_t receivers) {
  const std::size_t rounds = (receivers + kGroupSources - 1) / kGroupSources;
  return static_cast<std::uint32_t>(rounds <= 1 ? receivers : (receivers + rounds - 1) / rounds);
}

}  // namespace tally::protocol
