// A job of two ranks whose plan changes, as the coordinator sees it.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "control/coordinator/coordinator_fixture.h"

namespace tally::control {

using Report = Change::Report;
using Word = Change::Word;

class ChangingTest : public CoordinatorTest {
 protected:
  // A job of two ranks that listen, over these nodes.
  void run_job(const std::vector<NodeId>& nodes) {
    for (Coordinator::Ticket ticket : {1, 2}) {
      coordinator_->open(ticket, opening(static_cast<std::uint32_t>(ticket - 1)), now_);
    }
    for (const NodeId node : nodes) serve(node);
    for (Coordinator::Ticket ticket : {1, 2}) {
      EXPECT_EQ(error(ticket), "");
      coordinator_->listen(ticket);
    }
    first_ = coordinator_->current("train")->epoch;
  }
  // What both are told; the epoch of the last is next_.
  std::vector<Word> told() {
    act();
    std::vector<Word> words;
    for (const auto& one : std::exchange(tellings_, {})) {
      if (one.ticket == 1) words.push_back(one.word);
      next_ = one.version.epoch;
      last_ = one;
    }
    return words;
  }
  void both_say(Report report, const Rounds& rounds = {}) {
    for (Coordinator::Ticket ticket : {1, 2}) coordinator_->say(ticket, next_, report, rounds);
  }
  std::string waiting(const char* node) {
    const auto drained = coordinator_->drained(node);
    EXPECT_TRUE(drained.ok());
    return drained->waiting.empty() ? "" : drained->waiting[0].what;
  }
  std::uint32_t epoch() const {
    const JobRecord* job = coordinator_->current("train");
    return job == nullptr ? 0 : job->epoch;
  }
  // Until both ranks are asked.
  void begin_drain(const char* name, const std::vector<NodeId>& others) {
    ASSERT_TRUE(coordinator_->drain(name, false, now_).ok());
    act();
    for (const NodeId node : others) serve(node);
    ASSERT_THAT(told(), ::testing::ElementsAre(Word::kPrepare));
  }

  // From then on, to the end of the version before.
  void go_over() {
    for (const Report report : {Report::kReady, Report::kKnows, Report::kMoved, Report::kLeft}) {
      both_say(report);
      told();
    }
    EXPECT_EQ(epoch(), next_);
  }

  std::uint32_t first_ = 0;
  std::uint32_t next_ = 0;
  Coordinator::Telling last_{};
};

}  // namespace tally::control
