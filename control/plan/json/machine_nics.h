// The NICs of a machine in a file of a network, its keys "nics" and "hwloc", and speeds in such
// files.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <string_view>

#include "control/plan/json/document.h"
#include "control/plan/model/network.h"
#include "control/plan/model/pcie.h"

namespace tally::plan {

// Reads bytes per second. Notes a mistake for a speed that is not allowed, and returns an allowed
// one.
double read_speed(const Value& entry, std::string_view key);
// Reads "speed" for both ways, or one key for each way.
BothWays read_speeds(const Value& entry, std::string_view there, std::string_view back);

inline constexpr std::size_t kMaxNics = 64;  // of one machine

struct MachineNics {
  std::map<VertexId, BothWays> links;  // by the switch at the other end; `there` leaves the machine
  // The speed of all of them; only where PCIe links that several NICs share may limit them.
  std::optional<BothWays> together;
};

// Returns the switch or rack of this name, and notes a mistake when there is none.
using SwitchNamed = std::function<VertexId(const Value& name)>;

// Reads the NICs of a machine that has the key "nics" or "hwloc". A NIC without "to" is at the
// switch of the machine's rack. An empty read_pcie: the reader takes no "hwloc".
MachineNics read_nics(const Value& machine, std::optional<VertexId> rack,
                      const SwitchNamed& switch_named, const ReadPcie& read_pcie);

}  // namespace tally::plan
