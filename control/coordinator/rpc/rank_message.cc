#include "control/coordinator/rpc/rank_message.h"

#include <array>
#include <nlohmann/json.hpp>

namespace tally::control {
namespace {

constexpr std::array<const char*, 6> kWords = {"prepare", "decided",    "go",
                                               "leave",   "called off", "ended"};

}  // namespace

const char* word_text(Change::Word word) {
  return kWords[static_cast<std::size_t>(word)];
}

void put_first(nlohmann::json& message, const Rounds& first) {
  for (const auto& [tag, round] : first)
    message["first"].push_back(nlohmann::json::array({tag, round}));
}

void put_notification(nlohmann::json& message, const RankNotification& notification) {
  using nlohmann::json;
  message["change"] = word_text(notification.word);
  message["epoch"] = notification.epoch;
  if (notification.is_repair) message["repair"] = true;
  put_first(message, notification.decision.first);
  for (const auto& [tag, failure] : notification.decision.failed) {
    message["failed"].push_back(json::array(
        {tag, static_cast<std::uint16_t>(failure.status), failure.culprit, failure.succeeded}));
  }
  if (!notification.why.empty()) message["why"] = notification.why;
  if (notification.culprit) message["culprit"] = *notification.culprit;
}

}  // namespace tally::control
