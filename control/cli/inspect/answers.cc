#include "control/cli/inspect/answers.h"

#include <fmt/format.h>

#include <limits>

#include "base/text/sizes.h"
#include "control/cli/common/flags.h"
#include "control/cli/common/tables.h"

namespace tally::control {
namespace {

constexpr std::size_t kRowsWithoutAll = 10;

}  // namespace

PlanAnswer refusal(int status, const std::string& message) {
  return {status, "", fmt::format("tallyctl: {}\n", format_value(message, Format::kText))};
}

PlanAnswer reported(const nlohmann::json& report, const std::string& text, bool as_json) {
  if (!as_json) return {0, text, ""};
  return {0, report.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n", ""};
}

Result<std::uint64_t> operation_bytes(const std::string& text) {
  const auto bytes = parse_size(text);
  if (bytes && *bytes > 0) return bytes;
  return invalid(fmt::format("--bytes {}: must be a size like 256MiB", text));
}

std::size_t most_rows(bool all) {
  return all ? std::numeric_limits<std::size_t>::max() : kRowsWithoutAll;
}

void add_domain_option(CLI::App& command, std::string& domain) {
  command.add_option("--domain", domain, "of the plan; left out: the first")->type_name("NAME");
}

void add_bytes_option(CLI::App& command, std::string& bytes, const char* help) {
  command.add_option("--bytes", bytes, help)->type_name("SIZE")->capture_default_str();
}

void add_hop_option(CLI::App& command, double& hop_us) {
  command.add_option("--hop-us", hop_us, "latency of one hop, microseconds")
      ->check(number_in(0.0, 1e6))
      ->capture_default_str();
}

void add_all_flag(CLI::App& command, bool& all) {
  command.add_flag("--all", all,
                   fmt::format("every row of tables longer than {}", kRowsWithoutAll));
}

}  // namespace tally::control
