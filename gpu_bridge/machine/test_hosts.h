// For tests: GPU machines of each kind, as in BytePS (OSDI '20), section 4.2, and random ones;
// and their plans.
#pragma once

#include <random>
#include <string>
#include <vector>

#include "gpu_bridge/machine/host.h"
#include "gpu_bridge/machine/planner.h"

namespace tally::host {

// Speeds of the paper, section 4.2.1, bytes per second.
inline constexpr double kPcieSpeed = 105e9 / 8;  // measured between GPUs of one PCIe switch
inline constexpr double kPeerSpeed = 80e9 / 8;   // measured between GPUs of two PCIe switches
inline constexpr double kNicSpeed = 100e9 / 8;
inline constexpr double kSocketsSpeed = 300e9 / 8;
inline constexpr double kNvlinkSpeed = 1.2e12 / 8;  // of one GPU, section 4.2.2

class HostBuilder {
 public:
  HostBuilder();
  VertexId numa(const std::string& name, double sum = 0, double peer = 0);
  VertexId device(Kind kind, const std::string& name, VertexId under, double up, double down);
  VertexId device(Kind kind, const std::string& name, VertexId under, double speed = kPcieSpeed) {
    return device(kind, name, under, speed, speed);
  }
  VertexId nvswitch(const std::string& name);
  void join(VertexId a, VertexId b, Bus bus, double there, double back);
  void join(VertexId a, VertexId b, Bus bus, double speed) { join(a, b, bus, speed, speed); }
  void port(VertexId nic, double speed);

  Host host;
};

// Two sockets, each with a PCIe switch of `gpus_per_switch` GPUs, and a NIC at the first socket.
// With 4 GPUs it is the machine of section 4.2.1.
Host pcie_host(int gpus_per_switch = 4);
// Four PCIe switches of two GPUs, two at each socket. The NIC is below the first switch. An
// NVSwitch joins all GPUs: the machine of section 4.2.2.
Host nvlink_host();
// Two PCIe switches of four GPUs. NVLinks join the GPUs of each switch to two pairs or one quad.
Host mixed_host(bool quads);
// At most `most_gpus` GPUs with random links; every speed is one of a few.
Host random_host(std::mt19937& random, int most_gpus);

// The plan of this machine, for tests that are not about the planner's runs themselves. It is made
// once in a process, because a plan for 8 GPUs takes seconds with a sanitizer. One thread at a
// time.
const HostPlan& plan_of(const Host& host);

}  // namespace tally::host
