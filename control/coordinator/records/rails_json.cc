// Rails in JSON, as messages carry them.
#include <nlohmann/json.hpp>

#include "control/coordinator/records/job_assignment.h"
#include "control/coordinator/records/rails.h"
#include "dataplane/partition/partition.h"
#include "net/rpc/params.h"

namespace tally::control {

using nlohmann::json;

namespace {

constexpr std::uint64_t kMaxSpeed = 1ULL << 50;

std::optional<Rail> parse_rail(const json& sent) {
  if (!sent.is_object()) return std::nullopt;
  rpc::Params params(sent);
  Rail rail;
  rail.address = params.text("address", kMaxAddress);
  rail.tcp = params.text_or("tcp", kMaxAddress, "");
  rail.speed = params.number_or("speed", 0, kMaxSpeed, 0);
  rail.shards = static_cast<std::uint32_t>(params.number("shards", 0, protocol::kMaxTrees));
  rail.up = params.flag_or("up", true);
  if (params.finish()) return std::nullopt;
  return rail;
}

}  // namespace

json to_json(const std::vector<Rail>& rails) {
  json list = json::array();
  for (const Rail& rail : rails) {
    list.push_back({{"address", rail.address},
                    {"tcp", rail.tcp},
                    {"speed", rail.speed},
                    {"shards", rail.shards},
                    {"up", rail.up}});
  }
  return list;
}

std::optional<std::vector<Rail>> parse_rails(const json& sent) {
  if (!sent.is_array() || sent.size() > kMaxRails) return std::nullopt;
  std::vector<Rail> rails;
  for (const json& one : sent) {
    auto rail = parse_rail(one);
    if (!rail) return std::nullopt;
    rails.push_back(std::move(*rail));
  }
  if (!rails.empty() && rails_in_use(rails).empty()) return std::nullopt;
  return rails;
}

}  // namespace tally::control
