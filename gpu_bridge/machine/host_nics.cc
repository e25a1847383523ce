#include "gpu_bridge/machine/host_nics.h"

#include <map>

#include "gpu_bridge/machine/host_hwloc.h"

namespace tally::host {
namespace {

class TreeMaker {
 public:
  explicit TreeMaker(const Host& host) : host_(host) {}

  plan::PcieTree make() {
    for (const VertexId nic : host_.all(Kind::kNic)) add(nic);
    return std::move(tree_);
  }

 private:
  // Adds the switches above first.
  std::size_t add(VertexId id) {
    if (const auto known = parts_.find(id); known != parts_.end()) return known->second;
    const Vertex& vertex = host_.vertices[id];
    plan::PciePart part{vertex.name, vertex.kind == Kind::kNic};
    if (host_.vertices[vertex.under].kind == Kind::kSwitch) part.above = add(vertex.under);
    part.link = {speed(vertex.under, id), speed(id, vertex.under)};
    tree_.parts.push_back(std::move(part));
    return parts_[id] = tree_.parts.size() - 1;
  }

  double speed(VertexId from, VertexId to) const {
    for (const Link& link : host_.links) {
      if (link.from == from && link.to == to) return link.speed;
    }
    return kMinSpeed;  // read_hwloc() joins each device to what is above it
  }

  const Host& host_;
  plan::PcieTree tree_;
  std::map<VertexId, std::size_t> parts_;
};

}  // namespace

Result<plan::PcieTree> read_nics(std::string_view xml) {
  const auto host = read_hwloc(xml, Devices::kNics);
  if (!host) return host.error();
  return TreeMaker(*host).make();
}

}  // namespace tally::host
