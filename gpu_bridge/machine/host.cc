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

// Whether the way from a device towards the CPU leads over switches to a NUMA node.
bool is_below_numa(const Host& host, VertexId device) {
  VertexId at = host.vertices[device].under;
  // A circle of switches ends nowhere; a walk longer than the list has found one.
  for (std::size_t hops = 0; hops < host.vertices.size(); ++hops) {
    if (at >= host.vertices.size()) return false;
    if (host.vertices[at].kind != Kind::kSwitch) return host.vertices[at].kind == Kind::kNuma;
    at = host.vertices[at].under;
  }
  return false;
}

// Checks that PCIe and the sockets join every vertex to the first NUMA node. (NVSwitches and the
// network need no such link.)
Outcome check_joined(const Host& host) {
  std::vector<bool> seen(host.vertices.size());
  std::deque<VertexId> next = {host.all(Kind::kNuma).front()};
  seen[next.front()] = true;
  while (!next.empty()) {
    const VertexId at = next.front();
    next.pop_front();
    for (const Link& link : host.links) {
      if (link.from != at || seen[link.to]) continue;
      if (link.bus != Bus::kPcie && link.bus != Bus::kSocket) continue;
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

std::string_view bus_name(Bus bus) {
  constexpr std::string_view kNames[] = {"PCIe", "sockets", "NVLink", "port"};
  return kNames[static_cast<std::size_t>(bus)];
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

Outcome check_bounds(const Host& host) {
  const struct {
    Kind kind;
    std::size_t most;
    std::string_view names;
  } kBounds[] = {{Kind::kNuma, kMaxNumaNodes, "NUMA nodes"},
                 {Kind::kSwitch, kMaxSwitches, "switches"},
                 {Kind::kGpu, kMaxGpus, "GPUs"},
                 {Kind::kNic, kMaxNics, "NICs"},
                 {Kind::kNvswitch, kMaxNvswitches, "NVSwitches"}};
  for (const auto& [kind, most, names] : kBounds) {
    if (host.all(kind).size() <= most) continue;
    return invalid(fmt::format("the machine has more than {} {}; leave some out", most, names));
  }
  return Unit{};
}

Outcome check(const Host& host) {
  const bool has_numa = !host.all(Kind::kNuma).empty();
  if (has_numa && host.all(Kind::kGpu).empty()) return lacks("GPU", "gpus");
  return check_without_gpus(host);
}

Outcome check_without_gpus(const Host& host) {
  if (host.all(Kind::kNuma).empty()) return lacks("NUMA node", "numa");
  if (host.all(Kind::kNic).empty()) return lacks("NIC", "nics");
  if (auto few = check_bounds(host); !few) return few;
  for (VertexId id = 0; id < host.vertices.size(); ++id) {
    const Vertex& vertex = host.vertices[id];
    if (!is_device(vertex.kind) || is_below_numa(host, id)) continue;
    return invalid(fmt::format("{} \"{}\" is below no NUMA node; name one, or a switch that is",
                               kind_name(vertex.kind), vertex.name));
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
  const Link& link = host_.links[one.index];
  return fmt::format("{} -> {} ({})", host_.vertices[link.from].name, host_.vertices[link.to].name,
                     bus_name(link.bus));
}

}  // namespace tally::host
