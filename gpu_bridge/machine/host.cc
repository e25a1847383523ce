#include "gpu_bridge/machine/host.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>

namespace tally::host {
namespace {

bool is_device(Kind kind) {
  return kind == Kind::kSwitch || kind == Kind::kGpu || kind == Kind::kNic;
}

// Whether bytes pass through a vertex of this kind on their way over PCIe.
bool forwards(Kind kind) {
  return kind == Kind::kNuma || kind == Kind::kSwitch || kind == Kind::kNic;
}

Error lacks(std::string_view what, std::string_view key) {
  return invalid(fmt::format("the machine has no {}; add one to \"{}\"", what, key));
}

// Checks that PCIe and the sockets join the vertex to all NUMA nodes.
Outcome check_joined(const Host& host) {
  std::vector<bool> seen(host.vertices.size());
  std::deque<VertexId> next = {host.all(Kind::kNuma).front()};
  seen[next.front()] = true;
  while (!next.empty()) {
    const VertexId at = next.front();
    next.pop_front();
    for (const Link& link : host.links) {
      if (link.from != at || seen[link.to] || link.bus == Bus::kNvlink) continue;
      seen[link.to] = true;
      next.push_back(link.to);
    }
  }
  for (VertexId id = 0; id < host.vertices.size(); ++id) {
    const Vertex& vertex = host.vertices[id];
    if (seen[id] || vertex.kind == Kind::kNvswitch || vertex.kind == Kind::kNetwork) continue;
    return invalid(fmt::format("{} \"{}\" is not joined to NUMA node \"{}\"; add the missing link",
                               kind_name(vertex.kind), vertex.name,
                               host.vertices[host.all(Kind::kNuma).front()].name));
  }
  return Unit{};
}

}  // namespace

std::string_view kind_name(Kind kind) {
  constexpr std::string_view kNames[] = {"NUMA node", "switch",   "GPU",
                                         "NIC",       "NVSwitch", "network"};
  return kNames[static_cast<std::size_t>(kind)];
}

std::vector<VertexId> Host::all(Kind kind) const {
  std::vector<VertexId> found;
  for (VertexId id = 0; id < vertices.size(); ++id) {
    if (vertices[id].kind == kind) found.push_back(id);
  }
  return found;
}

VertexId Host::find(std::string_view wanted) const {
  const auto found = std::find_if(vertices.begin(), vertices.end(),
                                  [&](const Vertex& vertex) { return vertex.name == wanted; });
  return found == vertices.end() ? kNone : static_cast<VertexId>(found - vertices.begin());
}

Outcome check(const Host& host) {
  if (host.all(Kind::kNuma).empty()) return lacks("NUMA node", "numa");
  if (host.all(Kind::kGpu).empty()) return lacks("GPU", "gpus");
  if (host.all(Kind::kNic).empty()) return lacks("NIC", "nics");
  if (host.all(Kind::kGpu).size() > kMaxGpus) {
    return invalid(
        fmt::format("{} GPUs; must be at most {}", host.all(Kind::kGpu).size(), kMaxGpus));
  }
  for (const Vertex& vertex : host.vertices) {
    // A circle of switches ends nowhere; a walk longer than the list has found one.
    const Vertex* above = &vertex;
    for (std::size_t hops = 0; is_device(above->kind); ++hops) {
      if (above->under >= host.vertices.size() || hops > host.vertices.size()) {
        return invalid(fmt::format("{} \"{}\" is below no NUMA node; name one, or a switch that is",
                                   kind_name(vertex.kind), vertex.name));
      }
      above = &host.vertices[above->under];
    }
  }
  return check_joined(host);
}

Routes::Routes(const Host& host) : host_(host) {
  const std::size_t count = host.vertices.size();
  sum_.assign(count, kNone);
  root_.assign(count, kNone);
  pcie_.assign(count, std::vector<Route>(count));
  peer_ = pcie_;
  by_nvlink_.assign(count, std::vector<bool>(count));
  add_resources();
  for (VertexId from = 0; from < count; ++from) {
    if (host.vertices[from].kind != Kind::kNvswitch) find_from(from);
  }
  find_peers();
}

void Routes::add_resources() {
  for (std::size_t i = 0; i < host_.links.size(); ++i) {
    resources_.push_back({Resource::Type::kLink, i, host_.links[i].speed});
  }
  for (VertexId id = 0; id < host_.vertices.size(); ++id) {
    const Vertex& vertex = host_.vertices[id];
    if (vertex.sum > 0) {
      sum_[id] = static_cast<ResourceId>(resources_.size());
      resources_.push_back({Resource::Type::kSum, id, vertex.sum});
    }
    if (vertex.peer > 0) {
      root_[id] = static_cast<ResourceId>(resources_.size());
      resources_.push_back({Resource::Type::kPeer, id, vertex.peer});
    }
  }
}

// Breadth first from one vertex, over PCIe, sockets and ports.
void Routes::find_from(VertexId from) {
  std::vector<bool> seen(host_.vertices.size());
  std::deque<VertexId> next = {from};
  seen[from] = true;
  while (!next.empty()) {
    const VertexId at = next.front();
    next.pop_front();
    if (at != from && !forwards(host_.vertices[at].kind)) continue;
    for (ResourceId i = 0; i < host_.links.size(); ++i) {
      const Link& link = host_.links[i];
      if (link.from != at || link.bus == Bus::kNvlink || seen[link.to]) continue;
      seen[link.to] = true;
      pcie_[from][link.to] = pcie_[from][at];
      pcie_[from][link.to].push_back(i);
      next.push_back(link.to);
    }
  }
}

void Routes::find_peers() {
  const std::size_t count = host_.vertices.size();
  std::vector<std::vector<ResourceId>> nvlink(count, std::vector<ResourceId>(count, kNone));
  for (ResourceId i = 0; i < host_.links.size(); ++i) {
    if (host_.links[i].bus == Bus::kNvlink) nvlink[host_.links[i].from][host_.links[i].to] = i;
  }
  const auto gpus = host_.all(Kind::kGpu);
  const auto nvswitches = host_.all(Kind::kNvswitch);
  for (const VertexId from : gpus) {
    for (const VertexId to : gpus) {
      if (from == to) continue;
      Route& route = peer_[from][to];
      if (nvlink[from][to] != kNone) route = {nvlink[from][to]};
      for (const VertexId through : nvswitches) {
        if (!route.empty() || nvlink[from][through] == kNone || nvlink[through][to] == kNone)
          continue;
        route = {nvlink[from][through], nvlink[through][to]};
      }
      by_nvlink_[from][to] = !route.empty();
      if (by_nvlink_[from][to]) continue;
      route = pcie_[from][to];
      for (const ResourceId hop : pcie_[from][to]) {
        const VertexId root = root_[host_.links[hop].to];
        if (root != kNone) route.push_back(root);
      }
    }
  }
}

std::string Routes::name(ResourceId resource) const {
  const Resource& one = resources_[resource];
  if (one.type != Resource::Type::kLink) {
    const std::string& numa = host_.vertices[one.index].name;
    return one.type == Resource::Type::kSum
               ? fmt::format("sums at {}", numa)
               : fmt::format("copies from GPU to GPU through {}", numa);
  }
  constexpr std::string_view kBuses[] = {"PCIe", "sockets", "NVLink", "port"};
  const Link& link = host_.links[one.index];
  return fmt::format("{} -> {} ({})", host_.vertices[link.from].name, host_.vertices[link.to].name,
                     kBuses[static_cast<std::size_t>(link.bus)]);
}

}  // namespace tally::host
