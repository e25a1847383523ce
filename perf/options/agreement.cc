#include "perf/options/agreement.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace tally::perf {
namespace {

using nlohmann::json;

constexpr std::size_t kLongestText = 500;

// Fields of the options whose names differ from their flags.
constexpr std::pair<std::string_view, std::string_view> kFlags[] = {
    {"kind", "the collective"},   {"models", "--model"},         {"modes", "--mode"},
    {"types", "--type"},          {"operations", "--op"},        {"iterations", "--iters"},
    {"duration_s", "--duration"}, {"shuffle_seed", "--shuffle"}, {"integers", "--gradients"},
};
// Fields that may differ between hosts: the rank, the node's address and token, where the conductor
// is, the timeout.
constexpr std::string_view kOwn[] = {"rank", "address", "token", "conductor_host", "timeout_s"};

std::string flag_of(const std::string& field) {
  for (const auto& [name, flag] : kFlags) {
    if (name == field) return std::string(flag);
  }
  std::string flag = "--" + field;
  std::replace(flag.begin(), flag.end(), '_', '-');
  return flag;
}

template <typename Values>
std::string names(const Values& values) {
  std::string text;
  for (const auto value : values) {
    if (!text.empty()) text += ',';
    text += name(value);
  }
  return text;
}

std::string value_of(const Options& options, const std::string& field, const json& value) {
  if (field == "kind") return std::string(kind_name(options.kind));
  if (field == "types") return names(options.types);
  if (field == "operations") return names(options.operations);
  if (field == "memory") return std::string(kMemoryNames[static_cast<std::size_t>(options.memory)]);
  if (value.is_string()) return value.get_ref<const std::string&>();
  if (value.is_array()) {
    std::string text;
    for (const json& one : value) {
      text += (text.empty() ? "" : ",") + value_of(options, "", one);
    }
    return text;
  }
  return value.dump();
}

}  // namespace

std::optional<std::string> disagreement(const Options& served,
                                        const std::vector<std::string>& arguments) {
  const auto meant = parse_onto(served, arguments);
  if (!meant.ok()) return meant.error().message;
  const json here = to_json(*meant);
  const json there = to_json(served);
  for (const auto& [field, value] : here.items()) {
    if (std::ranges::find(kOwn, field) != std::end(kOwn) || value == there.at(field)) continue;
    if (field == "shuffle") continue;  // shuffle_seed has the same information
    return fmt::format("{} is {} at the host that joins and {} at the one that serves",
                       flag_of(field), value_of(*meant, field, value),
                       value_of(served, field, there.at(field)));
  }
  return std::nullopt;
}

std::string printable(std::string text) {
  if (text.size() > kLongestText) text.replace(kLongestText, std::string::npos, "...");
  for (char& c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f) c = ' ';
  }
  return text;
}

}  // namespace tally::perf
