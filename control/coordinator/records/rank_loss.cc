#include "control/coordinator/records/rank_loss.h"

#include <nlohmann/json.hpp>
#include <string>

namespace tally::control {

using nlohmann::json;

const char* policy_name(const RankLossPolicy& policy) {
  return policy.finishes ? "finish" : "fail";
}

std::optional<RankLossPolicy> policy_of(std::string_view name, std::uint32_t quorum) {
  if (name == "fail") return RankLossPolicy{};
  if (name != "finish") return std::nullopt;
  return RankLossPolicy{.finishes = true, .quorum = quorum};
}

void put_rank_loss(json& object, const RankLossPolicy& policy, const RankNumbers& left_out) {
  if (policy.finishes) object["on_rank_loss"] = policy_name(policy);
  if (policy.quorum != 0) object["quorum"] = policy.quorum;
  if (!left_out.empty()) object["left_out"] = left_out;
}

std::optional<RankLossPolicy> find_policy(const json& object, std::uint32_t ranks) {
  const json name = object.value("on_rank_loss", json("fail"));
  const json quorum = object.value("quorum", json(0U));
  if (!name.is_string() || !quorum.is_number_unsigned()) return std::nullopt;
  if (quorum.get<std::uint64_t>() > ranks) return std::nullopt;
  return policy_of(name.get<std::string>(), quorum.get<std::uint32_t>());
}

std::optional<RankNumbers> find_left_out(const json& object, std::uint32_t ranks) {
  const json list = object.value("left_out", json::array());
  if (!list.is_array() || list.size() >= ranks) return std::nullopt;
  RankNumbers left_out;
  for (const json& rank : list) {
    if (!rank.is_number_unsigned() || rank.get<std::uint64_t>() >= ranks) return std::nullopt;
    left_out.insert(rank.get<std::uint32_t>());
  }
  return left_out;
}

}  // namespace tally::control
