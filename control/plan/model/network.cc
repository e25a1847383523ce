#include "control/plan/model/network.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <tuple>

namespace tally::plan {

std::string_view role_name(Role role) {
  static constexpr std::array<std::string_view, 3> kNames = {"worker", "helper", "switch"};
  return kNames[static_cast<std::size_t>(role)];
}

std::string_view passage_name(Passage passage) {
  static constexpr std::array<std::string_view, 4> kNames = {"link", "in", "out", "sum"};
  return kNames[static_cast<std::size_t>(passage)];
}

std::size_t Network::machines() const {
  const auto is_switch = [](const Vertex& vertex) { return vertex.role == Role::kSwitch; };
  return static_cast<std::size_t>(std::find_if(vertices.begin(), vertices.end(), is_switch) -
                                  vertices.begin());
}

std::string Network::name_of(VertexId id) const {
  const Vertex& vertex = vertices[id];
  return vertex.name.empty() ? fmt::format("{} {}", role_name(vertex.role), id) : vertex.name;
}

Network star_network(std::vector<Vertex> machines) {
  Network network{std::move(machines), {}};
  const auto hub = static_cast<VertexId>(network.vertices.size());
  for (VertexId id = 0; id < hub; ++id) {
    network.links.push_back({id, hub, network.vertices[id].out});
    network.links.push_back({hub, id, network.vertices[id].in});
  }
  network.vertices.push_back(Vertex{.role = Role::kSwitch});
  return network;
}

std::vector<bool> reached(const Network& network, VertexId from, bool forwards) {
  std::vector<std::vector<VertexId>> next(network.vertices.size());
  for (const Link& link : network.links) {
    next[forwards ? link.from : link.to].push_back(forwards ? link.to : link.from);
  }
  std::vector<bool> found(network.vertices.size());
  std::vector<VertexId> queue = {from};
  found[from] = true;
  for (std::size_t i = 0; i < queue.size(); ++i) {
    for (const VertexId id : next[queue[i]]) {
      if (found[id]) continue;
      found[id] = true;
      queue.push_back(id);
    }
  }
  return found;
}

Routes::Routes(const Network& network)
    : network_(network),
      sorted_(network.links.size()),
      first_(network.vertices.size() + 1),
      found_(network.vertices.size()) {
  const auto key = [&](std::uint32_t index) {
    return std::tie(network_.links[index].from, network_.links[index].to);
  };
  std::iota(sorted_.begin(), sorted_.end(), 0U);
  std::sort(sorted_.begin(), sorted_.end(),
            [&](std::uint32_t a, std::uint32_t b) { return key(a) < key(b); });
  for (const Link& link : network.links) ++first_[link.from + 1];
  std::partial_sum(first_.begin(), first_.end(), first_.begin());
}

std::span<const std::uint32_t> Routes::links_from(VertexId id) const {
  return std::span(sorted_).subspan(first_[id], first_[id + 1] - first_[id]);
}

// Searches breadth first and follows the links from a vertex in ascending order of their targets.
// So of the shortest routes, the search finds the route with the lowest sequence of ids. Machines
// end a route. Only the source and switches continue it.
const std::vector<std::uint32_t>& Routes::search(VertexId from) {
  std::vector<std::uint32_t>& last = found_[from];
  if (!last.empty()) return last;
  last.assign(network_.vertices.size(), kNone);
  std::vector<VertexId> queue = {from};
  for (std::size_t next = 0; next < queue.size(); ++next) {
    const VertexId at = queue[next];
    if (at != from && network_.vertices[at].role != Role::kSwitch) continue;
    for (const std::uint32_t index : links_from(at)) {
      const VertexId to = network_.links[index].to;
      if (to == from || last[to] != kNone) continue;
      last[to] = index;
      queue.push_back(to);
    }
  }
  return last;
}

}  // namespace tally::plan
