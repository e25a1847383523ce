// A file of a GPU machine: refused with a reason, or planned with a finite time. hwloc's XML has
// a fuzzer of its own.
#include <cmath>
#include <string>

#include "gpu_bridge/machine/host_json.h"
#include "gpu_bridge/machine/planner.h"
#include "tests/fuzz/input.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  using tally::fuzz::require;
  const std::string_view text(reinterpret_cast<const char*>(data), bytes);
  if (text.find('<') != std::string_view::npos) return 0;
  const auto host = tally::host::read_host(
      text,
      [](const std::string&) -> tally::Result<std::string> { return tally::invalid("no file"); });
  if (!host) {
    require(!host.error().message.empty(), "a refusal says why");
    return 0;
  }
  // Planning a larger machine takes longer than a fuzzer should wait for.
  if (host->all(tally::host::Kind::kGpu).size() > 5) return 0;
  const tally::host::Routes routes(*host);
  const auto plan = tally::host::plan_host(routes);
  require(std::isfinite(plan.chosen.cost.tau), "a time is finite");
  for (const auto& named : plan.named) {
    require(!tally::host::is_better(named.cost, plan.chosen.cost), "nothing beats the chosen one");
  }
  for (const auto& group : plan.chosen.groups) {
    double whole = 0;
    for (const auto& share : group.shares) whole += share.weight;
    require(std::abs(whole - 1) < 1e-7, "each group has every byte once");
  }
  return 0;
}
