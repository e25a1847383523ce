#include "control/cli/plan/network_file.h"

#include <fmt/format.h>

#include <filesystem>

#include "control/cli/plan/plan_files.h"
#include "control/plan/json/machine_network.h"
#include "gpu_bridge/machine/host_nics.h"

namespace tally::control {

Result<plan::Network> read_network_file(const std::string& path) {
  const auto text = read_file(path, "a file of a network");
  if (!text) return text.error();
  const auto folder = std::filesystem::path(path).parent_path();
  auto network =
      plan::read_network_or_machines(*text, [&](const std::string& name) -> Result<plan::PcieTree> {
        const auto xml = read_file((folder / name).string(), "a file that `lstopo --of xml` wrote");
        if (!xml) return xml.error();
        return host::read_nics(*xml);
      });
  if (!network)
    return Error{network.status(), fmt::format("{}: {}", path, network.error().message)};
  return network;
}

}  // namespace tally::control
