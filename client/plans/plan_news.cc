#include "client/plans/plan_news.h"

#include <algorithm>
#include <array>
#include <utility>

namespace tally::client {
namespace {

using nlohmann::json;
using Kind = PlanUpdate::Kind;

constexpr Nanos kSending = 5 * kSecond;    // for the coordinator to read a request
constexpr Nanos kLeaving = 2 * kSecond;    // for the answer to job.leave
constexpr std::size_t kTagsAtOnce = 2000;  // in one request, because a request has a maximum size
constexpr std::size_t kMostWhy = 512;      // bytes

constexpr std::array<std::pair<const char*, Kind>, 5> kKinds = {{{"prepare", Kind::kPrepare},
                                                                 {"decided", Kind::kDecided},
                                                                 {"go", Kind::kGo},
                                                                 {"leave", Kind::kLeave},
                                                                 {"called off", Kind::kCalledOff}}};

// Returns none when the answer cannot be read.
std::optional<PlanUpdate> read(json answer) {
  try {
    PlanUpdate update;
    const std::string change = answer.at("change");
    const auto* kind = std::find_if(kKinds.begin(), kKinds.end(),
                                    [&](const auto& one) { return one.first == change; });
    if (kind == kKinds.end()) return std::nullopt;
    update.kind = kind->second;
    answer.at("epoch").get_to(update.epoch);
    for (const json& one : answer.value("first", json::array())) {
      update.first[one.at(0).get<std::uint32_t>()] = one.at(1).get<std::uint32_t>();
    }
    update.why = answer.value("why", "");
    if (update.kind == Kind::kPrepare) update.version = std::move(answer);
    return update;
  } catch (const json::exception&) {
    return std::nullopt;
  }
}

}  // namespace

Result<PlanNews> PlanNews::open(rpc::RpcChannel channel, rpc::HighestTerm& term) {
  PlanNews news(std::move(channel), term);
  if (auto asked = news.request_next(); !asked) return asked.error();
  return news;
}

Outcome PlanNews::request_next() {
  const auto asked = channel_.ask("job.next", json::object(), monotonic_now() + kSending);
  if (!asked) return asked.error();
  request_ = *asked;
  return Unit{};
}

Result<std::optional<PlanUpdate>> PlanNews::poll() {
  auto answer = channel_.answer(request_);
  if (!answer) return std::optional<PlanUpdate>();
  if (!*answer) return answer->error();
  if (const auto acts = term_->accept(**answer); !acts) return acts.error();
  auto update = read(std::move(*answer).value());
  if (!update) {
    return Error{Status::kProtocol,
                 "the coordinator sent a plan update that this rank cannot read"};
  }
  if (auto asked = request_next(); !asked) return asked.error();
  return update;
}

Outcome PlanNews::send_report(json params) {
  const auto sent = channel_.ask("job.report", std::move(params), monotonic_now() + kSending);
  if (!sent) return sent.error();
  return Unit{};
}

Outcome PlanNews::report(std::uint32_t epoch, std::string_view what) {
  return send_report({{"epoch", epoch}, {"said", what}});
}

Outcome PlanNews::report_ready(std::uint32_t epoch,
                               const std::map<std::uint32_t, std::uint32_t>& next_rounds) {
  json rounds = json::array();
  for (const auto& [tag, round] : next_rounds) {
    rounds.push_back(json::array({tag, round}));
    if (rounds.size() < kTagsAtOnce) continue;
    auto sent =
        send_report({{"epoch", epoch}, {"said", "ready"}, {"rounds", rounds}, {"more", true}});
    if (!sent) return sent;
    rounds.clear();
  }
  return send_report({{"epoch", epoch}, {"said", "ready"}, {"rounds", std::move(rounds)}});
}

Outcome PlanNews::report_refusal(std::uint32_t epoch, std::string_view why) {
  return send_report({{"epoch", epoch}, {"said", "cannot"}, {"why", why.substr(0, kMostWhy)}});
}

void PlanNews::leave() {
  static_cast<void>(channel_.call("job.leave", json::object(), {}, monotonic_now() + kLeaving));
}

}  // namespace tally::client
