#include "control/plan/packing/trees/fan_out.h"

#include <algorithm>
#include <utility>

#include "control/plan/model/tree.h"

namespace tally::plan {
namespace {

// By machine: its rack's set, and its group's place in the rack.
std::vector<std::pair<std::size_t, std::size_t>> places_in_racks(const Symmetry& symmetry) {
  std::vector<std::pair<std::size_t, std::size_t>> places(symmetry.group_of.size());
  for (const Rack& rack : symmetry.racks) {
    for (std::size_t i = 0; i < rack.groups.size(); ++i) {
      for (const VertexId id : symmetry.groups[rack.groups[i]].machines) places[id] = {rack.set, i};
    }
  }
  return places;
}

// The smallest fan-out with which `levels` levels have room for `count` machines.
std::size_t smallest_fan_out(std::size_t count, std::uint32_t levels) {
  for (std::size_t fan_out = 1;; ++fan_out) {
    std::size_t room = 0, level = 1;
    for (std::uint32_t i = 0; i < levels && room < count; ++i) {
      level *= fan_out;
      room += level;
    }
    if (room >= count) return fan_out;
  }
}

}  // namespace

void divide_fan_out(Parents& parents, const Symmetry& symmetry, std::size_t most,
                    std::uint32_t max_height) {
  const auto shape = Shape::of(parents, "");
  if (!shape || shape->depth() > max_height) return;
  const auto places = places_in_racks(symmetry);
  const auto rack_of = [&](VertexId id) { return symmetry.groups[symmetry.group_of[id]].rack; };
  for (const VertexId at : shape->order()) {
    std::vector<VertexId> alike;
    std::uint32_t below = 0;
    for (const VertexId child : shape->children(at)) {
      if (places[child] != places[at] || rack_of(child) == rack_of(at)) continue;
      alike.push_back(child);
      below = std::max(below, shape->height(child));
    }
    if (alike.size() <= most) continue;
    const std::uint32_t levels = max_height - shape->depth_of(at) - below;
    const std::size_t fan_out = smallest_fan_out(alike.size(), levels);
    for (std::size_t i = fan_out; i < alike.size(); ++i) {
      parents[alike[i]] = static_cast<std::int32_t>(alike[i / fan_out - 1]);
    }
    return;  // the heights below have changed
  }
}

}  // namespace tally::plan
