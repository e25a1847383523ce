#include "tests/support/roce/cable_link.h"
#include "tests/support/roce/node_links.h"

namespace tally::testing {

std::vector<NodeLink> node_links(std::uint32_t shards) {
  std::vector<NodeLink> links;
  for (std::uint32_t i = 0; i < shards; ++i) {
    auto link = std::make_unique<CableLink>(test_cable());
    const auto address = link->address();
    links.push_back({std::move(link), address});
  }
  return links;
}

}  // namespace tally::testing
