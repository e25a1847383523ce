// The bytes that an operation moves at each level of a network, beside those that it must move.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "control/plan/model/load.h"

namespace tally::simulator {

struct Tier {
  std::string name;      // "machines" or "racks"
  double moved = 0;      // bytes out of all machines, or out of all racks
  double necessary = 0;  // the least that any operation over trees moves there
};

// The necessary bytes of an operation of M bytes: the edges of a tree that join n workers are at
// least n - 1, and each carries M up and M down. So 2 (n - 1) M leave machines, and 2 (R - 1) M
// leave racks when R racks have workers. A rack is what hangs together when links from switch to
// switch are taken away. With one rack there is only the tier of machines. `loads`: in the order of
// plan::ClassLoad::loads, with the bytes of the whole operation.
std::vector<Tier> tiers_of(const plan::Network& network, std::span<const plan::VertexId> workers,
                           std::span<const plan::Load> loads, double bytes);

}  // namespace tally::simulator
