#include "control/coordinator/placement.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>

#include "control/coordinator/rails.h"
#include "control/rpc/params.h"
#include "dataplane/wire/notice.h"

namespace tally::control {

using nlohmann::json;

json to_json(const Placement& placement) {
  json sent = {{"placement", placement.id},
               {"job", placement.job},
               {"token", placement.token},
               {"epoch", placement.epoch},
               {"ranks", placement.ranks},
               {"weight", placement.weight},
               {"weights", placement.plan.weights},
               {"split_bytes", placement.plan.split_bytes},
               {"trees", placement.trees},
               {"nodes", placement.nodes},
               {"rate", placement.rate}};
  if (!placement.rails.empty()) sent["rails"] = placement.rails;
  return sent;
}

std::vector<std::uint32_t> parse_numbers(const json& array, std::size_t count, std::uint32_t max) {
  std::vector<std::uint32_t> numbers;
  if (!array.is_array() || array.size() > count) return {};
  for (const json& one : array) {
    if (!one.is_number_unsigned() || one.get<std::uint64_t>() > max) return {};
    numbers.push_back(one.get<std::uint32_t>());
  }
  return numbers;
}

Result<Placement> parse_placement(const json& sent) {
  const auto wrong = [](std::string_view what) {
    return Error{Status::kProtocol,
                 fmt::format("the coordinator sent a placement {}: same version there?", what)};
  };
  if (!sent.is_object()) return wrong("that is not an object");
  // What a later release adds is none of this node's business: no finish() on the whole.
  json known = json::object();
  for (const char* key : {"placement", "job", "token", "epoch", "ranks", "weight", "split_bytes"}) {
    if (const auto at = sent.find(key); at != sent.end()) known[key] = *at;
  }
  rpc::Params params(known);
  Placement placement;
  placement.id = params.number("placement", 1, UINT64_MAX);
  placement.job = params.text("job", kMaxJobName);
  placement.token = params.text("token", kMaxJobName);
  placement.epoch = static_cast<std::uint32_t>(params.number("epoch", 1, UINT32_MAX));
  placement.ranks = static_cast<std::uint32_t>(params.number("ranks", 1, wire::kMaxRanks));
  placement.weight = static_cast<std::uint32_t>(params.number("weight", 1, 1000));
  placement.plan.split_bytes = params.number("split_bytes", 0, wire::kMaxBytes);
  if (const auto error = params.finish()) return *error;
  placement.plan.weights =
      parse_numbers(sent.value("weights", json()), protocol::kMaxTrees, protocol::kWeightUnit);
  if (!protocol::valid(placement.plan)) return wrong("whose weights are no plan");
  const auto trees = static_cast<std::uint32_t>(placement.plan.weights.size());
  placement.trees = parse_numbers(sent.value("trees", json()), trees, trees - 1);
  const bool rising = std::adjacent_find(placement.trees.begin(), placement.trees.end(),
                                         std::greater_equal<>()) == placement.trees.end();
  if (placement.trees.empty() || !rising) return wrong("whose trees are none of its plan");
  const json nodes = sent.value("nodes", json());
  placement.nodes = nodes.is_number_unsigned() && nodes.get<std::uint64_t>() <= trees
                        ? nodes.get<std::uint32_t>()
                        : 1;
  const json rate = sent.value("rate", json());
  if (rate.is_number_unsigned()) placement.rate = rate.get<std::uint64_t>();
  if (!sent.contains("rails")) return placement;
  placement.rails = parse_numbers(sent["rails"], placement.trees.size(), kMaxRails - 1);
  if (placement.rails.size() != placement.trees.size()) return wrong("whose rails are no numbers");
  return placement;
}

}  // namespace tally::control
