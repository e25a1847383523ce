#include "client/plans/plan_news.h"

#include <algorithm>
#include <array>
#include <utility>

namespace tally::client {
namespace {

using nlohmann::json;
using Kind = PlanUpdate::Kind;

constexpr Nanos kSending = 5 * kSecond;  // for the coordinator to read a request
constexpr Nanos kHold = 1 * kSecond;     // of a request at an elected coordinator
constexpr Nanos kAnswering =
    3 * kSecond;                          // for the answer after that; its store may take some time
constexpr Nanos kLeaving = 2 * kSecond;   // for the answer to job.leave
constexpr std::size_t kTagsAtOnce = 800;  // in one request, because a request has a maximum size
constexpr std::size_t kMostWhy = 512;     // bytes

constexpr std::array<std::pair<const char*, Kind>, 6> kKinds = {{{"prepare", Kind::kPrepare},
                                                                 {"decided", Kind::kDecided},
                                                                 {"go", Kind::kGo},
                                                                 {"leave", Kind::kLeave},
                                                                 {"called off", Kind::kCalledOff},
                                                                 {"ended", Kind::kEnded}}};

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
      update.rounds.first[one.at(0).get<std::uint32_t>()] = one.at(1).get<std::uint32_t>();
    }
    for (const json& one : answer.value("failed", json::array())) {
      const auto status = one.at(1).get<std::uint16_t>();
      if (status == 0 || status >= kStatusCount) return std::nullopt;
      update.rounds.failed[one.at(0).get<std::uint32_t>()] = {static_cast<Status>(status),
                                                              one.at(2).get<std::uint16_t>(),
                                                              one.at(3).get<std::uint32_t>()};
    }
    update.repair = answer.value("repair", false);
    update.why = answer.value("why", "");
    update.culprit = answer.value("culprit", wire::kNoRank);
    if (update.kind == Kind::kPrepare) update.version = std::move(answer);
    return update;
  } catch (const json::exception&) {
    return std::nullopt;
  }
}

}  // namespace

Result<PlanNews> PlanNews::open(rpc::RpcChannel channel, rpc::HighestTerm& term, bool repairs) {
  PlanNews news(std::move(channel), term, repairs);
  if (auto asked = news.request_next(); !asked) return asked.error();
  return news;
}

Outcome PlanNews::request_next() {
  json params = json::object();
  if (repairs_) params["repairs"] = true;
  if (term_->value() > 0) params["wait_ms"] = kHold / kMillisecond;
  const auto asked = channel_.ask("job.next", std::move(params), monotonic_now() + kSending);
  if (!asked) return asked.error();
  request_ = *asked;
  asked_ = monotonic_now();
  return Unit{};
}

Nanos PlanNews::silent_at() const {
  return term_->value() > 0 ? asked_ + kHold + kAnswering : kForever;
}

Result<std::optional<PlanUpdate>> PlanNews::poll() {
  auto answer = channel_.answer(request_);
  if (!answer) return std::optional<PlanUpdate>();
  if (!*answer) return answer->error();
  if (const auto acts = term_->accept(**answer); !acts) return acts.error();
  if ((*answer)->is_object() && !(*answer)->contains("change") && term_->value() > 0) {
    if (auto asked = request_next(); !asked) return asked.error();
    return std::optional<PlanUpdate>();
  }
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

// The three lists of a report go in as many requests as they need.
Outcome PlanNews::report_ready(std::uint32_t epoch, const RoundsByTag& rounds, bool is_repair) {
  json next = json::array(), failed = json::array(), kept = json::array();
  const auto send = [&](bool more) {
    json params = {
        {"epoch", epoch}, {"said", "ready"}, {"rounds", std::exchange(next, json::array())}};
    if (more) params["more"] = true;
    if (!failed.empty()) params["failed"] = std::exchange(failed, json::array());
    if (!kept.empty()) params["kept"] = std::exchange(kept, json::array());
    return send_report(std::move(params));
  };
  for (const auto& [tag, of] : rounds) {
    next.push_back(json::array({tag, of.next}));
    if (is_repair && of.failure) {
      failed.push_back(json::array({tag, static_cast<std::uint16_t>(of.failure->status),
                                    of.failure->culprit, of.failure->succeeded}));
    }
    if (is_repair && of.kept) kept.push_back(tag);
    if (next.size() < kTagsAtOnce) continue;
    if (auto sent = send(true); !sent) return sent;
  }
  return send(false);
}

Outcome PlanNews::report_loss(std::uint32_t epoch, const LossReport& loss) {
  json params = {{"epoch", epoch}, {"said", "lost"}, {"why", loss.why.substr(0, kMostWhy)}};
  if (loss.lost_rank) params["lost_rank"] = *loss.lost_rank;
  if (loss.late_rank) params["late_rank"] = *loss.late_rank;
  return send_report(std::move(params));
}

Outcome PlanNews::report_refusal(std::uint32_t epoch, std::string_view why) {
  return send_report({{"epoch", epoch}, {"said", "cannot"}, {"why", why.substr(0, kMostWhy)}});
}

void PlanNews::leave() {
  static_cast<void>(channel_.call("job.leave", json::object(), {}, monotonic_now() + kLeaving));
}

}  // namespace tally::client
