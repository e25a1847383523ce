// What becomes of a job that loses a rank: the policy that its ranks give when they open it
// (docs/decisions/0037-finish-without-a-rank.md), and the ranks that a version of it leaves out.
// With the JSON forms, which messages and the store's records share.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <string_view>

namespace tally::control {

using RankNumbers = std::set<std::uint32_t>;

struct RankLossPolicy {
  bool finishes = false;     // the other ranks go on without it; else the job ends
  std::uint32_t quorum = 0;  // with finishes: fewer ranks than this do not go on; 0 means 1

  bool operator==(const RankLossPolicy&) const = default;
  // Whether so many ranks may go on.
  bool may_go_on(std::size_t present) const { return finishes && present > 0 && present >= quorum; }
};

// "fail", "finish".
const char* policy_name(const RankLossPolicy& policy);
// nullopt: neither of these names.
std::optional<RankLossPolicy> policy_of(std::string_view name, std::uint32_t quorum);

// Adds "on_rank_loss", "quorum" and "left_out", each when it is not the default.
void put_rank_loss(nlohmann::json& object, const RankLossPolicy& policy,
                   const RankNumbers& left_out);
// Reads what put_rank_loss() has written. Other members of the object do not matter. nullopt: not
// valid for a job of `ranks` ranks.
std::optional<RankLossPolicy> find_policy(const nlohmann::json& object, std::uint32_t ranks);
std::optional<RankNumbers> find_left_out(const nlohmann::json& object, std::uint32_t ranks);

}  // namespace tally::control
