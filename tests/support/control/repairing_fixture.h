// For tests: a job of two ranks that can be repaired, as the coordinator sees it.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/control/changing_fixture.h"

namespace tally::control {

class RepairingTest : public ChangingTest {
 protected:
  // Forms a job over these nodes.
  void run_repairable_job(const std::vector<NodeId>& nodes) {
    run_job(nodes);
    for (Coordinator::Ticket ticket : {1, 2}) coordinator_->listen(ticket, true);
  }
  // A rank has lost the running version, and these nodes serve the first attempt to repair it.
  void begin_repair(const std::vector<NodeId>& nodes) {
    lose(1, first_);
    act();
    for (const NodeId node : nodes) serve(node);
    ASSERT_THAT(instructions(), ::testing::ElementsAre(Word::kPrepare));
  }
  // All ranks know the decision of a planned change, and move.
  void move_ranks() {
    for (const Report report : {Report::kReady, Report::kKnows}) {
      both_report(report);
      instructions();
    }
  }
  // Continues from the plan of an attempt until the repair is over.
  void repair_with(const std::vector<NodeId>& nodes) {
    all_listen(nodes);
    for (const NodeId node : nodes) serve(node);
    EXPECT_THAT(instructions(), ::testing::ElementsAre(Word::kPrepare));
    EXPECT_TRUE(last_.is_repair);
    both_report(Report::kReady);
    EXPECT_THAT(instructions(), ::testing::ElementsAre(Word::kDecided));
    both_report(Report::kKnows);
    EXPECT_THAT(instructions(), ::testing::ElementsAre(Word::kGo));
    EXPECT_EQ(epoch(), next_);
    EXPECT_EQ(stage(), "running");
  }
  // The same from the pause after an attempt that has failed.
  void repair_after_pause(const std::vector<NodeId>& nodes) {
    act();
    now_ += 16 * kRepairPause;
    repair_with(nodes);
  }
  void lose(Coordinator::Ticket ticket, std::uint32_t epoch, const char* why = "node lost") {
    coordinator_->report(ticket, epoch, {Report::kLost, {}, why});
  }
  // Lets time pass, in which these nodes ask for news.
  void wait(Nanos span, const std::vector<NodeId>& nodes) {
    act();
    for (const Nanos until = now_ + span; now_ < until;) {
      now_ = std::min(until, std::max(now_ + kMillisecond, coordinator_->next_deadline()));
      act();
      all_listen(nodes);
    }
  }
  void all_listen(const std::vector<NodeId>& nodes) {
    for (const NodeId node : nodes) coordinator_->listen(node, now_ + kHold);
  }
  // The progress of the job's present version. When it has none: of the last version.
  Coordinator::Progress progress() const {
    Coordinator::Progress present;
    for (const auto& one : coordinator_->progress()) {
      if (one.stage != "ending" || epoch() == 0) present = one;
    }
    return present;
  }
  std::string stage() const { return std::string(progress().stage); }
  // The message that both ranks get at the end of a job that is not repaired.
  std::string ended(std::optional<std::uint32_t> culprit = {}) {
    const auto words = instructions();
    const bool fine = last_.word == Word::kEnded && last_.epoch == first_;
    EXPECT_TRUE(fine);
    EXPECT_EQ(last_.culprit, culprit);
    return last_.why;
  }
};

}  // namespace tally::control
