#include "gpu_bridge/machine/test_hosts.h"

#include <fmt/format.h>

#include <list>
#include <utility>

namespace tally::host {

HostBuilder::HostBuilder() {
  host.vertices.push_back({Kind::kNetwork, "network"});
}

VertexId HostBuilder::numa(const std::string& name, double sum, double peer) {
  host.vertices.push_back({Kind::kNuma, name, kNone, sum, peer});
  return static_cast<VertexId>(host.vertices.size() - 1);
}

VertexId HostBuilder::device(Kind kind, const std::string& name, VertexId under, double up,
                             double down) {
  host.vertices.push_back({kind, name, under});
  const auto id = static_cast<VertexId>(host.vertices.size() - 1);
  join(id, under, Bus::kPcie, up, down);
  return id;
}

VertexId HostBuilder::nvswitch(const std::string& name) {
  host.vertices.push_back({Kind::kNvswitch, name});
  return static_cast<VertexId>(host.vertices.size() - 1);
}

void HostBuilder::join(VertexId a, VertexId b, Bus bus, double there, double back) {
  host.links.push_back({a, b, bus, there});
  host.links.push_back({b, a, bus, back});
}

void HostBuilder::port(VertexId nic, double speed) {
  join(nic, 0, Bus::kPort, speed);
}

Host pcie_host(int gpus_per_switch) {
  HostBuilder builder;
  const VertexId cpu0 = builder.numa("cpu0", 0, kPeerSpeed),
                 cpu1 = builder.numa("cpu1", 0, kPeerSpeed);
  builder.join(cpu0, cpu1, Bus::kSocket, kSocketsSpeed);
  const VertexId p0 = builder.device(Kind::kSwitch, "p0", cpu0);
  const VertexId p1 = builder.device(Kind::kSwitch, "p1", cpu1);
  for (int i = 0; i < 2 * gpus_per_switch; ++i) {
    builder.device(Kind::kGpu, fmt::format("gpu{}", i), i < gpus_per_switch ? p0 : p1);
  }
  builder.port(builder.device(Kind::kNic, "nic0", cpu0), kNicSpeed);
  return builder.host;
}

Host nvlink_host() {
  HostBuilder builder;
  const VertexId cpus[] = {builder.numa("cpu0"), builder.numa("cpu1")};
  builder.join(cpus[0], cpus[1], Bus::kSocket, kSocketsSpeed);
  const VertexId nvswitch = builder.nvswitch("nvs");
  for (int i = 0; i < 4; ++i) {
    const VertexId one = builder.device(Kind::kSwitch, fmt::format("p{}", i), cpus[i / 2]);
    if (i == 0) builder.port(builder.device(Kind::kNic, "nic0", one), kNicSpeed);
    for (int gpu = 2 * i; gpu < 2 * i + 2; ++gpu) {
      builder.join(builder.device(Kind::kGpu, fmt::format("gpu{}", gpu), one), nvswitch,
                   Bus::kNvlink, kNvlinkSpeed);
    }
  }
  return builder.host;
}

Host mixed_host(bool quads) {
  Host host = pcie_host(4);
  const auto gpus = host.all(Kind::kGpu);
  for (std::size_t a = 0; a < gpus.size(); ++a) {
    for (std::size_t b = 0; b < gpus.size(); ++b) {
      if (a == b || a / (quads ? 4 : 2) != b / (quads ? 4 : 2)) continue;
      host.links.push_back({gpus[a], gpus[b], Bus::kNvlink, kNvlinkSpeed / 6});
    }
  }
  return host;
}

Host random_host(std::mt19937& random, int most_gpus) {
  const auto below = [&](int count) {
    return static_cast<int>(random() % static_cast<unsigned>(count));
  };
  const auto speed = [&] { return 4e9 * (1 + below(5)); };
  HostBuilder builder;
  std::vector<VertexId> roots;
  for (int i = 0; i <= below(2); ++i) {
    roots.push_back(builder.numa(fmt::format("cpu{}", i), below(2) * 10e9, below(2) * speed()));
  }
  if (roots.size() > 1) builder.join(roots[0], roots[1], Bus::kSocket, speed(), speed());
  std::vector<VertexId> parents = roots;
  const int switches = below(3);
  for (int i = 0; i < switches; ++i) {
    const VertexId under =
        parents[static_cast<std::size_t>(below(static_cast<int>(parents.size())))];
    parents.push_back(
        builder.device(Kind::kSwitch, fmt::format("p{}", i), under, speed(), speed()));
  }
  const auto parent = [&] {
    return parents[static_cast<std::size_t>(below(static_cast<int>(parents.size())))];
  };
  std::vector<VertexId> gpus;
  const int count = 1 + below(most_gpus);
  for (int i = 0; i < count; ++i) {
    gpus.push_back(builder.device(Kind::kGpu, fmt::format("gpu{}", i), parent(), speed(), speed()));
  }
  const VertexId nic = builder.device(Kind::kNic, "nic0", parent(), speed(), speed());
  if (below(2) == 0) builder.port(nic, speed());
  const int joined = below(3);  // how many in 2 pairs have an NVLink
  for (std::size_t a = 0; a < gpus.size(); ++a) {
    for (std::size_t b = a + 1; b < gpus.size(); ++b) {
      if (below(2) < joined) builder.join(gpus[a], gpus[b], Bus::kNvlink, speed(), speed());
    }
  }
  return builder.host;
}

const HostPlan& plan_of(const Host& host) {
  static std::list<std::pair<Host, HostPlan>> made;  // whose places stay
  for (const auto& [planned, plan] : made) {
    if (planned == host) return plan;
  }
  return made.emplace_back(host, plan_host(Routes(host))).second;
}

}  // namespace tally::host
