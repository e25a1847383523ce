#include "client/session/rank_loss_answer.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace tally::client {
namespace {

using nlohmann::json;

constexpr const char* kPolicy = "on_rank_loss";
constexpr const char* kFinish = "finish";

// None: the value is no number below `end`.
std::optional<std::uint32_t> number_below(const json& value, std::uint64_t end) {
  if (!value.is_number_unsigned() || value.get<std::uint64_t>() >= end) return std::nullopt;
  return value.get<std::uint32_t>();
}

std::optional<std::map<std::uint32_t, std::uint32_t>> read_first(const json& answer) {
  constexpr std::uint64_t kEnd = std::uint64_t{UINT32_MAX} + 1;
  std::map<std::uint32_t, std::uint32_t> first;
  const auto given = answer.find("first");
  if (given == answer.end()) return first;
  if (!given->is_array()) return std::nullopt;
  for (const json& one : *given) {
    if (!one.is_array() || one.size() != 2) return std::nullopt;
    const auto tag = number_below(one[0], kEnd), round = number_below(one[1], kEnd);
    if (!tag || !round) return std::nullopt;
    first[*tag] = *round;
  }
  return first;
}

Error not_offered(const SessionOptions& options) {
  return {Status::kUnsupported,
          fmt::format("job \"{}\" cannot go on without a rank that is lost (on_rank_loss finish): "
                      "use nodes with a coordinator, of the release of this library, or set "
                      "on_rank_loss or TALLY_ON_RANK_LOSS to fail",
                      options.job)};
}

}  // namespace

void ask_for_policy(const SessionOptions& options, json& params) {
  if (!options.finishes()) return;
  params[kPolicy] = kFinish;
  if (options.quorum > 0) params["quorum"] = options.quorum;
}

std::optional<std::vector<std::uint16_t>> read_left_out(const json& answer, std::uint16_t rank,
                                                        std::uint16_t ranks) {
  std::vector<std::uint16_t> left_out;
  const auto given = answer.find("left_out");
  if (given == answer.end()) return left_out;
  if (!given->is_array()) return std::nullopt;
  for (const json& one : *given) {
    const auto number = number_below(one, ranks);
    if (!number || *number == rank) return std::nullopt;
    if (!left_out.empty() && left_out.back() >= *number) return std::nullopt;
    left_out.push_back(static_cast<std::uint16_t>(*number));
  }
  return left_out;
}

Result<RankLossAnswer> read_rank_loss(const SessionOptions& options, const json& answer) {
  const Error wrong{Status::kProtocol,
                    "the coordinator's answer about ranks that are lost cannot be read: is it of "
                    "another version?"};
  const auto policy = answer.find(kPolicy);
  if (policy != answer.end() && *policy != kFinish && *policy != "fail") return wrong;
  const bool finishes = policy != answer.end() && *policy == kFinish;
  if (options.finishes() && !finishes) return not_offered(options);
  auto left_out = read_left_out(answer, options.rank, options.ranks);
  auto first = read_first(answer);
  if (!left_out || !first) return wrong;
  if (!options.finishes() && (finishes || !left_out->empty())) return wrong;
  return RankLossAnswer{std::move(*left_out), std::move(*first)};
}

Error refusal_of(const SessionOptions& options, const Error& error) {
  const bool is_unknown = error.status == Status::kInvalidArgument &&
                          error.message.find("\"on_rank_loss\" is unknown") != std::string::npos;
  return options.finishes() && is_unknown ? not_offered(options) : error;
}

}  // namespace tally::client
