// The NICs of a machine and the PCIe links between them and its memory, some of which several NICs
// share. Pure data; gpu_bridge/machine makes it of hwloc's XML.
#pragma once

#include <cstddef>
#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "control/plan/model/validate.h"

namespace tally::plan {

struct BothWays {  // bytes per second
  double there = kMinSpeed;
  double back = kMinSpeed;
};

// A NIC or a switch, and the link from it towards the memory. `there` is the way of bytes that
// leave the machine.
struct PciePart {
  std::string name;
  bool is_nic = true;
  std::size_t above = std::numeric_limits<std::size_t>::max();  // a switch; else the memory
  BothWays link;
};

struct PcieTree {
  std::vector<PciePart> parts;  // a switch comes before the parts below it

  // Returns the index of the NIC, or the number of parts when there is none.
  std::size_t find(std::string_view nic) const;
};

// The speed of some NICs together. `ports` has the speeds of their ports by part, and 0 for other
// parts.
BothWays speed_together(const PcieTree& tree, std::vector<BothWays> ports);

// Reads the file that the key "hwloc" of a machine names. Returns an error that says why it cannot.
using ReadPcie = std::function<Result<PcieTree>(const std::string& path)>;

}  // namespace tally::plan
