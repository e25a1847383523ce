// A GPU machine from hwloc's XML, as `lstopo --of xml` writes it on that machine.
//
// hwloc knows the tree of PCIe with the speeds of its links, and the NUMA node of each part. GPUs
// are PCI devices of NVIDIA's or AMD's compute and display classes, or have a device of the
// operating system that CUDA, NVML or RSMI names. NVLinks come from the matrix "NVLinkBandwidth"
// that hwloc's NVML plugin adds. hwloc does not know the speed of links between sockets: the reader
// assumes it, and marks the links.
#pragma once

#include <string_view>

#include "base/result.h"
#include "gpu_bridge/machine/host.h"

namespace tally::host {

enum class Devices {
  kAll,   // a GPU machine: GPUs, NICs and NVLinks
  kNics,  // any machine, without its GPUs
};

// Returns an error where the build has no hwloc. Never throws. A child process reads the text
// first, because some damaged XML ends the process that hwloc runs in.
Result<Host> read_hwloc(std::string_view xml, Devices devices = Devices::kAll);

}  // namespace tally::host
