#include "control/cli/plan/plan_files.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "control/plan/json/plan_json.h"
#include "control/plan/model/validate.h"

namespace tally::control {
namespace {

Error in_file(const std::string& path, const Error& error) {
  return {error.status, fmt::format("{}: {}", path, error.message)};
}

}  // namespace

Result<std::string> read_file(const std::string& path, std::string_view kind) {
  std::ifstream file(path, std::ios::binary);
  std::string text(plan::kMaxPlanBytes + 1, '\0');
  if (file) file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (!file.is_open() || file.bad()) {
    return Error{Status::kInvalidArgument,
                 fmt::format("{}: cannot be read: {}; give {}", path, std::strerror(errno), kind)};
  }
  text.resize(static_cast<std::size_t>(file.gcount()));
  return text;
}

Result<plan::Plan> read_plan_file(const std::string& path, std::uint32_t max_height) {
  const auto text = read_file(path, "a plan file");
  if (!text) return text.error();
  auto plan = plan::read_plan(*text);
  if (!plan) return in_file(path, plan.error());
  if (const auto valid = plan::validate(*plan, {.max_height = max_height}); !valid) {
    return in_file(path, valid.error());
  }
  return plan;
}

Result<const plan::Domain*> find_domain(const plan::Plan& plan, const std::string& name) {
  if (plan.domains.empty()) return invalid("the plan has no domain; give one with trees");
  if (name.empty()) return &plan.domains.front();
  for (const plan::Domain& domain : plan.domains) {
    if (domain.name == name) return &domain;
  }
  return invalid(fmt::format("--domain {}: the plan has no such domain; the first is \"{}\"", name,
                             plan.domains.front().name));
}

Outcome check_output(std::string_view option, std::string_view path,
                     std::initializer_list<InputFile> inputs) {
  namespace fs = std::filesystem;
  std::error_code failed;
  // A terminal or pipe may be both input and output, because writing to it destroys no data.
  if (!fs::is_regular_file(path, failed)) return Unit{};
  for (const InputFile& input : inputs) {
    if (!fs::equivalent(path, input.path, failed)) continue;
    return invalid(fmt::format("{} {}: is the file of {}, which would be lost; give another",
                               option, path, input.option));
  }
  return Unit{};
}

Result<OutputFile> create_out(const std::string& path) {
  auto file = OutputFile::create(path);
  if (file) return file;
  return Error{file.status(), file.error().message + "; give another --out"};
}

Outcome write_out(const std::string& path, std::string_view text) {
  const auto written = write_file(path, text);
  if (written) return written;
  return Error{written.status(), written.error().message + "; give another --out"};
}

}  // namespace tally::control
