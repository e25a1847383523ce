#include "tests/model/traced_coordinator.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "control/coordinator/rpc/rank_message.h"
#include "tests/model/trace.h"

namespace tally::traces {
namespace {

using control::Change;
using nlohmann::json;

constexpr const char* kJob = "train";
constexpr std::array<const char*, 6> kReports = {"ready", "knows",  "moved",
                                                 "left",  "cannot", "lost"};

control::RankRounds rounds_of(const json& report) {
  control::RankRounds rounds;
  for (const json& one : report.value("rounds", json::array())) rounds.next[one[0]] = one[1];
  for (const json& one : report.value("failed", json::array())) {
    rounds.failed[one[0]] = {static_cast<Status>(one[1].get<std::uint16_t>()), one[2], one[3]};
  }
  for (const json& tag : report.value("kept", json::array()))
    rounds.kept.insert(tag.get<std::uint32_t>());
  return rounds;
}

// Of the only tag, with rounds from 1.
std::string decision_text(const control::RankNotification& notification) {
  const auto& [first, failed] = notification.decision;
  return fmt::format("decide epoch={} first={} failure={}", notification.epoch,
                     first.empty() ? 1 : first.begin()->second + 1,
                     failed.empty() ? 0 : failed.begin()->second.succeeded + 1);
}

}  // namespace

TracedCoordinator::TracedCoordinator(std::uint16_t ranks, std::uint32_t nodes,
                                     const std::vector<std::uint32_t>& owners)
    : ranks_(ranks), members_(nodes), messages_(ranks) {
  for (std::uint32_t node = 0; node < nodes; ++node) join(node);
  jobs_.add(record(1, {}));
  for (std::uint16_t rank = 0; rank < ranks; ++rank) versions_.enter(ticket_of(rank), 1, rank, "");
  versions_.place(record(1, owners), now_);
  for (const std::uint32_t node : owners) versions_.confirm(1, members_[node]);
  for (std::uint16_t rank = 0; rank < ranks; ++rank) jobs_.listen(ticket_of(rank), true);
  act();
}

control::JobRecord TracedCoordinator::record(std::uint32_t epoch,
                                             const std::vector<std::uint32_t>& owners) const {
  control::JobRecord job;
  job.name = kJob;
  job.epoch = epoch;
  job.ranks = ranks_;
  for (std::uint32_t part = 0; part < owners.size(); ++part) {
    const control::NodeId member = members_[owners[part]];
    auto found = std::find_if(job.nodes.begin(), job.nodes.end(),
                              [member](const auto& one) { return one.node == member; });
    if (found == job.nodes.end()) {
      found = job.nodes.insert(job.nodes.end(), control::PlanNode{});
      found->node = member;
      found->placement = 1000 * epoch + member;
      found->member.name = fmt::format("n{}", member);
    }
    found->trees.push_back(part);
  }
  return job;
}

void TracedCoordinator::join(std::uint32_t node) {
  members_[node] = ++last_member_;
  news_.add(last_member_, now_);
}

void TracedCoordinator::begin(std::uint32_t epoch, const std::vector<std::uint32_t>& owners) {
  const control::JobRecord* current = jobs_.current(kJob);
  if (current == nullptr) throw Disagreement("the coordinator has no job that could change");
  control::JobRecord next = record(epoch, owners);
  next.follows = current->epoch;
  versions_.begin_next(std::move(next), now_);
  for (const std::uint32_t node : owners) versions_.confirm(epoch, members_[node]);
  versions_.advance_changes(now_);
  act();
}

void TracedCoordinator::lose(std::uint32_t node) {
  news_.erase(members_[node]);
  versions_.node_left(members_[node], {Status::kUnavailable, "the node has left"});
  act();
}

void TracedCoordinator::report(std::uint16_t rank, const json& report) {
  const std::string kind = report.at("said");
  const auto* which = std::find(kReports.begin(), kReports.end(), kind);
  if (which == kReports.end()) throw Disagreement("a rank reports \"" + kind + "\"");
  versions_.report(ticket_of(rank), report.at("epoch"),
                   {static_cast<Change::Report>(which - kReports.begin()), rounds_of(report),
                    report.value("why", "")});
  act();
}

void TracedCoordinator::close(std::uint16_t rank) {
  versions_.close(ticket_of(rank), "died");
  act();
}

void TracedCoordinator::time_out() {
  now_ += FaultTimeouts{}.change();
  versions_.advance_changes(now_);
  act();
}

void TracedCoordinator::act() {
  send_news();
  versions_.take_answers();
  for (const auto& event : versions_.take_repair_events()) {
    if (!event.has_ended) events_.push_back(fmt::format("repair epoch={}", event.epoch));
  }
  for (const auto& notification : versions_.take_notifications()) note(notification);
}

// Each node does at once what the news say.
void TracedCoordinator::send_news() {
  for (bool any = true; any;) {
    any = false;
    for (const control::NodeId member : members_) news_.listen(member, now_ + kSecond);
    for (const control::NodeNews& news : news_.take(now_)) {
      for (const std::uint64_t placement : news.withdraw) {
        const auto epoch = jobs_.placed_at(news.node, placement);
        if (epoch) versions_.over_at(*epoch, news.node, {Status::kRefused, "withdrawn"});
        any = true;
      }
    }
  }
}

void TracedCoordinator::note(const control::RankNotification& notification) {
  std::string event;
  if (notification.word == Change::Word::kDecided) event = decision_text(notification);
  if (notification.word == Change::Word::kGo)
    event = fmt::format("go epoch={}", notification.epoch);
  if (notification.word == Change::Word::kCalledOff) {
    event = fmt::format("call_off epoch={}", notification.epoch);
  }
  // All ranks get the same message.
  const bool is_new = std::find(events_.begin(), events_.end(), event) == events_.end();
  if (!event.empty() && is_new) events_.push_back(event);
  json message = json::object();
  control::put_notification(message, notification);
  messages_[notification.ticket - 1].push_back(std::move(message));
}

std::vector<std::string> TracedCoordinator::take_events() {
  return std::exchange(events_, {});
}

std::optional<json> TracedCoordinator::take_message(std::uint16_t rank) {
  auto& waiting = messages_[rank];
  if (waiting.empty()) return std::nullopt;
  json message = std::move(waiting.front());
  waiting.pop_front();
  return message;
}

}  // namespace tally::traces
