// Sets of GPUs, and the order in which a set forms a ring.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "gpu_bridge/machine/host.h"
#include "gpu_bridge/machine/strategy.h"

namespace tally::host {

// Bit i: the GPU i of Host::all(Kind::kGpu).
using GpuSet = std::uint32_t;

class Rings {
 public:
  explicit Rings(const Routes& routes);

  std::size_t gpus() const { return gpus_.size(); }

  // The order whose hops take the least time. If several do, the one of them that moves the fewest
  // bytes, and if these are equal too, the first. Copies to host memory are not compared, and equal
  // shares are assumed, because they change the bytes of all hops alike. Sets of more than 8 GPUs
  // keep the order of the PCIe tree, because they have too many orders.
  const std::vector<VertexId>& ring(GpuSet set);

 private:
  std::vector<VertexId> best(std::vector<VertexId> members) const;

  const Routes& routes_;
  std::vector<VertexId> gpus_;
  std::map<GpuSet, std::vector<VertexId>> known_;
};

// All ways to divide the GPUs into groups that are worth a comparison. Up to 8 GPUs: every way.
// More GPUs: every way whose groups are single GPUs, the GPUs below one switch or NUMA node, those
// that NVLinks join, what two of these sets have in common, or all GPUs.
struct Divisions {
  std::vector<std::vector<GpuSet>> all;
  bool is_every_way = false;
};
// The first `most` of them. With `only_usual`, 8 GPUs or fewer have only the ways that more GPUs
// have.
Divisions divisions(const Routes& routes, std::size_t most, bool only_usual);

// The GPUs of each direct parent: of a switch, or of a NUMA node with GPUs of its own.
std::vector<GpuSet> sets_by_parent(const Host& host);
// The GPUs that NVLinks join in both directions, directly, over an NVSwitch or over other GPUs.
// Each GPU is in one island.
std::vector<GpuSet> nvlink_islands(const Routes& routes);

}  // namespace tally::host
