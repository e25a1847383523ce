// The links of a LocalNode with transport roce. A test program links one of two implementations:
// cable_links.cc (the cable of this process) or port_links.cc (a port of DPDK).
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "dataplane/transport/roce/link.h"

namespace tally::testing {

struct NodeLink {
  std::unique_ptr<transport::roce::Link> link;
  transport::roce::IpAddress address{};
  std::uint32_t mtu = 1024;  // so that most messages have several packets
};

// One for each shard. Throws std::runtime_error.
std::vector<NodeLink> node_links(std::uint32_t shards);

}  // namespace tally::testing
