#include "gpu_bridge/group/division.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace tally::gpu {
namespace {

// Boundaries that differ by less are one boundary. The rest is rounding of planners.
constexpr double kSameBoundary = 1e-7;
constexpr std::size_t kAlignment = 64;     // bytes; of the pieces of full chunks
constexpr std::uint64_t kMostParts = 840;  // a multiple of 1 to 8

bool same_place(const Owner& a, const Owner& b) {
  return a.rank == b.rank && a.memory == b.memory && a.nic == b.nic;
}

// The shares of a group, as owners with the ends of their bytes.
struct Cut {
  std::vector<double> ends;
  std::vector<Owner> owners;
};

Cut cut_of(const host::Group& group, const std::vector<host::VertexId>& members) {
  Cut cut;
  double end = 0;
  for (const host::Share& share : group.shares) {
    if (share.weight <= 0) continue;
    const auto member = std::find(members.begin(), members.end(), share.gpu);
    const Owner owner{static_cast<std::uint32_t>(member - members.begin()), share.memory,
                      share.nic};
    end += share.weight;
    if (!cut.owners.empty() && same_place(cut.owners.back(), owner)) {
      cut.ends.back() = end;
    } else {
      cut.ends.push_back(end);
      cut.owners.push_back(owner);
    }
  }
  return cut;
}

}  // namespace

Result<Division> Division::make(const std::vector<host::Group>& groups) {
  if (groups.empty()) return invalid("a division needs at least one group of GPUs");
  Division division;
  for (const host::Group& group : groups) {
    if (auto added = division.add_members(group); !added) return added.error();
  }
  if (auto added = division.add_columns(groups); !added) return added.error();
  for (std::size_t group = 0; group < groups.size(); ++group) division.add_pieces(group);
  return division;
}

Outcome Division::add_members(const host::Group& group) {
  std::vector<host::VertexId> members;
  const auto add = [&](host::VertexId gpu) {
    if (std::find(members.begin(), members.end(), gpu) == members.end()) members.push_back(gpu);
  };
  double sum = 0;
  for (const host::Share& share : group.shares) {
    if (std::find(group.ring.begin(), group.ring.end(), share.gpu) == group.ring.end()) {
      return invalid(fmt::format("group {}: a share belongs to vertex {}, which is not in the ring",
                                 members_.size(), share.gpu));
    }
    if (share.weight < 0) {
      return invalid(fmt::format("group {}: the share of vertex {} is {}, and must not be below 0",
                                 members_.size(), share.gpu, share.weight));
    }
    sum += share.weight;
    if (share.weight > 0) add(share.gpu);
  }
  if (!(std::abs(sum - 1) <= kSameBoundary)) {  // also when it is no number
    return invalid(
        fmt::format("group {}: its shares sum to {}, and must sum to 1", members_.size(), sum));
  }
  for (const host::VertexId gpu : group.ring) add(gpu);
  first_rank_.push_back(ranks_);
  ranks_ += static_cast<std::uint32_t>(members.size());
  unit_ = std::lcm(unit_, members.size());
  if (unit_ > kMostParts) unit_ = members.size();
  members_.push_back(std::move(members));
  uniform_ &= members_.back().size() == members_.front().size();
  return Unit{};
}

Outcome Division::add_columns(const std::vector<host::Group>& groups) {
  std::vector<Cut> cuts;
  for (std::size_t g = 0; g < groups.size(); ++g) cuts.push_back(cut_of(groups[g], members_[g]));
  std::vector<std::size_t> at(groups.size(), 0);
  const auto is_last = [&](std::size_t g) { return at[g] + 1 == cuts[g].owners.size(); };
  for (;;) {
    Column column;
    column.end = 1;
    bool last = true;
    for (std::size_t g = 0; g < cuts.size(); ++g) {
      column.owners.push_back(cuts[g].owners[at[g]]);
      last &= is_last(g);
      if (!is_last(g)) column.end = std::min(column.end, cuts[g].ends[at[g]]);
    }
    const double end = column.end;
    columns_.push_back(std::move(column));
    if (last) return Unit{};
    for (std::size_t g = 0; g < cuts.size(); ++g) {
      if (!is_last(g) && cuts[g].ends[at[g]] <= end + kSameBoundary) ++at[g];
    }
  }
}

void Division::add_pieces(std::size_t group) {
  std::vector<Piece> pieces;
  for (std::size_t column = 0; column < columns_.size(); ++column) {
    const std::uint32_t owner = columns_[column].owners[group].rank;
    if (pieces.empty() || pieces.back().owner != owner) pieces.push_back({owner, column, column});
    pieces.back().end_column = column + 1;
  }
  const std::size_t ranks = members_[group].size();
  bool runs = pieces.size() % ranks == 0;
  for (std::size_t i = 0; i < pieces.size(); ++i) runs &= pieces[i].owner == i % ranks;
  runs_.push_back(runs);
  pieces_.push_back(std::move(pieces));
}

std::vector<std::size_t> Division::columns_of(std::size_t group, std::uint32_t rank) const {
  std::vector<std::size_t> found;
  for (std::size_t column = 0; column < columns_.size(); ++column) {
    if (columns_[column].owners[group].rank == rank) found.push_back(column);
  }
  return found;
}

Chunking Division::chunks(std::uint64_t count, std::size_t element_bytes,
                          std::size_t chunk_bytes) const {
  const std::uint64_t unit = unit_ * (kAlignment / element_bytes);
  const std::uint64_t wanted = std::max(chunk_bytes / element_bytes / unit, std::uint64_t{1});
  const std::uint64_t least = (count + kMostChunks * unit - 1) / (kMostChunks * unit);
  const std::uint64_t chunk = std::max(wanted, least) * unit;
  return {count, chunk, static_cast<std::uint32_t>(count / chunk + (count % chunk != 0 ? 1 : 0))};
}

std::uint64_t Division::boundary(std::size_t column, std::uint64_t count) const {
  if (column == 0) return 0;
  if (column == columns_.size()) return count;
  const double at = columns_[column - 1].end * static_cast<double>(count);
  return std::min(static_cast<std::uint64_t>(std::llround(at)), count);
}

Elements Division::elements(std::size_t first_column, std::size_t end_column,
                            std::uint64_t count) const {
  const std::uint64_t first = boundary(first_column, count);
  return {first, boundary(end_column, count) - first};
}

bool Division::is_even(std::size_t group, std::uint64_t count) const {
  if (!runs_[group]) return false;
  const std::size_t ranks = members_[group].size();
  const std::vector<Piece>& all = pieces_[group];
  const auto size_of = [&](std::size_t i) {
    return elements(all[i].first_column, all[i].end_column, count).count;
  };
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (size_of(i) != size_of(i / ranks * ranks)) return false;
  }
  return true;
}

std::string Division::job_of(const std::string& job, std::size_t column) {
  return fmt::format("{}.{}", job, column);
}

}  // namespace tally::gpu
