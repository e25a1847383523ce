// For tests: a job of two ranks whose plan changes, as the coordinator sees it.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/support/control/coordinator_fixture.h"

namespace tally::control {

using Report = Change::Report;
using Word = Change::Word;

class ChangingTest : public CoordinatorTest {
 protected:
  // Forms a job of two listening ranks over these nodes.
  void run_job(const std::vector<NodeId>& nodes) {
    for (Coordinator::Ticket ticket : {1, 2}) {
      coordinator_->open(ticket, opening(static_cast<std::uint32_t>(ticket - 1)), now_);
    }
    for (const NodeId node : nodes) serve(node);
    for (Coordinator::Ticket ticket : {1, 2}) {
      EXPECT_EQ(error(ticket), "");
      coordinator_->listen(ticket);
    }
    first_ = coordinator_->jobs().current("train")->epoch;
  }
  // The instructions to both ranks; next_ becomes the epoch of the last instruction.
  std::vector<Word> instructions() {
    act();
    std::vector<Word> words;
    for (const auto& one : std::exchange(notifications_, {})) {
      if (one.ticket == 1) words.push_back(one.word);
      next_ = one.epoch;
      last_ = one;
    }
    return words;
  }
  void both_report(Report report, const Rounds& rounds = {}) {
    for (Coordinator::Ticket ticket : {1, 2})
      coordinator_->report(ticket, next_, {report, {rounds}});
  }
  std::string waiting(const char* node) {
    const auto drained = coordinator_->drained(node);
    EXPECT_TRUE(drained.ok());
    return drained->waiting.empty() ? "" : drained->waiting[0].what;
  }
  std::uint32_t epoch() const {
    const JobRecord* job = coordinator_->jobs().current("train");
    return job == nullptr ? 0 : job->epoch;
  }
  // Drains the node, until both ranks have to prepare.
  void begin_drain(const char* name, const std::vector<NodeId>& others) {
    ASSERT_TRUE(coordinator_->drain(name, false, now_).ok());
    act();
    for (const NodeId node : others) serve(node);
    ASSERT_THAT(instructions(), ::testing::ElementsAre(Word::kPrepare));
  }

  // Continues from there until the old version has ended.
  void go_over() {
    for (const Report report : {Report::kReady, Report::kKnows, Report::kMoved, Report::kLeft}) {
      both_report(report);
      instructions();
    }
    EXPECT_EQ(epoch(), next_);
  }

  std::uint32_t first_ = 0;
  std::uint32_t next_ = 0;
  Coordinator::Notification last_{};
};

}  // namespace tally::control
