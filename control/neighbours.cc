// Admission of vertices between others: which trees this node can have a part in, and which nodes
// may be below it.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "control/admission.h"
#include "control/coordinator/slots.h"
#include "dataplane/transport/shm/segment.h"

namespace tally::control {
namespace {

using protocol::Vertex;

std::vector<std::uint32_t> rising(std::vector<std::uint32_t> numbers) {
  std::sort(numbers.begin(), numbers.end());
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
  return numbers;
}

// Precondition: it is there.
std::uint32_t place_in(const std::vector<std::uint32_t>& numbers, std::uint32_t number) {
  return static_cast<std::uint32_t>(std::lower_bound(numbers.begin(), numbers.end(), number) -
                                    numbers.begin());
}

std::vector<Vertex> as_placed(const Forming& forming, std::uint32_t shard) {
  std::vector<Vertex> here;
  const std::uint32_t lane = forming.lane_of(shard);
  if (lane == kNoLane) return here;
  for (std::size_t i = lane; i < forming.vertices.size(); i += forming.shards.size()) {
    here.push_back(forming.vertices[i]);
  }
  return here;
}

}  // namespace

std::vector<std::uint32_t> Forming::below_at(std::uint32_t shard) const {
  std::vector<std::uint32_t> numbers;
  for (const Vertex& vertex : as_placed(*this, shard)) {
    for (const protocol::Branch& branch : vertex.branches) numbers.push_back(branch.number);
  }
  return rising(std::move(numbers));
}

std::vector<std::uint32_t> Forming::above_at(std::uint32_t shard) const {
  std::vector<std::uint32_t> numbers;
  for (const Vertex& vertex : as_placed(*this, shard)) {
    if (!vertex.is_root()) numbers.push_back(vertex.parent);
  }
  return rising(std::move(numbers));
}

std::vector<Vertex> Forming::vertices_at(std::uint32_t shard) const {
  const auto children = below_at(shard), parents = above_at(shard);
  std::vector<Vertex> here = as_placed(*this, shard);
  for (Vertex& vertex : here) {
    for (protocol::Branch& branch : vertex.branches) {
      branch.number = static_cast<std::uint16_t>(place_in(children, branch.number));
    }
    if (!vertex.is_root()) vertex.parent = place_in(parents, vertex.parent);
  }
  return here;
}

std::uint32_t Forming::member_at(std::uint32_t shard, std::uint32_t member) const {
  if (!is_branch(member)) return member;
  const auto children = below_at(shard);
  const std::uint32_t number = member - ranks();
  const bool known = std::binary_search(children.begin(), children.end(), number);
  return known ? ranks() + place_in(children, number) : kNobody;
}

std::uint32_t Forming::joined_ranks() const {
  return static_cast<std::uint32_t>(
      std::count_if(members.begin(), members.begin() + ranks(),
                    [](std::uint32_t session) { return session != kNobody; }));
}

std::uint32_t Forming::shard_of(std::uint32_t tree) const {
  const auto at = std::lower_bound(
      vertices.begin(), vertices.end(), tree,
      [](const Vertex& vertex, std::uint32_t other) { return vertex.tree < other; });
  return shards[static_cast<std::size_t>(at - vertices.begin()) % shards.size()];
}

bool Forming::unclaimed() const {
  if (!placed || over) return false;
  const bool has_ranks = std::any_of(vertices.begin(), vertices.end(),
                                     [](const Vertex& vertex) { return !vertex.ranks.empty(); });
  return (has_ranks ? joined_ranks() : joined) == 0;
}

bool Forming::is_empty(const Vertex& vertex) const {
  const bool ranks_gone = std::all_of(vertex.ranks.begin(), vertex.ranks.end(),
                                      [&](std::uint16_t rank) { return members[rank] == kNobody; });
  return ranks_gone &&
         std::all_of(
             vertex.branches.begin(), vertex.branches.end(), [&](const protocol::Branch& branch) {
               const std::uint32_t member = ranks() + branch.number;
               return members[member] == kNobody || empty_below.contains({member, vertex.tree});
             });
}

// For each of its shards and each node above that shard in some tree (Uplinks).
std::uint64_t Admission::slot_bytes(const Forming& forming, std::uint32_t lanes) {
  std::set<std::pair<std::size_t, std::uint32_t>> pairs;
  for (std::size_t i = 0; i < forming.vertices.size(); ++i) {
    if (!forming.vertices[i].is_root()) pairs.emplace(i % lanes, forming.vertices[i].parent);
  }
  return pairs.size() * forming.slots.total_bytes();
}

Outcome Admission::room_for_slots(const Forming& wanted) const {
  std::uint64_t taken = 0;
  for (const auto& forming : formings_) taken += forming->slot_bytes;
  if (wanted.slot_bytes == 0 || taken + wanted.slot_bytes <= limits_.max_slot_bytes) return Unit{};
  return refused(
      fmt::format("job \"{}\": {} slots of {} bytes each way between nodes take {} bytes here; {} "
                  "of {} are taken: give its plan a smaller \"window\" or \"chunk\", or end other "
                  "jobs",
                  wanted.name, wanted.slots.all_up(), wanted.slots.bytes, wanted.slot_bytes, taken,
                  limits_.max_slot_bytes));
}

std::uint32_t Forming::messages_of(std::uint32_t member) const {
  constexpr std::uint32_t kOthers = 16;  // the job is broken; who is missing
  const std::uint32_t number = member - ranks();
  const auto of_it = [number](const protocol::Branch& one) { return one.number == number; };
  const auto edges = static_cast<std::uint32_t>(
      std::count_if(vertices.begin(), vertices.end(), [&](const Vertex& vertex) {
        return std::any_of(vertex.branches.begin(), vertex.branches.end(), of_it);
      }));
  const std::uint32_t all = edges * credit + slots.all_up() + slots.all_down() + kOthers;
  return std::min(all, transport::shm::kMaxCredit);
}

// Whoever has the job's token; but only where this node's own placement knows of him.
Result<std::uint32_t> Admission::member_of(const Forming& forming, const Applicant& applicant) {
  if (applicant.branch.empty()) return applicant.rank;
  const auto found =
      std::find_if(forming.below.begin(), forming.below.end(), [&](const Neighbour& one) {
        return one.name == applicant.branch && one.lane == applicant.lane;
      });
  if (found != forming.below.end()) {
    return static_cast<std::uint32_t>(forming.ranks() + (found - forming.below.begin()));
  }
  return refused(
      fmt::format("job \"{}\": shard {} of node \"{}\" is below none of this node's in its trees",
                  applicant.job, applicant.lane, applicant.branch));
}

Outcome Admission::serves(const Placement& placement, std::uint32_t lanes) const {
  for (const Vertex& vertex : placement.vertices) {
    const std::uint64_t children = vertex.children();
    if (!vertex.branches.empty() && children > kMostChildren) {
      return refused(
          fmt::format("job \"{}\": {} children of a vertex that has other nodes among "
                      "them, and {} is the most: put ranks below more nodes",
                      placement.job, children, kMostChildren));
    }
    const bool deep = !vertex.branches.empty() || !vertex.is_root();
    // The slots between it and its branches are of a class for each height.
    if (vertex.height > kMaxHeight || vertex.height > placement.slots.classes + 1) {
      return refused(fmt::format(
          "job \"{}\": a tree of height {} here, and this node has slots "
          "for {}: set a plan of fewer levels",
          placement.job, vertex.height, std::min(kMaxHeight, placement.slots.classes + 1)));
    }
    if (deep && placement.slots.bytes * children > most_tile_bytes(children)) {
      return refused(
          fmt::format("job \"{}\": {} children and slots of {} bytes between nodes are more than "
                      "this node has room for: is the coordinator of another version?",
                      placement.job, children, placement.slots.bytes));
    }
  }
  // A rank's operation that is divided over all trees takes one credit for each at a lane.
  const auto trees = static_cast<std::uint32_t>(placement.vertices.size());
  const std::uint32_t most = (trees + lanes - 1) / lanes;
  const std::uint32_t credit = credit_of(placement.ranks);
  if (most > credit) {
    return refused(fmt::format(
        "job \"{}\": {} trees at {} shards need a credit of {} here, and each of its {} ranks has "
        "{}: raise shards.{}, or set a plan of fewer trees",
        placement.job, trees, lanes, most, placement.ranks, credit,
        credit < limits_.credit ? "job_credit" : "credit"));
  }
  return Unit{};
}

}  // namespace tally::control
