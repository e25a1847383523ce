// Opens the Ethernet port of network.roce, for a node without an RDMA device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "control/config/config.h"
#include "control/node/node_options.h"
#include "dataplane/transport/roce/roce_transport.h"

namespace tally::control {

struct RoceNetwork {
  std::vector<std::unique_ptr<transport::roce::RoceTransport>> transports;  // by shard
  VerbsOffer offer;  // what clients learn of it
};

// What the EAL needs for network.roce: memory for frames, and the device if it is on the PCI bus.
struct RoceNeeds {
  std::uint32_t memory_mib = 0;
  std::string pci_device{};
};
RoceNeeds needs_of_roce(const Config& config);

// Precondition: config.roce is not empty, and the EAL has started. memory: into which the shards
// sum; borrowed for the life of the transports. before: as for open_networks().
Result<RoceNetwork> open_roce(const Config& config, std::size_t landing_bytes,
                              std::span<std::byte> memory, const BeforeShard& before);

}  // namespace tally::control
