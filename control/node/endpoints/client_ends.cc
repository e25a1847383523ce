#include "control/node/endpoints/client_ends.h"
#include "net/rpc/partition_json.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <numeric>
#include <span>

#include "control/coordinator/records/job_assignment.h"
#include "net/rpc/params.h"

namespace tally::control {
namespace {

using nlohmann::json;

Result<ClientEnd> parse_end(const json& sent) {
  rpc::Params params(sent);
  params.text_or("transport", kMaxTransport, "");
  ClientEnd end;
  const auto name = transport::fabric::from_hex(params.text("name", kMaxEndpointName));
  end.secret = params.number("secret", 0, UINT64_MAX);
  end.eager_bytes = params.number_or("eager_bytes", 0, UINT64_MAX, 0);
  if (const auto wrong = params.finish()) return *wrong;
  if (!name) return Error{Status::kInvalidArgument, "\"name\" is not an endpoint's"};
  end.name = *name;
  return end;
}

}  // namespace

Result<std::vector<ClientEnd>> parse_ends(const json& params, std::size_t shards) {
  std::vector<ClientEnd> ends(shards);
  std::size_t placed = 0;
  const auto place = [&](const ClientEnd& end, std::span<const std::uint32_t> whose) {
    for (std::uint32_t i = 0; i < whose.size(); ++i) {
      if (!ends[whose[i]].name.empty()) return false;
      ends[whose[i]] = end;
      ends[whose[i]].shard = i;
      ++placed;
    }
    return true;
  };
  const auto most = static_cast<std::uint32_t>(shards - 1);
  const Error unreadable{
      Status::kInvalidArgument,
      fmt::format("\"rails\" is a list of {{name, secret, eager_bytes, lanes}}, and each of {} "
                  "shards stands there once",
                  shards)};
  if (!params.contains("rails")) {
    auto end = parse_end(params);
    if (!end) return end.error();
    std::vector<std::uint32_t> all(shards);
    std::iota(all.begin(), all.end(), 0U);
    place(*end, all);
    return ends;
  }
  const json& rails = params["rails"];
  if (!rails.is_array() || rails.size() > shards || params.size() != 2) return unreadable;
  for (const json& rail : rails) {
    if (!rail.is_object()) return unreadable;
    const auto whose = rpc::read_numbers(rail.value("lanes", json()), shards, most);
    json rest = rail;
    rest.erase("lanes");
    const auto end = parse_end(rest);
    if (!end) return end.error();
    if (whose.empty() || !place(*end, whose)) return unreadable;
  }
  if (placed != shards) return unreadable;
  return ends;
}

Result<std::vector<std::uint64_t>> parse_keys(const json& params, std::uint64_t key,
                                              std::size_t shards) {
  std::vector<std::uint64_t> keys(shards, key);
  const auto list = params.find("keys");
  if (list == params.end()) return keys;
  bool fine = list->is_array() && list->size() == shards;
  for (std::size_t i = 0; i < shards && fine; ++i) {
    fine = (*list)[i].is_number_unsigned();
    if (fine) keys[i] = (*list)[i].get<std::uint64_t>();
  }
  if (fine) return keys;
  return Error{Status::kInvalidArgument,
               fmt::format("\"keys\" is a list of {} numbers, one for each shard", shards)};
}

}  // namespace tally::control
