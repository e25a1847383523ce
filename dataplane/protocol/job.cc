#include "dataplane/protocol/job.h"

#include <utility>

namespace tally::protocol {
namespace {

// Of all vertices: a branch announces each of its trees' operations.
std::uint32_t edges_to_branches(const JobSpec& spec) {
  std::size_t edges = 0;
  for (const Vertex& vertex : spec.vertices) edges += vertex.branches.size();
  return static_cast<std::uint32_t>(edges);
}

// For a slot of one branch: roots' tiles, and results from above.
std::size_t most_waiting(const JobSpec& spec) {
  return std::size_t{spec.slots.all_up()} + std::size_t{spec.parents} * spec.slots.all_down();
}

Place place_of(const Vertex& vertex, const JobSpec& spec, bool one_class) {
  Place place;
  place.cls = one_class ? 0 : vertex.height - 1;
  place.slot_class = one_class || vertex.height < 2 ? 0 : vertex.height - 2;
  place.child_of.assign(spec.ranks, wire::kNoRank);
  for (const std::uint16_t rank : vertex.ranks) place.child_of[rank] = rank;
  for (const Branch& branch : vertex.branches) {
    for (const std::uint16_t rank : branch.ranks) {
      place.child_of[rank] = static_cast<std::uint16_t>(spec.ranks + branch.number);
    }
  }
  return place;
}

}  // namespace

BranchSlots::BranchSlots(const SlotLayout& layout, std::size_t most_waiting)
    : up(layout.all_up()),
      down(layout.all_down()),
      free_up(layout.classes),
      free_down(layout.classes),
      waiting(layout.classes) {
  for (std::uint32_t cls = 0; cls < layout.classes; ++cls) {
    // The lowest first: memory that is still in the caches.
    for (std::uint32_t i = layout.up; i-- > 0;) free_up[cls].push_back(cls * layout.up + i);
    for (std::uint32_t i = layout.down; i-- > 0;) free_down[cls].push_back(cls * layout.down + i);
    waiting[cls].reserve(most_waiting);
  }
}

ParentSlots::ParentSlots(const SlotLayout& layout) : up(layout.all_up()), down(layout.all_down()) {}

Aggregator::Job::Job(JobSlot job_slot, JobSpec job_spec, bool one_class)
    : slot(job_slot),
      spec(std::move(job_spec)),
      members(spec.ranks + std::size_t{spec.branches}),
      parents(spec.parents, ParentSlots(spec.slots)),
      table(static_cast<std::uint16_t>(members.size()), spec.credit,
            spec.ranks + edges_to_branches(spec), static_cast<std::uint32_t>(spec.vertices.size())),
      deadlines(table.capacity()) {
  for (std::uint16_t i = 0; i < spec.vertices.size(); ++i) {
    const Vertex& vertex = spec.vertices[i];
    if (vertex.tree >= vertex_of.size()) vertex_of.resize(vertex.tree + 1, kNoVertex);
    vertex_of[vertex.tree] = i;
    places.push_back(place_of(vertex, spec, one_class));
    for (const Branch& branch : vertex.branches) members[child_of(branch)].credit += spec.credit;
  }
  for (std::uint16_t rank = 0; rank < spec.ranks; ++rank) members[rank].credit = spec.credit;
  branches.assign(spec.branches, BranchSlots(spec.slots, most_waiting(spec)));
}

std::uint64_t Aggregator::footprint(const JobSpec& spec) {
  const std::uint64_t members = spec.ranks + std::uint64_t{spec.branches};
  const std::uint64_t place = sizeof(Place) + spec.ranks * sizeof(std::uint16_t);
  const std::uint64_t up = spec.slots.all_up();
  const std::uint64_t down = spec.slots.all_down();
  const std::uint64_t waiting = spec.slots.classes * most_waiting(spec);
  const std::uint64_t branch = up * (sizeof(BranchSlots::Up) + sizeof(std::uint32_t)) +
                               down * (sizeof(BranchSlots::Down) + sizeof(std::uint32_t)) +
                               waiting * sizeof(BranchSlots::Waiting);
  const std::uint64_t parent = up * sizeof(ParentSlots::Up) + down * sizeof(ParentSlots::Down);
  return OperationTable::footprint(static_cast<std::uint16_t>(members), spec.credit,
                                   spec.ranks + edges_to_branches(spec),
                                   static_cast<std::uint32_t>(spec.vertices.size())) +
         members * sizeof(MemberState) + spec.vertices.size() * place + spec.branches * branch +
         spec.parents * parent;
}

}  // namespace tally::protocol
