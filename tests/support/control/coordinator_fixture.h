// For tests: a coordinator; the test plays its nodes and ranks.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "control/coordinator/state/coordinator.h"
#include "control/coordinator/state/memory_store.h"
#include "tests/support/control/peers.h"
#include "tests/support/control/usual_timeouts.h"

namespace tally::control {

inline constexpr Nanos kNow = 1000 * kSecond;
inline constexpr Nanos kHold = 10 * kSecond;

inline Member member(const char* name, std::uint32_t shards = 2, std::uint64_t speed = 0,
                     Role role = Role::kHelper) {
  Member made;
  made.name = made.host = name;
  made.role = role;
  made.tcp = std::string("tcp:") + name + ":7733";
  made.shards = shards;
  made.speed = speed;
  return made;
}

class CoordinatorTest : public ::testing::Test {
 protected:
  NodeId join(const char* name) {
    const auto node = coordinator_->join(member(name), 0, kNow);
    EXPECT_TRUE(node.ok()) << node.error().message;
    coordinator_->listen(*node, kNow + kHold);
    return *node;
  }
  static Coordinator::Opening opening(std::uint32_t rank, const char* job = "train",
                                      const char* token = "t", std::uint32_t ranks = 2,
                                      const char* host = "") {
    return {job, tally::testing::shows(token), rank, ranks, host};
  }
  // The news for the node; the node listens again.
  Coordinator::News news(NodeId node) {
    act();
    coordinator_->listen(node, now_ + kHold);
    return std::exchange(sent_[node], {node, {}, {}});
  }
  void act() {
    auto actions = coordinator_->act(now_);
    for (auto& answer : actions.answers) {
      answers_.insert_or_assign(answer.ticket, answer.outcome);
      ranks_[answer.ticket] = answer.rank;
    }
    for (auto& one : actions.news) {
      auto& sent = sent_[one.node];
      sent.node = one.node;
      std::move(one.placements.begin(), one.placements.end(), std::back_inserter(sent.placements));
      sent.withdraw.insert(sent.withdraw.end(), one.withdraw.begin(), one.withdraw.end());
    }
    if (actions.plan) requested_ = actions.plan->number;
    silent_.insert(silent_.end(), actions.silent.begin(), actions.silent.end());
    lost_.insert(lost_.end(), actions.lost.begin(), actions.lost.end());
    notifications_.insert(notifications_.end(), actions.notifications.begin(),
                          actions.notifications.end());
  }
  // The node acknowledges all its placements; returns the number of the last one.
  std::uint64_t serve(NodeId node) {
    std::uint64_t last = 0;
    for (const JobAssignment& placement : news(node).placements) {
      coordinator_->report(node, {last = placement.id, false, ""});
    }
    return last;
  }
  bool waits(Coordinator::Ticket ticket) {
    act();
    return !answers_.contains(ticket);
  }
  std::string error(Coordinator::Ticket ticket) {
    act();
    const auto found = answers_.find(ticket);
    if (found == answers_.end()) return "(waits)";
    return found->second ? "" : found->second.error().message;
  }
  Status answers_at(Coordinator::Ticket ticket) {
    act();
    const auto found = answers_.find(ticket);
    return found == answers_.end() ? Status::kAgain : found->second.status();
  }
  JobRecord answer(Coordinator::Ticket ticket) {
    EXPECT_EQ(error(ticket), "");
    const auto found = answers_.find(ticket);
    return found == answers_.end() || !found->second ? JobRecord{} : **found->second;
  }

  MemoryStore store_;
  CoordinatorOptions options_;
  std::optional<Coordinator> coordinator_{std::in_place, options_, store_};
  Nanos now_ = kNow;
  std::map<Coordinator::Ticket, Result<SharedJob>> answers_;
  std::map<Coordinator::Ticket, std::uint32_t> ranks_;  // ranks that the answers are for
  std::map<NodeId, Coordinator::News> sent_;
  std::uint64_t requested_ = 0;  // the plan that the coordinator wants made
  std::vector<std::string> silent_;
  std::vector<NodeId> lost_;
  std::vector<Coordinator::Notification> notifications_;
};

}  // namespace tally::control
