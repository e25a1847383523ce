#include "gpu_bridge/machine/strategy.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace tally::host {
namespace {

void add_route(const Route& route, double bytes, std::vector<double>& loads) {
  for (const ResourceId resource : route) loads[resource] += bytes;
}

// Calls visit(from, to, share of the bytes) for the hops of a group's rings.
template <typename Visit>
void for_each_hop(const Group& group, Visit&& visit) {
  const std::size_t size = group.ring.size();
  if (size < 2) return;
  const double part = group.both_ways ? 0.5 : 1.0;
  for (std::size_t i = 0; i < size; ++i) {
    const VertexId from = group.ring[i], to = group.ring[(i + 1) % size];
    visit(from, to, part);
    if (group.both_ways) visit(to, from, part);
  }
}

// The part of the bytes of a GPU, at all places together.
double weight_of(const Group& group, VertexId gpu) {
  double weight = 0;
  for (const Share& share : group.shares) weight += share.gpu == gpu ? share.weight : 0;
  return weight;
}

std::string shares_in_words(const Host& host, const Group& group) {
  if (is_even(group)) return "equal shares";
  std::string text;
  for (const VertexId gpu : group.ring) {
    const double weight = weight_of(group, gpu);
    if (weight <= kEqual) continue;
    text += fmt::format("{}{} {:.4g}%", text.empty() ? "" : ", ", host.vertices[gpu].name,
                        100 * weight);
  }
  return text;
}

}  // namespace

Group group_of(const Routes& routes, std::vector<VertexId> ring) {
  Group group{std::move(ring), false, {}};
  const std::size_t size = group.ring.size();
  group.both_ways = size > 2;
  for (std::size_t i = 0; i < size; ++i) {
    const VertexId from = group.ring[i], to = group.ring[(i + 1) % size];
    for (const auto& [a, b] : {std::pair{from, to}, {to, from}}) {
      group.both_ways &= routes.has_nvlink(a, b) && routes.peer(a, b).size() == 1;
    }
  }
  return group;
}

bool is_even(const Group& group) {
  const double even = 1.0 / static_cast<double>(group.ring.size());
  return std::all_of(group.ring.begin(), group.ring.end(), [&](VertexId gpu) {
    return std::abs(weight_of(group, gpu) - even) <= kEqual;
  });
}

bool is_better(const Cost& a, const Cost& b) {
  if (std::abs(a.tau - b.tau) > kEqual * std::max(a.tau, b.tau)) return a.tau < b.tau;
  if (a.copies != b.copies) return a.copies < b.copies;
  return a.moved < b.moved * (1 - kEqual);
}

void add_ring(const Routes& routes, const Group& group, std::vector<double>& loads) {
  for_each_hop(group, [&](VertexId from, VertexId to, double part) {
    add_route(routes.peer(from, to), 2 * part, loads);
  });
}

void add_share(const Routes& routes, const Group& group, const Share& share, std::size_t groups,
               bool is_first, std::vector<double>& loads) {
  const double bytes = share.weight;
  for_each_hop(group, [&](VertexId from, VertexId to, double part) {
    if (from == share.gpu) add_route(routes.peer(from, to), -bytes * part, loads);
    if (to == share.gpu) add_route(routes.peer(from, to), -bytes * part, loads);
  });
  add_route(routes.pcie(share.gpu, share.memory), bytes, loads);
  add_route(routes.pcie(share.memory, share.gpu), bytes, loads);
  if (!is_first) return;
  const VertexId network = routes.host().all(Kind::kNetwork).front();
  for (const auto& [from, to] : {std::pair{share.memory, share.nic}, {share.nic, network}}) {
    add_route(routes.pcie(from, to), bytes, loads);
    add_route(routes.pcie(to, from), bytes, loads);
  }
  const ResourceId sum = routes.sum(share.memory);
  if (sum != kNone && groups > 1) loads[sum] += bytes * static_cast<double>(groups);
}

Cost cost_of(const Routes& routes, const std::vector<Group>& groups) {
  Cost cost;
  cost.loads.assign(routes.resources().size(), 0);
  for (const Group& group : groups) {
    add_ring(routes, group, cost.loads);
    for (const Share& share : group.shares) {
      add_share(routes, group, share, groups.size(), &group == &groups.front(), cost.loads);
    }
    cost.copies += group.shares.size();
  }
  for (ResourceId i = 0; i < cost.loads.size(); ++i) {
    const Resource& resource = routes.resources()[i];
    if (resource.type == Resource::Type::kLink) cost.moved += cost.loads[i];
    const double time = cost.loads[i] / resource.speed;
    if (time > cost.tau * (1 + kEqual)) cost.binds = i;
    cost.tau = std::max(cost.tau, time);
  }
  return cost;
}

std::string describe(const Host& host, const std::vector<Group>& groups) {
  std::string text;
  for (const Group& group : groups) {
    text += text.empty() ? "" : " | ";
    for (const VertexId gpu : group.ring) {
      text += fmt::format("{}{}", host.vertices[gpu].name, gpu == group.ring.back() ? "" : " ");
    }
    if (group.ring.size() > 1) text += fmt::format(" ({})", shares_in_words(host, group));
  }
  return text;
}

}  // namespace tally::host
