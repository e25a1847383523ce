// hwloc's XML of a machine: refused with a reason, or understood; then a NIC is never faster than
// its own links, and a network has it.
#include <cmath>
#include <string>

#include "control/plan/json/network_json.h"
#include "control/plan/model/validate.h"
#include "gpu_bridge/machine/host_hwloc.h"
#include "gpu_bridge/machine/host_nics.h"
#include "tests/fuzz/input.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  using tally::fuzz::require;
  const std::string_view xml(reinterpret_cast<const char*>(data), bytes);
  const auto host = tally::host::read_hwloc(xml);
  if (host) {
    require(tally::host::check(*host).ok(), "what is understood is possible");
  } else {
    require(!host.error().message.empty(), "a refusal says why");
  }
  const auto nics = tally::host::read_nics(xml);
  if (!nics) {
    require(!nics.error().message.empty(), "a refusal says why");
    return 0;
  }
  std::vector<tally::plan::BothWays> ports;
  double most = 0;
  for (const auto& part : nics->parts) {
    require(part.above >= nics->parts.size() || part.above < ports.size(), "switches come first");
    ports.push_back(part.is_nic ? part.link : tally::plan::BothWays{0, 0});
    most += ports.back().there;
  }
  const auto together = tally::plan::speed_together(*nics, ports);
  require(together.there > 0 && together.there <= most * (1 + 1e-9), "links limit");
  const auto network = tally::plan::read_network(
      R"({"fmt":"tally-network/1","racks":[{"name":"r"}],
          "machines":[{"name":"a","role":"worker","rack":"r","hwloc":"x"}]})",
      [&](const std::string&) -> tally::Result<tally::plan::PcieTree> { return *nics; });
  if (network) {
    require(tally::plan::validate(*network).ok(), "the network is possible");
  } else {
    require(!network.error().message.empty(), "a refusal says why");
  }
  return 0;
}
