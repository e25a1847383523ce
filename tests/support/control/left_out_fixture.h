// For tests: a job of four ranks that goes on without those that it loses, as the coordinator sees
// it.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <utility>
#include <vector>

#include "tests/support/control/repairing_fixture.h"

namespace tally::control {

inline constexpr std::uint32_t kRanks = 4;

// A job of four ranks, with tickets from 1, over the nodes a and b.
class LeftOutRanksTest : public RepairingTest {
 protected:
  using Tickets = std::vector<Coordinator::Ticket>;

  void SetUp() override { nodes_ = {join("a"), join("b")}; }
  static Coordinator::Opening wish(std::uint32_t rank, std::uint32_t quorum = 0) {
    auto made = opening(rank, "train", "t", kRanks);
    made.rank_loss = {.finishes = true, .quorum = quorum};
    return made;
  }
  void run(std::uint32_t quorum = 0) {
    for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
      coordinator_->open(rank + 1, wish(rank, quorum), now_);
    }
    serve_all();
    act();
    for (Coordinator::Ticket ticket = 1; ticket <= kRanks; ++ticket) {
      EXPECT_EQ(error(ticket), "");
      coordinator_->listen(ticket, true);
    }
    first_ = epoch();
  }
  void serve_all() {
    all_listen(nodes_);
    for (const NodeId node : nodes_) serve(node);
  }
  // The words to the ranks of these tickets, which must all get the same, and to no others.
  std::vector<Word> words_to(const Tickets& tickets) {
    act();
    std::map<Coordinator::Ticket, std::vector<Word>> words;
    for (const auto& one : std::exchange(notifications_, {})) {
      words[one.ticket].push_back(one.word);
      next_ = one.epoch;
      last_ = one;
    }
    EXPECT_EQ(words.size(), tickets.size());
    for (const auto ticket : tickets) EXPECT_EQ(words[ticket], words.begin()->second) << ticket;
    return words.empty() ? std::vector<Word>{} : words.begin()->second;
  }
  void report(const Tickets& tickets, Report what, const RankRounds& rounds = {}) {
    for (const auto ticket : tickets) coordinator_->report(ticket, next_, {what, rounds});
  }
  void repair_among(const Tickets& tickets, const RankRounds& rounds = {}) {
    act();
    serve_all();
    EXPECT_THAT(words_to(tickets), ::testing::ElementsAre(Word::kPrepare));
    EXPECT_TRUE(last_.is_repair);
    report(tickets, Report::kReady, rounds);
    EXPECT_THAT(words_to(tickets), ::testing::ElementsAre(Word::kDecided));
    report(tickets, Report::kKnows);
    EXPECT_THAT(words_to(tickets), ::testing::ElementsAre(Word::kGo));
    EXPECT_EQ(epoch(), next_);
    EXPECT_NE(stage(), "repairing");
  }
  // Another coordinator acts over the same store, and the nodes come to it.
  void take_over() {
    coordinator_.emplace(options_, store_, now_);
    nodes_.clear();
    for (const PlanNode& one : now().nodes) {
      const auto again =
          coordinator_->join(member(one.member.name.c_str()), 0, now_, {one.node, {one.placement}});
      ASSERT_TRUE(again.ok());
      coordinator_->listen(*again, now_ + kHold);
      nodes_.push_back(*again);
    }
  }
  void resume(Coordinator::Ticket ticket, std::uint32_t rank) {
    coordinator_->resume(ticket, wish(rank), {now().epoch});
    coordinator_->listen(ticket, true);
  }
  const JobRecord& now() const { return *coordinator_->jobs().current("train"); }

  std::vector<NodeId> nodes_;
};

}  // namespace tally::control
