#include "control/plan/model/pcie.h"

#include <algorithm>

namespace tally::plan {

std::size_t PcieTree::find(std::string_view nic) const {
  return static_cast<std::size_t>(
      std::find_if(parts.begin(), parts.end(),
                   [&](const PciePart& part) { return part.is_nic && part.name == nic; }) -
      parts.begin());
}

BothWays speed_together(const PcieTree& tree, std::vector<BothWays> ports) {
  BothWays together{0, 0};
  for (std::size_t i = tree.parts.size(); i-- > 0;) {
    const PciePart& part = tree.parts[i];
    BothWays& sum = part.above < i ? ports[part.above] : together;
    sum.there += std::min(ports[i].there, part.link.there);
    sum.back += std::min(ports[i].back, part.link.back);
  }
  return together;
}

}  // namespace tally::plan
