#include "client/plan_news.h"

#include <algorithm>
#include <array>
#include <utility>

namespace tally::client {
namespace {

using nlohmann::json;
using Kind = PlanWord::Kind;

constexpr Nanos kSending = 5 * kSecond;    // the coordinator reads what it is sent
constexpr Nanos kLeaving = 2 * kSecond;    // for its answer
constexpr std::size_t kTagsAtOnce = 2000;  // of a request: it has an end
constexpr std::size_t kMostWhy = 512;      // bytes

constexpr std::array<std::pair<const char*, Kind>, 5> kWords = {{{"prepare", Kind::kPrepare},
                                                                 {"decided", Kind::kDecided},
                                                                 {"go", Kind::kGo},
                                                                 {"leave", Kind::kLeave},
                                                                 {"called off", Kind::kCalledOff}}};

// None: it cannot be read.
std::optional<PlanWord> read(json answer) {
  try {
    PlanWord word;
    const std::string change = answer.at("change");
    const auto* kind = std::find_if(kWords.begin(), kWords.end(),
                                    [&](const auto& one) { return one.first == change; });
    if (kind == kWords.end()) return std::nullopt;
    word.kind = kind->second;
    answer.at("epoch").get_to(word.epoch);
    for (const json& one : answer.value("first", json::array())) {
      word.first[one.at(0).get<std::uint32_t>()] = one.at(1).get<std::uint32_t>();
    }
    word.why = answer.value("why", "");
    if (word.kind == Kind::kPrepare) word.version = std::move(answer);
    return word;
  } catch (const json::exception&) {
    return std::nullopt;
  }
}

}  // namespace

Result<PlanNews> PlanNews::open(RpcChannel channel) {
  PlanNews news(std::move(channel));
  if (auto asked = news.ask(); !asked) return asked.error();
  return news;
}

Outcome PlanNews::ask() {
  const auto asked = channel_.ask("job.next", json::object(), monotonic_now() + kSending);
  if (!asked) return asked.error();
  question_ = *asked;
  return Unit{};
}

Result<std::optional<PlanWord>> PlanNews::hear() {
  auto answer = channel_.answer(question_);
  if (!answer) return std::optional<PlanWord>();
  if (!*answer) return answer->error();
  auto word = read(std::move(*answer).value());
  if (!word) {
    return Error{Status::kProtocol, "the coordinator said something of a plan that cannot be read"};
  }
  if (auto asked = ask(); !asked) return asked.error();
  return word;
}

Outcome PlanNews::report(json params) {
  const auto sent = channel_.ask("job.report", std::move(params), monotonic_now() + kSending);
  if (!sent) return sent.error();
  return Unit{};
}

Outcome PlanNews::say(std::uint32_t epoch, std::string_view what) {
  return report({{"epoch", epoch}, {"said", what}});
}

Outcome PlanNews::say_ready(std::uint32_t epoch,
                            const std::map<std::uint32_t, std::uint32_t>& next_rounds) {
  json rounds = json::array();
  for (const auto& [tag, round] : next_rounds) {
    rounds.push_back(json::array({tag, round}));
    if (rounds.size() < kTagsAtOnce) continue;
    auto sent = report({{"epoch", epoch}, {"said", "ready"}, {"rounds", rounds}, {"more", true}});
    if (!sent) return sent;
    rounds.clear();
  }
  return report({{"epoch", epoch}, {"said", "ready"}, {"rounds", std::move(rounds)}});
}

Outcome PlanNews::say_cannot(std::uint32_t epoch, std::string_view why) {
  return report({{"epoch", epoch}, {"said", "cannot"}, {"why", why.substr(0, kMostWhy)}});
}

void PlanNews::leave() {
  static_cast<void>(channel_.call("job.leave", json::object(), {}, monotonic_now() + kLeaving));
}

}  // namespace tally::client
