#include "control/cli/plan/workload.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "base/text/nearest.h"
#include "control/cli/plan/builtin_workloads.h"

namespace tally::control {
namespace {

// A tensor with more elements exceeds the bytes of any operation, so a file with such a shape is
// damaged.
constexpr std::uint64_t kMaxElements = std::uint64_t{1} << 48;

constexpr auto kNames = [] {
  std::array<std::string_view, kBuiltinWorkloads.size()> names;
  for (std::size_t i = 0; i < names.size(); ++i) names[i] = kBuiltinWorkloads[i].name;
  return names;
}();

Error bad_workload(std::string_view what) {
  return Error{Status::kInvalidArgument, fmt::format("workload: {}", what)};
}

// Elements of a shape; 0 when a dimension is not a positive number or the product is too large.
std::uint64_t element_count(const nlohmann::json& shape) {
  if (!shape.is_array() || shape.empty()) return 0;
  std::uint64_t count = 1;
  for (const auto& dimension : shape) {
    if (!dimension.is_number_unsigned()) return 0;
    const auto size = dimension.get<std::uint64_t>();
    if (size == 0 || size > kMaxElements / count) return 0;
    count *= size;
  }
  return count;
}

}  // namespace

std::uint64_t Workload::elements() const {
  std::uint64_t sum = 0;
  for (const ModelTensor& tensor : tensors) sum += tensor.count;
  return sum;
}

Result<Workload> parse_workload(std::string_view json) {
  const auto document = nlohmann::json::parse(json, nullptr, /*allow_exceptions=*/false);
  if (!document.is_object()) return bad_workload("not a JSON object");
  const auto format = document.find("fmt");
  if (format != document.end() && !document.contains("tensors")) {
    return bad_workload(
        fmt::format("fmt = {}: must be a model, as in perf/workloads/*.json",
                    format->dump(-1, ' ', true, nlohmann::json::error_handler_t::replace)));
  }
  const auto model = document.find("model");
  const auto tensors = document.find("tensors");
  const auto parameters = document.find("parameters");
  if (model == document.end() || !model->is_string()) return bad_workload("no \"model\"");
  if (tensors == document.end() || !tensors->is_array() || tensors->empty()) {
    return bad_workload("no \"tensors\"");
  }
  Workload workload{model->get<std::string>(), {}};
  for (const auto& entry : *tensors) {
    if (!entry.is_array() || entry.size() != 2 || !entry[0].is_string()) {
      return bad_workload(fmt::format("not [name, shape]: {}", entry.dump()));
    }
    const std::uint64_t count = element_count(entry[1]);
    if (count == 0) return bad_workload(fmt::format("not a shape: {}", entry.dump()));
    workload.tensors.push_back(ModelTensor{entry[0].get<std::string>(), count});
  }
  if (parameters == document.end() || !parameters->is_number_unsigned() ||
      parameters->get<std::uint64_t>() != workload.elements()) {
    return bad_workload(fmt::format("{} has {} elements, but \"parameters\" differs",
                                    workload.model, workload.elements()));
  }
  return workload;
}

bool is_workload_path(std::string_view name) {
  return name.find('/') != std::string_view::npos || name.ends_with(".json");
}

Result<Workload> find_workload(const std::string& name) {
  for (const BuiltinWorkload& builtin : kBuiltinWorkloads) {
    if (builtin.name == name) return parse_workload(builtin.json);
  }
  if (!is_workload_path(name)) {
    std::string known;
    for (const std::string_view builtin : kNames) known.append(builtin).append(", ");
    return Error{Status::kInvalidArgument,
                 fmt::format("no model \"{}\": there are {}or the path of a file{}", name, known,
                             did_you_mean(name, kNames))};
  }
  std::ifstream file(name);
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  if (!file) {
    return Error{Status::kInvalidArgument,
                 fmt::format("cannot read the model {}: {}", name, std::strerror(errno))};
  }
  return parse_workload(text);
}

std::span<const std::string_view> builtin_workloads() {
  return kNames;
}

}  // namespace tally::control
