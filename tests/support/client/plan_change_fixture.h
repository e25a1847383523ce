// For tests: the rank's side of a change of the plan; the test gives the coordinator's answers.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "client/plans/plan_change.h"
#include "tests/support/client/scripted_node.h"

namespace tally::client {

inline constexpr std::uint64_t kTerm = 7;
inline constexpr std::uint32_t kEpoch = 3;  // of the version in use; 4: of the next one

inline rpc::RpcChannel channel_to(const ScriptedNode& node) {
  return rpc::RpcChannel::connect(node.address(), monotonic_now() + 5 * kSecond).value();
}

// A coordinator whose answers the test gives, in this order.
class PlanChangeTest : public ::testing::Test {
 protected:
  explicit PlanChangeTest(PlanChange::Search search = {}, FaultTimeouts timeouts = {})
      : node_(node("")),
        change_({channel_to(*node_), true, known_term(), kEpoch, timeouts}, search) {}
  ~PlanChangeTest() override { end(); }

  std::unique_ptr<ScriptedNode> node(const char* which) {
    return std::make_unique<ScriptedNode>(
        "/tmp/tally-plan-change-" + std::to_string(::getpid()) + which,
        [this](const std::string& method, const nlohmann::json&) -> nlohmann::json {
          return method == "job.next" ? answer()
                                      : nlohmann::json{{"result", nlohmann::json::object()}};
        });
  }
  void answer_next(nlohmann::json update) {
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
      if (step.kind != PlanStep::Kind::kNone || !has_answer()) return step;
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
    answer_next({{"change", "prepare"}, {"epoch", 4}, {"nodes", nlohmann::json::array()}});
    const PlanStep step = wait_for_step();
    ASSERT_EQ(step.kind, PlanStep::Kind::kPrepare);
    EXPECT_TRUE(step.update.version.contains("nodes"));
    change_.prepared(step.update.epoch, {{7, {2, {}, false}}}, 0);
    EXPECT_TRUE(change_.plans().holds());
  }
  void know() {
    answer_next(
        {{"change", "decided"}, {"epoch", 4}, {"first", nlohmann::json::parse("[[7, 3]]")}});
    while (change_.plans().stage() != PlanSwitch::Stage::kKnowing && has_answer()) {
      EXPECT_EQ(change_.next(0).kind, PlanStep::Kind::kNone);
    }
    EXPECT_EQ(change_.plans().stage(), PlanSwitch::Stage::kKnowing);
  }
  // The term with which the coordinator has answered job.open.
  static rpc::HighestTerm known_term() {
    rpc::HighestTerm term;
    const nlohmann::json answer = {{"term", kTerm}};
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
  nlohmann::json answer() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return over_ || !updates_.empty(); });
    if (updates_.empty()) return {};
    nlohmann::json update = std::move(updates_.front());
    updates_.pop_front();
    return {{"result", std::move(update)}};
  }
  bool has_answer() const {
    pollfd source{change_.fd(), POLLIN, 0};
    return ::poll(&source, 1, 10'000) == 1;
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<nlohmann::json> updates_;
  bool over_ = false;

 protected:
  std::unique_ptr<ScriptedNode> node_;
  PlanChange change_;
};

}  // namespace tally::client
