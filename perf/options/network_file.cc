#include "perf/options/network_file.h"

#include <fmt/format.h>

#include <utility>

#include "control/cli/common/tables.h"
#include "control/cli/plan/plan_files.h"
#include "control/plan/json/document.h"
#include "control/plan/json/machine_network.h"
#include "control/plan/json/network_json.h"
#include "control/plan/json/plan_json.h"
#include "control/plan/model/validate.h"

namespace tally::perf {

Result<NetworkFile> read_network(const std::string& path) {
  NetworkFile file;
  if (path.empty()) return file;
  const auto bad = [&](const Error& error) {
    return Error{error.status, fmt::format("--network {}: {}", path, error.message)};
  };
  const auto text =
      control::read_file(path, "a file of tallyctl probe --out, of a network, or a plan's");
  if (!text) return Error{text.status(), fmt::format("--network {}", text.error().message)};
  const auto document = plan::parse_document(*text, plan::kMaxPlanBytes);
  if (!document) return bad(document.error());
  const std::string format = control::text_at(*document, "fmt");
  if (format == plan::kPlanFormat) {
    auto plan = plan::read_plan(*text);
    if (!plan) return bad(plan.error());
    if (const auto valid = plan::validate(*plan, {}); !valid) return bad(valid.error());
    file.network = std::move(plan->network);
    return file;
  }
  if (format != plan::kMachinesFormat && format != plan::kNetworkFormat) {
    return bad(
        {Status::kInvalidArgument,
         fmt::format("fmt = \"{}\": must be \"{}\", what tallyctl probe --out writes, "
                     "\"{}\", a network, or \"{}\", a plan",
                     format, plan::kMachinesFormat, plan::kNetworkFormat, plan::kPlanFormat)});
  }
  if (format == plan::kMachinesFormat) {
    auto speeds = plan::read_machines(*text);
    if (!speeds) return bad(speeds.error());
    file.speeds = std::move(speeds).value();
    if (file.speeds.racks.empty() && file.speeds.switches.empty()) return file;
  }
  auto network = plan::read_network_or_machines(*text);
  if (!network) return bad(network.error());
  file.network = std::move(network).value();
  return file;
}

}  // namespace tally::perf
