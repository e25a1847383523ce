#include "client/plans/plan_change.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>

#include "tests/support/client/scripted_node.h"

namespace tally::client {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using Kind = PlanStep::Kind;

constexpr Nanos kLongSilence = 66 * kSecond;
constexpr std::uint64_t kTerm = 7;

// A coordinator whose answers the test gives, in this order.
class PlanChangeTest : public ::testing::Test {
 protected:
  PlanChangeTest()
      : node_(std::make_unique<ScriptedNode>(
            "/tmp/tally-plan-change-" + std::to_string(::getpid()),
            [this](const std::string& method, const json&) -> json {
              return method == "job.next" ? answer() : json{{"result", json::object()}};
            })),
        change_(rpc::RpcChannel::connect(node_->address(), monotonic_now() + 5 * kSecond).value(),
                true, known_term()) {}
  ~PlanChangeTest() override { end(); }

  void answer_next(json update) {
    const std::lock_guard lock(mutex_);
    if (!update.contains("term")) update["term"] = kTerm;
    updates_.push_back(std::move(update));
    changed_.notify_one();
  }
  void answer_next(const char* change) { answer_next({{"change", change}, {"epoch", 4}}); }
  // Afterwards the coordinator has read all requests, and answers none.
  void end_answers() {
    const std::lock_guard lock(mutex_);
    over_ = true;
    changed_.notify_one();
  }
  void end() {
    end_answers();
    node_.reset();
  }
  PlanStep wait_for_step() {
    for (;;) {
      PlanStep step = change_.next(0);
      if (step.kind != Kind::kNone || !has_answer()) return step;
    }
  }
  // How often the rank has reported this. Waits until it has reported `last`, its last report.
  int count_reports(const std::string& report, const std::string& last) {
    end_answers();
    int count = 0;
    bool all = false;
    const Nanos until = monotonic_now() + 10 * kSecond;
    while (!all && monotonic_now() < until) {
      count = 0;
      for (const auto& [method, params] : node_->requests()) {
        if (method != "job.report") continue;
        count += params.at("said") == report ? 1 : 0;
        all |= params.at("said") == last;
      }
    }
    EXPECT_TRUE(all) << last;
    return count;
  }
  void prepare() {
    answer_next({{"change", "prepare"}, {"epoch", 4}, {"nodes", json::array()}});
    const PlanStep step = wait_for_step();
    ASSERT_EQ(step.kind, Kind::kPrepare);
    EXPECT_TRUE(step.update.version.contains("nodes"));
    change_.prepared(step.update.epoch, {{7, {2, {}, false}}}, 0);
    EXPECT_TRUE(change_.plans().holds());
  }
  void know() {
    answer_next({{"change", "decided"}, {"epoch", 4}, {"first", json::parse("[[7, 3]]")}});
    while (change_.plans().stage() != PlanSwitch::Stage::kKnowing && has_answer()) {
      EXPECT_EQ(change_.next(0).kind, Kind::kNone);
    }
    EXPECT_EQ(change_.plans().stage(), PlanSwitch::Stage::kKnowing);
  }
  // The term with which the coordinator has answered job.open.
  static rpc::HighestTerm known_term() {
    rpc::HighestTerm term;
    const json answer = {{"term", kTerm}};
    EXPECT_TRUE(term.accept(answer).ok());
    EXPECT_EQ(term.value(), kTerm);
    return term;
  }
  static BookConfig config() {
    BookConfig config;
    config.partition = protocol::even_partition(1, 1 << 20);
    return config;
  }

 private:
  bool has_answer() const {
    pollfd source{change_.fd(), POLLIN, 0};
    return ::poll(&source, 1, 10'000) == 1;
  }
  json answer() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return over_ || !updates_.empty(); });
    if (updates_.empty()) return {};
    json update = std::move(updates_.front());
    updates_.pop_front();
    return {{"result", std::move(update)}};
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<json> updates_;
  bool over_ = false;

 protected:
  std::unique_ptr<ScriptedNode> node_;
  PlanChange change_;
};

TEST_F(PlanChangeTest, ChangesInTheOrderOfTheCoordinator) {
  const OperationBook old(config());
  EXPECT_EQ(change_.next(kForever - 1).kind, Kind::kNone) << "no change: it may be silent";
  prepare();
  know();
  answer_next("go");
  ASSERT_EQ(wait_for_step().kind, Kind::kGo);
  change_.plans().go({{7, 2}});
  EXPECT_TRUE(change_.needs_old(old)) << "round 2 of tag 7 is to be posted";
  change_.plans().posted(7, 2);
  EXPECT_FALSE(change_.needs_old(old));
  change_.moved();
  change_.moved();
  answer_next("leave");
  ASSERT_EQ(wait_for_step().kind, Kind::kLeave);
  change_.left();
  EXPECT_EQ(count_reports("moved", "left"), 1);
  EXPECT_EQ(count_reports("knows", "left"), 1);
  EXPECT_EQ(change_.plans().stage(), PlanSwitch::Stage::kSteady);
}

TEST_F(PlanChangeTest, ATermBelowThatOfTheJobsEntryEndsTheConnection) {
  answer_next({{"change", "prepare"}, {"epoch", 4}, {"nodes", json::array()}, {"term", kTerm - 1}});
  EXPECT_EQ(wait_for_step().kind, Kind::kDropNext);
  EXPECT_FALSE(change_.has_coordinator());
}

TEST_F(PlanChangeTest, IgnoresAnotherEpoch) {
  prepare();
  answer_next({{"change", "called off"}, {"epoch", 3}});
  answer_next("called off");
  EXPECT_EQ(wait_for_step().kind, Kind::kDropNext);
  EXPECT_EQ(change_.next(0).kind, Kind::kNone);
  EXPECT_FALSE(change_.plans().holds());
}

TEST_F(PlanChangeTest, ARankThatCalledOffCannotFollowTheOthers) {
  prepare();
  know();
  change_.call_off("no room for it");
  EXPECT_TRUE(change_.plans().holds()) << "the others may have decided";
  answer_next("go");
  const PlanStep step = wait_for_step();
  EXPECT_EQ(step.kind, Kind::kEndSession);
  EXPECT_EQ(step.why.status, Status::kNodeLost);
  EXPECT_THAT(step.why.message, HasSubstr("no room for it"));
  EXPECT_EQ(count_reports("cannot", "cannot"), 1);
}

TEST_F(PlanChangeTest, WithoutADecisionTheOldPlanGoesOnAlone) {
  prepare();
  EXPECT_EQ(change_.next(change_.silent_until() - 1).kind, Kind::kNone);
  const PlanStep step = change_.next(kLongSilence);
  EXPECT_EQ(step.kind, Kind::kDropNext);
  EXPECT_THAT(step.note, HasSubstr("it has been silent for too long; the job runs on"));
  EXPECT_FALSE(change_.has_coordinator());
  EXPECT_EQ(change_.silent_until(), kForever);
  change_.refuse(4, "there is no coordinator");
}

TEST_F(PlanChangeTest, ALostCoordinatorAfterTheDecisionEndsTheSession) {
  prepare();
  know();
  end();
  const PlanStep step = wait_for_step();
  EXPECT_EQ(step.kind, Kind::kEndSession);
  EXPECT_EQ(step.why.status, Status::kUnavailable);
}

TEST_F(PlanChangeTest, AnInterruptedRankWaitsForItsRepair) {
  change_.interrupt(3, "node b is gone", 0);
  EXPECT_TRUE(change_.is_interrupted());
  EXPECT_TRUE(change_.plans().holds());
  answer_next(
      {{"change", "prepare"}, {"epoch", 9}, {"nodes", json::array()}});  // was planned before
  answer_next({{"change", "prepare"}, {"epoch", 4}, {"nodes", json::array()}, {"repair", true}});
  const PlanStep step = wait_for_step();
  ASSERT_EQ(step.kind, Kind::kPrepare);
  EXPECT_EQ(step.update.epoch, 4U);
  change_.prepared(4, {{7, {2, {}, false}}}, 0);
  answer_next({{"change", "decided"},
               {"epoch", 4},
               {"first", json::parse("[[7, 3]]")},
               {"failed", json::parse("[[7, 4, 1, 2]]")}});
  answer_next("go");
  ASSERT_EQ(wait_for_step().kind, Kind::kRepaired);
  const RoundDecision decided = change_.repaired();
  EXPECT_EQ(decided.first.at(7), 3U);
  EXPECT_EQ(decided.failed.at(7), (RoundFailure{Status::kDeadline, 1, 2}));
  EXPECT_FALSE(change_.is_interrupted());
  EXPECT_FALSE(change_.plans().holds());
  EXPECT_EQ(count_reports("lost", "knows"), 1);
}

TEST_F(PlanChangeTest, AnAttemptThatIsCalledOffLeavesTheRankInterrupted) {
  change_.interrupt(3, "node b is gone", 0);
  answer_next({{"change", "prepare"}, {"epoch", 4}, {"nodes", json::array()}, {"repair", true}});
  ASSERT_EQ(wait_for_step().kind, Kind::kPrepare);
  change_.prepared(4, {}, 0);
  answer_next("called off");
  ASSERT_EQ(wait_for_step().kind, Kind::kDropNext);
  EXPECT_TRUE(change_.is_interrupted());
  EXPECT_TRUE(change_.plans().holds());
  EXPECT_NE(change_.silent_until(), kForever);
  answer_next({{"change", "ended"}, {"epoch", 3}, {"why", "rank 2 has left"}, {"culprit", 2}});
  const PlanStep step = wait_for_step();
  ASSERT_EQ(step.kind, Kind::kEndSession);
  EXPECT_EQ(step.why.status, Status::kPeerLost);
  EXPECT_EQ(step.why.message, "rank 2 has left");
  EXPECT_EQ(step.culprit, 2);
}

TEST_F(PlanChangeTest, WithoutItsCoordinatorAnInterruptedRankGivesUp) {
  change_.interrupt(3, "node b is gone", 0);
  EXPECT_EQ(change_.next(change_.silent_until() - 1).kind, Kind::kNone);
  const PlanStep step = change_.next(kLongSilence);
  ASSERT_EQ(step.kind, Kind::kEndSession);
  EXPECT_EQ(step.why.status, Status::kNodeLost);
}

TEST(PlanChange, WithoutACoordinatorNothingComes) {
  PlanChange change{std::nullopt, false};
  EXPECT_FALSE(change.repairs());
  EXPECT_EQ(change.fd(), -1);
  EXPECT_EQ(change.next(kForever - 1).kind, Kind::kNone);
  change.leave();
}

}  // namespace
}  // namespace tally::client
