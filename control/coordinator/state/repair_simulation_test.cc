// Ranks that post at random while nodes are lost and join, and the coordinator that repairs their
// job and changes its plan, with everything that travels between them late. One thread, from a
// seed.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "client/operations/plan_switch.h"
#include "control/coordinator/state/coordinator.h"
#include "control/coordinator/state/memory_store.h"
#include "tests/support/control/coordinator_fixture.h"
#include "tests/support/control/round_ledger.h"
#include "tests/support/tier.h"

namespace tally::control {
namespace {

using client::PlanSwitch;

class RepairSimulation {
 public:
  RepairSimulation(std::uint32_t seed, std::uint32_t ranks, int losses)
      : seed_(seed), losses_(losses), random_(seed), ranks_(ranks) {}

  void run() {
    begin();
    for (int step = 0; step < 100'000 && !::testing::Test::HasFailure(); ++step) {
      now_ += kStep;
      for (std::uint32_t rank = 0; rank < ranks_.size(); ++rank) turn(rank);
      ledger_.end_rounds([this](std::uint32_t epoch) { return is_broken(epoch); });
      deliver_report();
      for (Machine& node : nodes_) turn(node);
      if (losses_ > 0 && chance(200)) disturb();
      act();
      if (losses_ == 0 && is_finished()) return;
    }
    ADD_FAILURE() << "seed " << seed_ << ": no end of it";
  }

  // How often a rank has gone over after a repair, and after a change of plan; has done a round
  // again; and has ended one because another rank had.
  struct Counts {
    int repairs = 0, changes = 0, again = 0, closed = 0;
  };
  const Counts& counts() const { return counts_; }

 private:
  static constexpr std::uint32_t kTags = 4;
  static constexpr std::uint32_t kRounds = 60;  // of each tag
  static constexpr int kNodes = 4;
  static constexpr Nanos kStep = 40 * kMillisecond;

  struct Open {
    std::uint32_t round = 0;
    std::uint32_t epoch = 0;
  };
  struct Closed {
    std::uint32_t first = 0;
    std::optional<RoundFailure> failure;
  };
  struct Rank {
    PlanSwitch plans;
    std::uint32_t now = 0, old = 0, next = 0;       // epochs; 0: there is none
    std::map<std::uint32_t, std::uint32_t> posted;  // by tag: the round that it posts next
    std::map<std::uint32_t, Open> open;             // outstanding or interrupted
    std::map<std::uint32_t, Open> again;            // done again for other ranks
    std::set<std::uint32_t> held;                   // tags
    std::map<std::uint32_t, RoundFailure> failed;   // the last round that has ended
    std::map<std::uint32_t, Closed> closed;         // by the last repair
    RoundDecision decision;
    std::deque<RankNotification> inbox;
    bool is_interrupted = false;
    bool reported_moved = false;
  };
  struct Machine {
    NodeId id = 0;
    std::string name;
    bool is_alive = true;
    Nanos leaves_at = kForever;                     // when the coordinator notices its loss
    std::map<std::uint64_t, std::uint32_t> serves;  // epoch by placement
    std::deque<Coordinator::Report> reports;
  };
  struct Sent {
    std::uint32_t rank = 0;
    std::uint32_t epoch = 0;
    RankReport report;
  };

  // Results of the last two tags stand at a rank only when they arrive there.
  static bool is_eager(std::uint32_t tag) { return tag >= kTags - 2; }
  bool chance(std::uint32_t one_in) { return random_() % one_in == 0; }
  std::string where(std::uint32_t rank, std::uint32_t tag, std::uint32_t round) const {
    return "seed " + std::to_string(seed_) + ", rank " + std::to_string(rank) + ", tag " +
           std::to_string(tag) + ", round " + std::to_string(round);
  }

  // -- the cluster ----------------------------------------------------------------------------
  void begin() {
    for (int node = 0; node < kNodes; ++node) add_node();
    const auto ranks = static_cast<std::uint32_t>(ranks_.size());
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      coordinator_.open(rank + 1, {"train", testing::shows("t"), rank, ranks, ""}, now_);
    }
    while (ranks_[0].now == 0) {
      act();
      for (Machine& node : nodes_) turn(node);
    }
    for (std::uint32_t rank = 0; rank < ranks; ++rank) coordinator_.listen(rank + 1, true);
    has_begun_ = true;
  }

  void add_node() {
    Machine& node = nodes_.emplace_back();
    node.name = "n" + std::to_string(nodes_.size());
    const auto joined = coordinator_.join(member(node.name.c_str()), 0, now_);
    ASSERT_TRUE(joined.ok());
    node.id = *joined;
  }

  void act() {
    for (const Machine& node : nodes_) {
      if (node.leaves_at == kForever) coordinator_.listen(node.id, now_ + kHold);
    }
    const auto actions = coordinator_.act(now_);
    for (const auto& answer : actions.answers) {
      const JobRecord& job = **answer.outcome;
      ranks_[answer.rank].now = job.epoch;
      for (const PlanNode& one : job.nodes) nodes_of_[job.epoch].insert(one.node);
    }
    for (const auto& one : actions.notifications) {
      if (one.version != nullptr) {
        for (const PlanNode& at : one.version->nodes) nodes_of_[one.epoch].insert(at.node);
      }
      ranks_[one.ticket - 1].inbox.push_back(one);
    }
    for (const auto& news : actions.news) take(news);
  }

  void take(const NodeNews& news) {
    const auto node = std::find_if(nodes_.begin(), nodes_.end(),
                                   [&](const Machine& one) { return one.id == news.node; });
    for (const JobAssignment& one : news.placements) {
      node->serves[one.id] = one.epoch;
      node->reports.push_back({one.id, false, has_begun_ && chance(40) ? "no room" : ""});
    }
    for (const std::uint64_t placement : news.withdraw) {
      if (node->serves.erase(placement) > 0) node->reports.push_back({placement, true, ""});
    }
  }

  void turn(Machine& node) {
    if (!node.is_alive) {
      if (now_ < node.leaves_at) return;
      node.leaves_at = kForever - 1;
      return coordinator_.leave(node.id, "its cable was cut");
    }
    // A rank that ends its sessions ends the version at the node.
    for (auto [placement, epoch] : std::map(node.serves)) {
      if (!ledger_.is_fenced(epoch) || !chance(20)) continue;
      node.serves.erase(placement);
      node.reports.push_back({placement, true, ""});
    }
    if (node.reports.empty() || !chance(4)) return;
    const Coordinator::Report report = node.reports.front();
    node.reports.pop_front();
    if (!report.error.empty()) node.serves.erase(report.placement);
    coordinator_.report(node.id, report);
  }

  void disturb() {
    if (chance(3)) return add_node();
    --losses_;
    if (chance(4)) {  // a rank's connection to a node breaks
      const auto rank = static_cast<std::uint32_t>(random_() % ranks_.size());
      if (!ranks_[rank].is_interrupted) interrupt(rank);
      return;
    }
    std::vector<Machine*> alive;
    for (Machine& node : nodes_) {
      if (node.is_alive) alive.push_back(&node);
    }
    if (alive.size() > 1) {
      Machine& lost = *alive[random_() % alive.size()];
      lost.is_alive = false;
      lost.leaves_at = now_ + static_cast<Nanos>(random_() % 100) * kStep;
    }
    if (alive.size() < 3) add_node();
  }

  bool is_broken(std::uint32_t epoch) {
    return std::any_of(nodes_.begin(), nodes_.end(), [&](const Machine& node) {
      return !node.is_alive && nodes_of_[epoch].contains(node.id);
    });
  }

  bool is_finished() const {
    return std::all_of(ranks_.begin(), ranks_.end(), [&](const Rank& rank) {
      if (!rank.open.empty() || !rank.again.empty() || !rank.held.empty()) return false;
      for (std::uint32_t tag = 0; tag < kTags; ++tag) {
        const auto posted = rank.posted.find(tag);
        if (posted == rank.posted.end() || posted->second < kRounds) return false;
      }
      return rank.plans.stage() == PlanSwitch::Stage::kSteady;
    });
  }

  // -- a rank ---------------------------------------------------------------------------------
  void turn(std::uint32_t number) {
    Rank& rank = ranks_[number];
    if (chance(2)) post(number, static_cast<std::uint32_t>(random_() % kTags));
    if (!rank.inbox.empty() && chance(3)) follow(number);
    if (!rank.is_interrupted && chance(20) && notices_loss(rank)) interrupt(number);
    take_completions(number);
    if (!rank.plans.holds()) {
      for (const std::uint32_t tag : std::exchange(rank.held, {})) send(number, tag);
    }
    if (rank.plans.is_past() && !rank.reported_moved && !uses(rank, rank.old)) {
      rank.reported_moved = true;
      report(number, rank.now, {Change::Report::kMoved});
    }
  }

  static bool uses(const Rank& rank, std::uint32_t epoch) {
    const auto is_by = [epoch](const auto& one) { return one.second.epoch == epoch; };
    return std::any_of(rank.open.begin(), rank.open.end(), is_by) ||
           std::any_of(rank.again.begin(), rank.again.end(), is_by);
  }

  bool notices_loss(const Rank& rank) {
    return is_broken(rank.now) || ledger_.is_fenced(rank.now) || is_broken(rank.old) ||
           ledger_.is_fenced(rank.old);
  }

  void post(std::uint32_t number, std::uint32_t tag) {
    Rank& rank = ranks_[number];
    if (rank.open.contains(tag) || rank.again.contains(tag) || rank.held.contains(tag)) return;
    if (rank.posted[tag] >= kRounds) return;
    if (rank.plans.holds()) {
      rank.held.insert(tag);
    } else {
      send(number, tag);
    }
  }

  void send(std::uint32_t number, std::uint32_t tag) {
    Rank& rank = ranks_[number];
    const std::uint32_t round = rank.posted[tag]++;
    const auto by = rank.plans.carrier(tag, round);
    ASSERT_NE(by, PlanSwitch::By::kNone);
    rank.plans.posted(tag, round);
    rank.open[tag] = {round, by == PlanSwitch::By::kOld && rank.old != 0 ? rank.old : rank.now};
    if (round < rank.closed[tag].first) return close(number, tag);
    ledger_.contribute(number, {rank.open[tag].epoch, tag, round});
  }

  void take_completions(std::uint32_t number) {
    Rank& rank = ranks_[number];
    if (rank.is_interrupted) return;
    for (auto [tag, open] : std::map(rank.open)) {
      const auto done = ledger_.done({open.epoch, tag, open.round});
      if (done && chance(6)) end(number, tag, *done);
    }
    std::erase_if(rank.again, [&](const auto& one) {
      return ledger_.done({one.second.epoch, one.first, one.second.round}) && chance(6);
    });
  }

  void end(std::uint32_t number, std::uint32_t tag, Status status) {
    Rank& rank = ranks_[number];
    const std::uint32_t round = rank.open.at(tag).round;
    rank.open.erase(tag);
    ledger_.see(tag, round, status);
    if (status == Status::kOk) {
      rank.failed.erase(tag);
    } else {
      rank.failed.try_emplace(tag, RoundFailure{status, UINT16_MAX, round});
    }
  }

  // The round has ended at another rank.
  void close(std::uint32_t number, std::uint32_t tag) {
    Rank& rank = ranks_[number];
    const std::uint32_t round = rank.open.at(tag).round;
    const auto& failure = rank.closed.at(tag).failure;
    const bool fails = failure && round >= failure->succeeded;
    EXPECT_TRUE(fails || !is_eager(tag)) << where(number, tag, round) << ": its result is not here";
    ++counts_.closed;
    end(number, tag, fails ? failure->status : Status::kOk);
  }

  void interrupt(std::uint32_t number) {
    Rank& rank = ranks_[number];
    rank.is_interrupted = true;
    rank.again.clear();
    for (const std::uint32_t epoch : {rank.now, rank.old, rank.next}) {
      if (epoch != 0) ledger_.fence(epoch, number);
    }
    rank.old = rank.next = 0;
    rank.plans.interrupt();
    report(number, rank.now, {Change::Report::kLost, {}, "node lost"});
  }

  RankRounds rounds(const Rank& rank) const {
    RankRounds rounds{rank.posted, {}, {}};
    if (!rank.is_interrupted) return rounds;
    for (const auto& [tag, open] : rank.open) rounds.next[tag] = open.round;
    for (const auto& [tag, next] : rounds.next) {
      const auto failed = rank.failed.find(tag);
      if (failed != rank.failed.end()) {
        rounds.failed[tag] = failed->second;
      } else if (is_eager(tag) && next > 0) {
        rounds.kept.insert(tag);
      }
    }
    return rounds;
  }

  void follow(std::uint32_t number) {
    Rank& rank = ranks_[number];
    const RankNotification word = std::move(rank.inbox.front());
    rank.inbox.pop_front();
    if (word.word == Change::Word::kEnded) ADD_FAILURE() << "seed " << seed_ << ": " << word.why;
    if (word.word == Change::Word::kPrepare) return prepare(number, word);
    if (word.epoch != rank.next && word.word != Change::Word::kLeave) return;
    switch (word.word) {
      case Change::Word::kDecided:
        rank.decision = word.decision;
        rank.plans.know(word.decision.first);
        return report(number, word.epoch, {Change::Report::kKnows});
      case Change::Word::kGo:
        return rank.is_interrupted ? go_over_repaired(number) : go_over(rank);
      case Change::Word::kLeave:
        if (rank.old == 0) return;
        EXPECT_FALSE(uses(rank, rank.old));
        rank.old = 0;
        rank.plans.finish();
        return report(number, word.epoch, {Change::Report::kLeft});
      default:
        rank.next = 0;
        return rank.is_interrupted ? rank.plans.interrupt() : rank.plans.call_off();
    }
  }

  void prepare(std::uint32_t number, const RankNotification& word) {
    Rank& rank = ranks_[number];
    if (word.is_repair && !rank.is_interrupted) interrupt(number);
    if (rank.is_interrupted != word.is_repair) return;  // sent before the coordinator knew
    if (chance(30)) return report(number, word.epoch, {Change::Report::kCannot, {}, "no memory"});
    EXPECT_EQ(rank.next, 0U);
    rank.next = word.epoch;
    rank.plans.hold();
    report(number, word.epoch, {Change::Report::kReady, rounds(rank)});
  }

  void go_over(Rank& rank) {
    ++counts_.changes;
    rank.old = rank.now;
    rank.now = std::exchange(rank.next, 0);
    rank.reported_moved = false;
    rank.plans.go(rank.posted);
  }

  void go_over_repaired(std::uint32_t number) {
    ++counts_.repairs;
    Rank& rank = ranks_[number];
    const Rounds ended = rounds(rank).next;
    rank.now = std::exchange(rank.next, 0);
    rank.is_interrupted = false;
    rank.plans.repaired();
    for (const auto& [tag, first] : rank.decision.first) {
      const auto failed = rank.decision.failed.find(tag);
      rank.closed[tag] = {first, {}};
      if (failed != rank.decision.failed.end()) rank.closed[tag].failure = failed->second;
      const auto next = ended.find(tag);
      if (next != ended.end() && next->second > first) {
        EXPECT_EQ(next->second, first + 1) << where(number, tag, first);
        EXPECT_TRUE(is_eager(tag));
        ++counts_.again;
        rank.again[tag] = {first, rank.now};
        ledger_.contribute(number, {rank.now, tag, first});
      }
    }
    for (auto [tag, open] : std::map(rank.open)) {
      if (open.round < rank.closed[tag].first) {
        close(number, tag);
        continue;
      }
      rank.open[tag].epoch = rank.now;
      ledger_.contribute(number, {rank.now, tag, open.round});
    }
  }

  void report(std::uint32_t rank, std::uint32_t epoch, RankReport report) {
    sent_.push_back({rank, epoch, std::move(report)});
  }
  // Reports of one rank come in order, those of several in any.
  void deliver_report() {
    if (sent_.empty() || !chance(2)) return;
    const std::uint32_t rank = sent_[random_() % sent_.size()].rank;
    const auto next = std::find_if(sent_.begin(), sent_.end(),
                                   [rank](const Sent& one) { return one.rank == rank; });
    coordinator_.report(rank + 1, next->epoch, next->report);
    sent_.erase(next);
  }

  const std::uint32_t seed_;
  int losses_;
  std::mt19937 random_;
  MemoryStore store_;
  Coordinator coordinator_{{}, store_};
  Nanos now_ = kNow;
  std::vector<Rank> ranks_;
  std::vector<Machine> nodes_;
  std::deque<Sent> sent_;
  std::map<std::uint32_t, std::set<NodeId>> nodes_of_;  // by epoch
  RoundLedger ledger_{ranks_.size(), [this](std::uint32_t one_in) { return chance(one_in); },
                      is_eager};
  bool has_begun_ = false;
  Counts counts_;
};

TEST(RepairSimulation, AllRanksEndAllRoundsAlike) {
  RepairSimulation::Counts sum;
  const std::string tier = testing::test_tier();
  const int seeds = tier == "fast" ? 50 : tier == "soak" ? 1000 : 150;
  for (int seed = 0; seed < seeds; ++seed) {
    RepairSimulation simulation(static_cast<std::uint32_t>(seed), 2 + seed % 3, 8);
    simulation.run();
    sum.repairs += simulation.counts().repairs;
    sum.changes += simulation.counts().changes;
    sum.again += simulation.counts().again;
    sum.closed += simulation.counts().closed;
    if (::testing::Test::HasFailure()) return;
  }
  EXPECT_GT(sum.repairs, 4 * seeds);
  EXPECT_GT(sum.changes, seeds / 4);
  EXPECT_GT(sum.again, seeds);
  EXPECT_GT(sum.closed, seeds);
}

}  // namespace
}  // namespace tally::control
