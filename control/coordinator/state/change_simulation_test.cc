// Ranks that post at random while their job's plan changes, and a coordinator, with everything that
// travels between them late, and lost where connections end. One thread, from a seed.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <random>
#include <vector>

#include "client/operations/plan_switch.h"
#include "control/coordinator/state/change.h"
#include "tests/support/control/usual_timeouts.h"
#include "tests/support/tier.h"

namespace tally::control {
namespace {

using client::PlanSwitch;

constexpr std::uint32_t kTags = 5;

struct Options {
  std::uint32_t seed = 0;
  std::uint32_t ranks = 3;
  bool faults = false;
};

class Simulation {
 public:
  explicit Simulation(Options options)
      : options_(options), random_(options.seed), ranks_(options.ranks) {}

  // `changes` one after another, while ranks post.
  void run(int changes) {
    for (int step = 0; step < 200'000; ++step) {
      if (!change_ && begun_ < changes && chance(40)) begin();
      for (std::uint32_t rank = 0; rank < options_.ranks; ++rank) turn(rank);
      coordinate();
      if (options_.faults && chance(400)) disturb();
      if (begun_ == changes && !change_ && settled()) return;
    }
    ADD_FAILURE() << "seed " << options_.seed << ": no end of it";
  }

  int completed() const { return completed_; }
  std::uint32_t newest() const { return version_; }

  // What must hold at the end where nothing went wrong.
  void expect_all_moved() const {
    for (const Rank& rank : ranks_) {
      EXPECT_EQ(rank.version, version_) << "seed " << options_.seed;
      EXPECT_TRUE(rank.held.empty());
      EXPECT_EQ(rank.plans.stage(), PlanSwitch::Stage::kSteady);
    }
  }

 private:
  struct Instruction {
    Change::Word word = Change::Word::kPrepare;
    std::uint32_t version = 0;  // of the change's
    Rounds rounds;
  };
  struct Rank {
    PlanSwitch plans;
    std::uint32_t version = 0;  // the old one, while there are two
    std::uint32_t next_version = 0;
    std::map<std::uint32_t, std::uint32_t> next;  // by tag: the round that it posts next
    std::map<std::uint32_t, std::uint32_t> open;  // by tag: that is outstanding
    std::vector<std::uint32_t> held;              // tags
    std::deque<Instruction> inbox;
    bool connected = true;
    bool over = false;  // in doubt, or gone
    bool reported_moved = false;
  };
  struct Sent {
    std::uint32_t rank = 0;
    std::uint32_t version = 0;
    Change::Report report;
    Rounds rounds;
  };

  bool chance(std::uint32_t one_in) { return random_() % one_in == 0; }

  void begin() {
    ++begun_;
    if (std::any_of(ranks_.begin(), ranks_.end(),
                    [](const Rank& rank) { return !rank.connected || rank.over; })) {
      return;  // a job that cannot change
    }
    change_.emplace(options_.ranks, now_);
    to_ = ++last_version_;
  }

  // A rank computes most of the time, and looks around or posts sometimes.
  void turn(std::uint32_t number) {
    Rank& rank = ranks_[number];
    if (rank.over || !chance(3)) return;
    if (chance(2)) post(number, static_cast<std::uint32_t>(random_() % kTags));
    if (!rank.inbox.empty() && chance(3)) follow_instruction(number);
    // The connection's end is seen after what came before it.
    if (!rank.connected && rank.inbox.empty() && !rank.plans.go_on_alone()) leave_job();
    if (!rank.plans.holds()) release(number);
    if (rank.plans.is_past() && !rank.reported_moved && none_open_by_old(rank)) {
      rank.reported_moved = true;
      report(number, Change::Report::kMoved);
    }
  }

  bool none_open_by_old(const Rank& rank) const {
    return std::none_of(rank.open.begin(), rank.open.end(),
                        [&](const auto& one) { return carried_.at(one) == rank.version; });
  }

  void post(std::uint32_t number, std::uint32_t tag) {
    Rank& rank = ranks_[number];
    const bool waits = std::find(rank.held.begin(), rank.held.end(), tag) != rank.held.end();
    if (rank.open.contains(tag) || waits || quiet()) return;
    if (rank.plans.holds()) {
      rank.held.push_back(tag);
    } else {
      send(number, tag);
    }
  }

  // At the end they finish what they have begun, so that nobody is left behind.
  bool quiet() const { return begun_ > 0 && !change_ && version_ == last_version_; }

  void send(std::uint32_t number, std::uint32_t tag) {
    Rank& rank = ranks_[number];
    const std::uint32_t round = rank.next[tag]++;
    const auto by = rank.plans.carrier(tag, round);
    ASSERT_NE(by, PlanSwitch::By::kNone);
    const bool by_next =
        rank.plans.stage() == PlanSwitch::Stage::kMoving && by == PlanSwitch::By::kNew;
    const std::uint32_t version = by_next ? rank.next_version : rank.version;
    rank.plans.posted(tag, round);
    const auto [carrier, first] = carried_.try_emplace({tag, round}, version);
    EXPECT_EQ(carrier->second, version) << "seed " << options_.seed << ": tag " << tag << " round "
                                        << round << " by two versions, rank " << number;
    rank.open[tag] = round;
    if (++posted_[{tag, round}] < options_.ranks) return;
    ++completed_;
    for (Rank& one : ranks_) one.open.erase(tag);
  }

  void release(std::uint32_t number) {
    for (const std::uint32_t tag : std::exchange(ranks_[number].held, {})) send(number, tag);
  }

  void follow_instruction(std::uint32_t number) {
    Rank& rank = ranks_[number];
    const Instruction instruction = rank.inbox.front();
    rank.inbox.pop_front();
    switch (instruction.word) {
      case Change::Word::kPrepare:
        rank.next_version = instruction.version;
        rank.plans.hold();
        return report(number, Change::Report::kReady, rank.next);
      case Change::Word::kDecided:
        rank.plans.know(instruction.rounds);
        return report(number, Change::Report::kKnows);
      case Change::Word::kGo:
        rank.reported_moved = false;
        return rank.plans.go(rank.next);
      case Change::Word::kCalledOff:
        return rank.plans.call_off();
      case Change::Word::kLeave:
        EXPECT_TRUE(none_open_by_old(rank));
        rank.plans.finish();
        rank.version = rank.next_version;
        return report(number, Change::Report::kLeft);
      case Change::Word::kEnded:
        ADD_FAILURE() << "only of repairs";
    }
  }

  void report(std::uint32_t rank, Change::Report report, Rounds rounds = {}) {
    if (!ranks_[rank].connected) return;
    sent_.push_back({rank, ranks_[rank].next_version, report, std::move(rounds)});
  }

  // Reports of one rank come in order, those of several in any.
  void coordinate() {
    ++now_;
    if (!change_) return;
    if (!sent_.empty() && chance(2)) {
      const Sent first = sent_[random_() % sent_.size()];
      const auto next = std::find_if(sent_.begin(), sent_.end(),
                                     [&](const Sent& one) { return one.rank == first.rank; });
      if (next->version == to_) change_->report(next->rank, next->report, {next->rounds});
      sent_.erase(next);
    }
    for (const Change::Instruction& one : change_->take()) {
      Rank& rank = ranks_[one.rank];
      if (rank.connected) rank.inbox.push_back({one.word, to_, change_->decision().first});
    }
    const bool at_last = change_->stage() == Change::Stage::kOver;
    if (at_last) version_ = to_;
    if (change_->ended()) change_.reset();
  }

  void disturb() {
    const std::uint32_t number = static_cast<std::uint32_t>(random_() % options_.ranks);
    switch (random_() % 4) {
      case 0:  // its connection ends; what was on its way to it may be lost
        cut(number);
        break;
      case 1:  // the coordinator ends
        for (std::uint32_t rank = 0; rank < options_.ranks; ++rank) cut(rank);
        change_.reset();
        break;
      case 2:
        if (change_) change_->tick(now_ + kChangeTimeout);
        break;
      default:
        if (change_) change_->call_off("a node refused");
    }
  }

  void cut(std::uint32_t number) {
    Rank& rank = ranks_[number];
    if (!std::exchange(rank.connected, false)) return;
    if (chance(2)) rank.inbox.clear();
    std::erase_if(sent_, [&](const Sent& one) { return one.rank == number && chance(2); });
    if (change_) change_->lost(number);
  }

  // A rank that leaves ends it for all: nobody posts any more.
  void leave_job() {
    for (Rank& rank : ranks_) rank.over = true;
    change_.reset();
  }

  bool settled() {
    if (std::any_of(ranks_.begin(), ranks_.end(), [](const Rank& rank) { return rank.over; })) {
      return true;
    }
    if (options_.faults) return ++idle_ > 2000;
    return std::all_of(ranks_.begin(), ranks_.end(),
                       [](const Rank& rank) { return rank.inbox.empty() && rank.held.empty(); });
  }

  const Options options_;
  std::mt19937 random_;
  std::vector<Rank> ranks_;
  std::optional<Change> change_;
  std::deque<Sent> sent_;
  std::map<std::pair<const std::uint32_t, std::uint32_t>, std::uint32_t> carried_;  // by version
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> posted_;  // by so many ranks
  Nanos now_ = 0;
  int begun_ = 0;
  int completed_ = 0;
  int idle_ = 0;
  std::uint32_t to_ = 0;
  std::uint32_t version_ = 0;
  std::uint32_t last_version_ = 0;
};

TEST(ChangeSimulation, OneVersionCarriesEachRound) {
  int completed = 0;
  for (std::uint32_t seed = 0; seed < 500; ++seed) {
    Simulation simulation({seed, 2 + seed % 4, false});
    simulation.run(6);
    simulation.expect_all_moved();
    EXPECT_EQ(simulation.newest(), 6U);
    completed += simulation.completed();
    if (::testing::Test::HasFailure()) return;
  }
  EXPECT_GT(completed, 20'000);
}

TEST(ChangeSimulation, OneVersionCarriesEachRoundDespiteFailures) {
  std::uint32_t moved = 0;
  const std::uint32_t seeds = testing::test_tier() == "fast" ? 400 : 2000;
  for (std::uint32_t seed = 0; seed < seeds; ++seed) {
    Simulation simulation({seed, 2 + seed % 4, true});
    simulation.run(6);
    moved += simulation.newest();
    if (::testing::Test::HasFailure()) return;
  }
  EXPECT_GT(moved, seeds / 4) << "some changes come to their end";
}

}  // namespace
}  // namespace tally::control
