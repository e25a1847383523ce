// What the subcommands of this folder have in common.
#pragma once

#include <CLI/CLI.hpp>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "base/result.h"
#include "control/cli/plan/plan_command.h"

namespace tally::control {

// An answer that refuses with this message. Messages have names from files.
PlanAnswer refusal(int status, const std::string& message);

// The report as JSON, or the text of it.
PlanAnswer reported(const nlohmann::json& report, const std::string& text, bool as_json);

// The value of --bytes, above 0.
Result<std::uint64_t> operation_bytes(const std::string& text);

// The rows of a table without --all, or with it.
std::size_t most_rows(bool all);

// Add the options --domain, --bytes, --hop-us and --all.
void add_domain_option(CLI::App& command, std::string& domain);
void add_bytes_option(CLI::App& command, std::string& bytes, const char* help);
void add_hop_option(CLI::App& command, double& hop_us);
void add_all_flag(CLI::App& command, bool& all);

}  // namespace tally::control
