// The NICs of a machine, and the PCIe links that they share, from hwloc's XML: for files of
// networks.
#pragma once

#include <string_view>

#include "base/result.h"
#include "control/plan/model/pcie.h"

namespace tally::host {

// Errors as those of read_hwloc() (host_hwloc.h). The machine needs no GPU.
Result<plan::PcieTree> read_nics(std::string_view xml);

}  // namespace tally::host
