#include "client/plans/plan_change.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <future>
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
constexpr std::uint32_t kEpoch = 3;  // of the version in use; 4: of the next one

rpc::RpcChannel channel_to(const ScriptedNode& node) {
  return rpc::RpcChannel::connect(node.address(), monotonic_now() + 5 * kSecond).value();
}

// A coordinator whose answers the test gives, in this order.
class PlanChangeTest : public ::testing::Test {
 protected:
  explicit PlanChangeTest(PlanChange::Search search = {})
      : node_(node("")), change_({channel_to(*node_), true, known_term(), kEpoch}, search) {}
  ~PlanChangeTest() override { end(); }

  std::unique_ptr<ScriptedNode> node(const char* which) {
    return std::make_unique<ScriptedNode>(
        "/tmp/tally-plan-change-" + std::to_string(::getpid()) + which,
        [this](const std::string& method, const json&) -> json {
          return method == "job.next" ? answer() : json{{"result", json::object()}};
        });
  }
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
  void begin_answers() {
    const std::lock_guard lock(mutex_);
    over_ = false;
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
  json answer() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return over_ || !updates_.empty(); });
    if (updates_.empty()) return {};
    json update = std::move(updates_.front());
    updates_.pop_front();
    return {{"result", std::move(update)}};
  }
  bool has_answer() const {
    pollfd source{change_.fd(), POLLIN, 0};
    return ::poll(&source, 1, 10'000) == 1;
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

// The coordinator ends, and the rank finds another one when the test says so.
class NextCoordinatorTest : public PlanChangeTest {
 protected:
  NextCoordinatorTest() : PlanChangeTest(search()) {}
  ~NextCoordinatorTest() override {
    change_.end();
    end_answers();
  }

  // Returns the step with which the search begins.
  PlanStep lose_coordinator() {
    end();
    PlanStep step;
    while (searched_.empty()) step = change_.next(0);
    return step;
  }
  void find(std::uint32_t epoch) {
    next_ = node("-next");
    rpc::HighestTerm term = known_term();
    found_.set_value(ResumedJob{channel_to(*next_), epoch, term});
  }
  void find_none() { found_.set_value(Error{Status::kUnavailable, "no node answers"}); }
  // The reports to the next coordinator, when it has got `last`.
  int count_reports_to_next(const std::string& report) {
    std::swap(node_, next_);
    return count_reports(report, report);
  }

  std::vector<std::uint32_t> searched_;  // the epochs that the search was for

 private:
  PlanChange::Search search() {
    return [this](std::uint32_t epoch, std::uint32_t next, const rpc::HighestTerm& term) {
      searched_ = {epoch, next};
      EXPECT_EQ(term.value(), kTerm);
      return [this](const std::atomic<bool>& stop) -> Result<ResumedJob> {
        auto found = found_.get_future();
        while (found.wait_for(std::chrono::milliseconds(1)) != std::future_status::ready) {
          if (stop) return Error{Status::kCancelled, "stopped"};
        }
        return found.get();
      };
    };
  }

  std::promise<Result<ResumedJob>> found_;
  std::unique_ptr<ScriptedNode> next_;
};

TEST_F(NextCoordinatorTest, IsAskedFromThenOn) {
  EXPECT_EQ(lose_coordinator().kind, Kind::kNone);
  EXPECT_EQ(searched_, (std::vector<std::uint32_t>{kEpoch, 0}));
  EXPECT_TRUE(change_.repairs());
  EXPECT_TRUE(change_.fd_has_changed());
  begin_answers();
  find(kEpoch);
  const PlanStep step = wait_for_step();
  EXPECT_EQ(step.kind, Kind::kDropNext);
  EXPECT_THAT(step.note, HasSubstr("the coordinator is now at"));
  EXPECT_TRUE(change_.fd_has_changed());
  prepare();
}

TEST_F(NextCoordinatorTest, AChangeWithoutADecisionIsOff) {
  prepare();
  EXPECT_EQ(lose_coordinator().kind, Kind::kDropNext);
  EXPECT_FALSE(change_.plans().holds());
  EXPECT_TRUE(change_.has_coordinator());
}

TEST_F(NextCoordinatorTest, SaysWhetherTheOthersHaveChanged) {
  prepare();
  know();
  EXPECT_EQ(lose_coordinator().kind, Kind::kNone);
  EXPECT_EQ(searched_, (std::vector<std::uint32_t>{kEpoch, 4}));
  EXPECT_TRUE(change_.plans().holds());
  find(4);
  EXPECT_EQ(wait_for_step().kind, Kind::kGo);
}

TEST_F(NextCoordinatorTest, SaysThatTheOthersHaveNotChanged) {
  prepare();
  know();
  EXPECT_EQ(lose_coordinator().kind, Kind::kNone);
  find(kEpoch);
  EXPECT_EQ(wait_for_step().kind, Kind::kDropNext);
  EXPECT_FALSE(change_.plans().holds());
}

TEST_F(NextCoordinatorTest, GetsTheReportOfALossAgain) {
  EXPECT_EQ(lose_coordinator().kind, Kind::kNone);
  change_.interrupt(kEpoch, "node b is gone", 0);
  EXPECT_EQ(change_.silent_until(), kForever) << "the search has its own limit";
  find(kEpoch);
  EXPECT_EQ(wait_for_step().kind, Kind::kDropNext);
  EXPECT_TRUE(change_.is_interrupted());
  EXPECT_TRUE(change_.plans().holds());
  EXPECT_NE(change_.silent_until(), kForever);
  EXPECT_EQ(count_reports_to_next("lost"), 1);
}

TEST_F(NextCoordinatorTest, FinishesARepairForWhichAllHadDecided) {
  change_.interrupt(kEpoch, "node b is gone", 0);
  answer_next({{"change", "prepare"}, {"epoch", 4}, {"nodes", json::array()}, {"repair", true}});
  ASSERT_EQ(wait_for_step().kind, Kind::kPrepare);
  change_.prepared(4, {}, 0);
  know();
  EXPECT_EQ(lose_coordinator().kind, Kind::kNone);
  find(4);
  ASSERT_EQ(wait_for_step().kind, Kind::kRepaired);
  EXPECT_EQ(change_.repaired().first.at(7), 3U);
}

TEST_F(NextCoordinatorTest, HasAnotherJob) {
  EXPECT_EQ(lose_coordinator().kind, Kind::kNone);
  find(9);
  const PlanStep step = wait_for_step();
  EXPECT_EQ(step.kind, Kind::kEndSession);
  EXPECT_THAT(step.why.message, HasSubstr("has epoch 9 of the job, and this rank 3"));
}

TEST_F(NextCoordinatorTest, ARankThatHasMovedLeavesTheOldVersionByItself) {
  const OperationBook old(config());
  prepare();
  know();
  answer_next("go");
  ASSERT_EQ(wait_for_step().kind, Kind::kGo);
  change_.plans().go({{7, 2}});
  EXPECT_EQ(lose_coordinator().kind, Kind::kNone);
  EXPECT_EQ(searched_, (std::vector<std::uint32_t>{4, 4}));
  change_.plans().posted(7, 2);
  ASSERT_FALSE(change_.needs_old(old));
  change_.moved();
  EXPECT_EQ(change_.next(0).kind, Kind::kLeave);
  change_.left();
  EXPECT_EQ(change_.next(0).kind, Kind::kNone);
  EXPECT_EQ(change_.plans().stage(), PlanSwitch::Stage::kSteady);
}

TEST_F(NextCoordinatorTest, WithoutOneAnInterruptedRankGivesUp) {
  EXPECT_EQ(lose_coordinator().kind, Kind::kNone);
  change_.interrupt(kEpoch, "node b is gone", 0);
  find_none();
  const PlanStep step = wait_for_step();
  ASSERT_EQ(step.kind, Kind::kEndSession);
  EXPECT_EQ(step.why.status, Status::kNodeLost);
  EXPECT_THAT(step.why.message, HasSubstr("node b is gone; the coordinator at"));
  EXPECT_THAT(step.why.message, HasSubstr("no node answers"));
}

TEST_F(NextCoordinatorTest, WithoutOneTheJobRunsOn) {
  EXPECT_EQ(lose_coordinator().kind, Kind::kNone);
  find_none();
  const PlanStep step = wait_for_step();
  EXPECT_EQ(step.kind, Kind::kDropNext);
  EXPECT_THAT(step.note, HasSubstr("no node answers; the job runs on"));
  EXPECT_FALSE(change_.has_coordinator());
  EXPECT_FALSE(change_.repairs());
}

TEST(PlanChange, WithoutACoordinatorNothingComes) {
  PlanChange change{KnownCoordinator()};
  EXPECT_FALSE(change.repairs());
  EXPECT_EQ(change.fd(), -1);
  EXPECT_EQ(change.next(kForever - 1).kind, Kind::kNone);
  change.leave();
}

}  // namespace
}  // namespace tally::client
