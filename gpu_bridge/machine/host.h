// What is inside a GPU machine: GPUs, NUMA nodes, PCIe switches and NICs, and the links that join
// them. Each direction of a link is a link of its own. Pure data, without threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace tally::host {

// Bounds for files. Planning then ends within seconds to minutes.
inline constexpr std::size_t kMaxGpus = 32;
inline constexpr std::size_t kMaxNics = 32;
inline constexpr std::size_t kMaxNumaNodes = 32;
inline constexpr std::size_t kMaxSwitches = 256;
inline constexpr std::size_t kMaxNvswitches = 32;
inline constexpr std::size_t kMaxNvlinks = 2048;          // one for both directions
inline constexpr double kMinSpeed = 1, kMaxSpeed = 1e15;  // bytes per second

enum class Kind : std::uint8_t {
  kNuma,    // a NUMA node: CPU cores, their memory, and the root of their PCIe devices
  kSwitch,  // PCIe
  kGpu,
  kNic,
  kNvswitch,  // joins NVLinks of several GPUs
  kNetwork,   // what is at the other end of the NICs' ports
};

using VertexId = std::uint32_t;  // index in Host::vertices
inline constexpr VertexId kNone = std::numeric_limits<VertexId>::max();

// Speeds are bytes per second. 0: no limit is known, so none counts.
struct Vertex {
  Kind kind = Kind::kGpu;
  std::string name;
  VertexId under = kNone;  // next vertex towards the CPU; only of switches, GPUs and NICs
  // Only of NUMA nodes:
  double sum = 0;   // bytes of input that its cores sum
  double peer = 0;  // copies from GPU to GPU that pass through it, all together

  bool operator==(const Vertex&) const = default;
};

enum class Bus : std::uint8_t { kPcie, kSocket, kNvlink, kPort };

struct Link {
  VertexId from = 0;
  VertexId to = 0;
  Bus bus = Bus::kPcie;
  double speed = 0;         // bytes per second, above 0
  bool is_assumed = false;  // no file gives the speed

  bool operator==(const Link&) const = default;
};

struct Host {
  std::string name;
  std::vector<Vertex> vertices;
  std::vector<Link> links;
  std::vector<std::string> notes;  // for people: assumed values, and what this build lacks

  std::vector<VertexId> all(Kind kind) const;  // ascending
  VertexId find(std::string_view name) const;  // kNone when there is none
  bool operator==(const Host&) const = default;
};

// Checks what routes and planners rely on: there is a NUMA node, a GPU and a NIC, no kind has more
// vertices than its bound, every device is below a NUMA node, and PCIe and the sockets join all. An
// error names the vertex or the kind, and the remedy.
Outcome check(const Host& host);
// The same for a machine that may have no GPU.
Outcome check_without_gpus(const Host& host);
// The part of check() about bounds, for readers that stop at the first vertex too many.
Outcome check_bounds(const Host& host);

// What a strategy loads: a direction of a link, or the cores or the root of a NUMA node.
struct Resource {
  enum class Type : std::uint8_t { kLink, kSum, kPeer };
  Type type = Type::kLink;
  std::size_t index = 0;  // of the link or of the vertex
  double speed = 0;
};
using ResourceId = std::uint32_t;  // index in Routes::resources()
using Route = std::vector<ResourceId>;

// Which way bytes take: over the fewest links, and among equal ways over those of the lowest ids.
class Routes {
 public:
  // Precondition: check(host). The host must outlive the routes.
  explicit Routes(const Host& host);

  const Host& host() const { return host_; }
  const std::vector<Resource>& resources() const { return resources_; }

  // Between host memory (a NUMA node), GPUs, NICs and the network, over PCIe, sockets and ports.
  // Empty when from == to, and where no such links lead: from a NIC without a port to the network.
  const Route& pcie(VertexId from, VertexId to) const { return pcie_[from][to]; }
  // From GPU to GPU: over an NVLink that joins them, else over an NVSwitch, else over PCIe.
  const Route& peer(VertexId from, VertexId to) const { return peer_[from][to]; }
  bool has_nvlink(VertexId from, VertexId to) const { return by_nvlink_[from][to]; }

  ResourceId sum(VertexId numa) const { return sum_[numa]; }  // kNone when it has no limit

  // In words: "switch p0 -> cpu0 (PCIe)".
  std::string name(ResourceId resource) const;

 private:
  void add_resources();
  void find_from(VertexId from);
  void find_peers();

  const Host& host_;
  std::vector<Resource> resources_;  // those of links first, with the indices of the links
  std::vector<ResourceId> sum_, root_;
  std::vector<std::vector<Route>> pcie_, peer_;
  std::vector<std::vector<bool>> by_nvlink_;
};

std::string_view kind_name(Kind kind);  // "NUMA node"
std::string_view bus_name(Bus bus);     // "PCIe"

}  // namespace tally::host
