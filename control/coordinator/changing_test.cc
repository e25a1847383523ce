// Jobs that get another plan while they run, as the coordinator sees it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "control/coordinator/closed_form.h"
#include "control/coordinator/coordinator_fixture.h"
#include "control/plan/star_planner.h"
#include "control/plan/test_plans.h"

namespace tally::control {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
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
    ASSERT_THAT(told(), ElementsAre(Word::kPrepare));
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

TEST_F(ChangingTest, ADrainedNodesTreesGoToTheOthers) {
  const NodeId a = join("a"), b = join("b");
  run_job({a, b});
  ASSERT_TRUE(coordinator_->drain("b", false, now_).ok());
  const auto at_a = news(a);
  ASSERT_EQ(at_a.placements.size(), 1U);
  EXPECT_EQ(at_a.placements[0].follows, first_);
  EXPECT_THAT(at_a.placements[0].trees, ElementsAre(0, 1));
  EXPECT_THAT(news(b).placements, IsEmpty());
  EXPECT_THAT(waiting("b"), HasSubstr("waits for \"a\" to take its new trees"));
  EXPECT_THAT(told(), IsEmpty());
  coordinator_->report(a, {at_a.placements[0].id, false, ""});
  EXPECT_THAT(told(), ElementsAre(Word::kPrepare));
  EXPECT_EQ(last_.version.nodes.size(), 1U);
  EXPECT_EQ(last_.version.nodes[0].member.name, "a");
  EXPECT_GT(next_, first_);
  coordinator_->say(1, next_, Report::kReady, {{7, 3}});
  EXPECT_EQ(waiting("b"), "waits for rank 1 to make ready for its new plan");
  coordinator_->say(2, next_, Report::kReady, {{7, 4}});
  EXPECT_THAT(told(), ElementsAre(Word::kDecided));
  EXPECT_EQ(last_.rounds, (Rounds{{7, 4}}));
  EXPECT_EQ(epoch(), first_);
  both_say(Report::kKnows);
  EXPECT_THAT(told(), ElementsAre(Word::kGo));
  EXPECT_EQ(epoch(), next_);
  both_say(Report::kMoved);
  EXPECT_THAT(told(), ElementsAre(Word::kLeave));
  EXPECT_EQ(coordinator_->jobs_at(b), 1U);
  coordinator_->say(1, next_, Report::kLeft, {});
  EXPECT_EQ(waiting("b"), "waits for rank 1 to close their sessions of its old plan");
  coordinator_->say(2, next_, Report::kLeft, {});
  EXPECT_EQ(coordinator_->jobs_at(b), 0U);
  EXPECT_EQ(waiting("b"), "");
  EXPECT_EQ(news(b).withdraw.size(), 1U);
  EXPECT_EQ(news(a).withdraw.size(), 1U);
  // A job that forms now has no trees there.
  coordinator_->open(5, opening(0, "other", "", 1), now_);
  EXPECT_EQ(news(a).placements.size(), 1U);
  EXPECT_THAT(news(b).placements, IsEmpty());
}

TEST_F(ChangingTest, WhatANodeRefusesLeavesThePlanAsItIs) {
  const NodeId a = join("a"), b = join("b");
  run_job({a, b});
  ASSERT_TRUE(coordinator_->drain("b", false, now_).ok());
  const auto at_a = news(a);
  coordinator_->report(a, {at_a.placements[0].id, false, "no room"});
  EXPECT_THAT(told(), IsEmpty()) << "no rank has heard of it";
  EXPECT_EQ(epoch(), first_);
  EXPECT_THAT(waiting("b"), HasSubstr("node \"a\": no room"));
  EXPECT_TRUE(coordinator_->drained("b")->waiting[0].gave_up);
  begin_drain("b", {a});  // once more
}

TEST_F(ChangingTest, ARankThatIsLostCallsItOff) {
  const NodeId a = join("a"), b = join("b");
  run_job({a, b});
  begin_drain("b", {a});
  coordinator_->say(1, next_, Report::kReady, {});
  coordinator_->close(2);
  EXPECT_THAT(told(), ElementsAre(Word::kCalledOff));
  EXPECT_THAT(last_.why, HasSubstr("rank 1"));
  EXPECT_EQ(epoch(), first_);
  EXPECT_EQ(news(a).withdraw.size(), 1U) << "the version that never was";
  EXPECT_THAT(news(b).withdraw, IsEmpty());
  coordinator_->say(1, next_, Report::kKnows, {});  // too late
  EXPECT_THAT(told(), IsEmpty());
}

TEST_F(ChangingTest, ARankThatCannotOrDoesNotAnswerCallsItOff) {
  const NodeId a = join("a"), b = join("b");
  run_job({a, b});
  begin_drain("b", {a});
  coordinator_->cannot(2, next_, "no memory");
  EXPECT_THAT(told(), ElementsAre(Word::kCalledOff));
  EXPECT_EQ(waiting("b"), "rank 1: no memory");
  news(a);
  begin_drain("b", {a});
  coordinator_->say(2, next_, Report::kReady, {});
  EXPECT_LE(coordinator_->next_deadline(), now_ + kChangePatience);
  for (const Nanos until = now_ + kChangePatience; now_ < until;) {
    now_ += 5 * kSecond;
    news(a);
    news(b);
  }
  EXPECT_THAT(told(), ElementsAre(Word::kCalledOff));
  EXPECT_THAT(waiting("b"), HasSubstr("no answer of rank 0 within 30 s"));
  EXPECT_EQ(epoch(), first_);
}

TEST_F(ChangingTest, RanksThatDoNotListenKeepTheirPlan) {
  const NodeId a = join("a"), b = join("b");
  coordinator_->open(1, opening(0), now_);
  coordinator_->open(2, opening(1), now_);
  serve(a);
  serve(b);
  act();
  coordinator_->listen(1);
  ASSERT_TRUE(coordinator_->drain("b", false, now_).ok());
  EXPECT_THAT(news(a).placements, IsEmpty());
  EXPECT_THAT(waiting("b"), HasSubstr("rank 1 cannot be told of a new plan"));
  coordinator_->listen(2);
  EXPECT_EQ(news(a).placements.size(), 1U) << "as soon as it can be";
}

TEST_F(ChangingTest, AJobThatEndsMeanwhileEndsInAllItsVersions) {
  for (const bool gone : {false, true}) {
    const NodeId a = join("a"), b = join("b");
    run_job({a, b});
    begin_drain("b", {a});
    if (gone) {
      both_say(Report::kReady);
      told();
      both_say(Report::kKnows);
      ASSERT_THAT(told(), ElementsAre(Word::kGo));
    }
    coordinator_->leave(gone ? a : b, "its cable was cut");
    const auto words = told();
    EXPECT_EQ(words.size(), gone ? 0U : 1U);
    EXPECT_TRUE(gone || words[0] == Word::kCalledOff) << "posts are held back";
    EXPECT_EQ(epoch(), 0U);
    EXPECT_EQ(news(gone ? b : a).withdraw.size(), gone ? 1U : 2U);
    coordinator_->close(1);
    coordinator_->close(2);
    coordinator_.emplace(options_, store_ = MemoryStore());
    answers_.clear();
    told_.clear();
  }
}

// Two workers; a star at "a" and one at "b", or a tree of both with "c" above them.
MachinePlan plan_of(std::vector<plan::Tree> trees) {
  auto list = plan::equal_machines(2, 3, 1e9);
  const char* const names[] = {"w0", "w1", "a", "b", "c"};
  for (std::size_t i = 0; i < list.size(); ++i) list[i].name = names[i];
  MachinePlan made;
  made.file.network = plan::star_network(list);
  plan::Domain& domain = made.file.domains.emplace_back();
  domain.name = "all";
  domain.workers = {0, 1};
  domain.classes = {{{}, 65536, 0, std::move(trees)}};
  return made;
}

MachinePlan two_stars() {
  return plan_of({{49152, {2, 2, -1, -2, -2}, {}}, {16384, {3, 3, -2, -1, -2}, {}}});
}

MachinePlan two_levels() {
  return plan_of({{65536, {2, 3, 4, 4, -1}, {}}});
}

TEST_F(ChangingTest, ASubstituteHasTheTreesWhileANodeIsDrained) {
  const NodeId a = join("a"), b = join("b"), c = join("c");
  ASSERT_TRUE(coordinator_->set_plan("", two_stars(), now_).ok());
  run_job({a, b});
  const auto plan = coordinator_->current("train")->plan.classes.back().weights;
  begin_drain("b", {a, c});
  ASSERT_EQ(last_.version.nodes.size(), 2U);
  EXPECT_EQ(last_.version.nodes[1].member.name, "c");
  EXPECT_THAT(last_.version.nodes[1].trees, ElementsAre(2, 3));
  EXPECT_THAT(last_.version.nodes[1].stands_in_for, ElementsAre("b"));
  EXPECT_EQ(last_.version.plan.classes.back().weights, plan);
  go_over();
  EXPECT_EQ(coordinator_->jobs_at(b), 0U);
  EXPECT_THAT(coordinator_->stood_in_for(c), ElementsAre("b"));
  for (const NodeId node : {a, b, c}) news(node);
  ASSERT_TRUE(coordinator_->drain("b", true, now_).ok());
  for (const NodeId node : {a, b}) serve(node);
  ASSERT_THAT(told(), ElementsAre(Word::kPrepare)) << "it has them back";
  EXPECT_EQ(last_.version.nodes[1].member.name, "b");
  go_over();
  EXPECT_THAT(coordinator_->stood_in_for(c), IsEmpty());
}

TEST_F(ChangingTest, TreesOfTwoLevelsChangeWhenAllTheirNodesHaveThem) {
  const NodeId a = join("a"), b = join("b"), c = join("c"), d = join("d");
  ASSERT_TRUE(coordinator_->set_plan("", two_levels(), now_).ok());
  run_job({a, b, c});
  ASSERT_TRUE(coordinator_->drain("b", false, now_).ok());
  const auto at_d = news(d);
  ASSERT_EQ(at_d.placements.size(), 1U);
  const Placement& substitute = at_d.placements[0];
  EXPECT_EQ(substitute.follows, first_);
  EXPECT_THAT(substitute.vertices.at(0).ranks, ElementsAre(1));
  EXPECT_EQ(substitute.above.at(substitute.vertices[0].parent).name, "c");
  EXPECT_THAT(news(b).placements, IsEmpty());
  // It has its uplinks; the one above it has said nothing yet.
  coordinator_->report(d, {substitute.id, false, ""});
  serve(a);
  EXPECT_THAT(told(), IsEmpty());
  EXPECT_THAT(waiting("b"), HasSubstr("waits for \"c\" to take its new trees"));
  const auto at_c = news(c);
  ASSERT_EQ(at_c.placements.size(), 1U);
  EXPECT_THAT(
      at_c.placements[0].below,
      ElementsAre(Neighbour{"a", "tcp:a:7733", "", 0, 1}, Neighbour{"d", "tcp:d:7733", "", 0, 3},
                  Neighbour{"a", "tcp:a:7733", "", 1, 1}, Neighbour{"d", "tcp:d:7733", "", 1, 3}));
  coordinator_->report(c, {at_c.placements[0].id, false, ""});
  ASSERT_THAT(told(), ElementsAre(Word::kPrepare));
  go_over();
  for (const NodeId node : {a, b, c, d}) news(node);
  // To stars, and back.
  ASSERT_TRUE(coordinator_->set_plan("", two_stars(), now_).ok());
  coordinator_->replan("");
  for (const NodeId node : {a, c, d}) serve(node);
  ASSERT_THAT(told(), ElementsAre(Word::kPrepare));
  go_over();
  for (const NodeId node : {a, c, d}) news(node);
  ASSERT_TRUE(coordinator_->set_plan("", two_levels(), now_).ok());
  coordinator_->replan("");
  for (const NodeId node : {a, c, d}) serve(node);
  EXPECT_THAT(told(), ElementsAre(Word::kPrepare));
}

TEST_F(ChangingTest, WhatIsLostOfTheVersionBeforeDoesNotTouchTheNext) {
  const NodeId a = join("a"), b = join("b"), c = join("c"), d = join("d");
  ASSERT_TRUE(coordinator_->set_plan("", two_levels(), now_).ok());
  run_job({a, b, c});
  const std::vector<PlanNode> before = coordinator_->current("train")->nodes;
  begin_drain("b", {a, c, d});
  for (const Report report : {Report::kReady, Report::kKnows}) {
    both_say(report);
    told();
  }
  ASSERT_EQ(epoch(), next_);
  // At "c" the uplink of "a" has broken; "b" is stopped before it has been let go of.
  for (const PlanNode& node : before) {
    if (node.node == c) coordinator_->report(c, {node.placement, true, ""});
  }
  coordinator_->leave(b, "somebody could not wait");
  EXPECT_EQ(epoch(), next_);
  for (const Report report : {Report::kMoved, Report::kLeft}) {
    both_say(report);
    told();
  }
  EXPECT_EQ(epoch(), next_);
  for (const NodeId node : {a, c, d}) EXPECT_EQ(coordinator_->jobs_at(node), 1U);
  EXPECT_EQ(news(a).withdraw.size(), 1U) << "of the version before";
}

TEST_F(ChangingTest, ANodeThatCannotReachTheOneAboveItCallsItOff) {
  const NodeId a = join("a"), b = join("b"), c = join("c"), d = join("d");
  ASSERT_TRUE(coordinator_->set_plan("", two_levels(), now_).ok());
  run_job({a, b, c});
  ASSERT_TRUE(coordinator_->drain("b", false, now_).ok());
  serve(a);
  serve(c);
  const auto at_d = news(d);
  coordinator_->report(d, {at_d.placements.at(0).id, false, "the node above it, \"c\": no answer"});
  EXPECT_THAT(told(), IsEmpty());
  EXPECT_THAT(waiting("b"), HasSubstr("node \"d\": the node above it, \"c\": no answer"));
  EXPECT_EQ(epoch(), first_);
  EXPECT_EQ(news(c).withdraw.size(), 1U) << "of the new version alone";
}

TEST_F(ChangingTest, WithoutASubstituteThePlanStays) {
  const NodeId a = join("a"), b = join("b"), c = join("c");
  ASSERT_TRUE(coordinator_->set_plan("", two_levels(), now_).ok());
  run_job({a, b, c});
  ASSERT_TRUE(coordinator_->drain("b", false, now_).ok());
  EXPECT_THAT(news(a).placements, IsEmpty());
  EXPECT_THAT(waiting("b"),
              HasSubstr("\"b\" is drained or has left, and nobody can stand in for it in a tree of "
                        "the plan; \"a\" sums in it already; \"c\" sums in it already"));
  EXPECT_THAT(waiting("b"), HasSubstr("it keeps the plan that it has"));
}

TEST_F(ChangingTest, ManyNodesThatJoinMakeOneVersion) {
  const NodeId a = join("a");
  run_job({a});
  now_ += kSecond;
  const auto b = coordinator_->join(member("b"), "", 0, now_);
  now_ += kCalm / 2;
  const auto c = coordinator_->join(member("c"), "", 0, now_);
  coordinator_->listen(*b, now_ + kHold);
  coordinator_->listen(*c, now_ + kHold);
  now_ += kCalm - 1;
  EXPECT_THAT(news(*b).placements, IsEmpty());
  EXPECT_EQ(coordinator_->next_deadline(), now_ + 1);
  now_ += 1;
  for (const NodeId node : {a, *b, *c}) {
    const auto told = news(node);
    ASSERT_EQ(told.placements.size(), 1U);
    EXPECT_EQ(told.placements[0].nodes, 3U);
    coordinator_->report(node, {told.placements[0].id, false, ""});
  }
  EXPECT_THAT(told(), ElementsAre(Word::kPrepare));
}

TEST_F(ChangingTest, NicsThatComeAndGoAreUsedWhenTheyHaveSettled) {
  Member two = member("a");
  two.rails = {{.address = "10.0.0.1", .tcp = "tcp:10.0.0.1:7733", .speed = 100, .shards = 1},
               {.address = "10.0.1.1", .tcp = "tcp:10.0.1.1:7733", .speed = 100, .shards = 1}};
  const auto joined = coordinator_->join(two, "", 0, now_);
  ASSERT_TRUE(joined.ok());
  const NodeId a = *joined, b = join("b");
  coordinator_->listen(a, now_ + kHold);
  run_job({a, b});
  const auto rails_of = [](const Coordinator::News& told) {
    return told.placements.empty() ? std::vector<std::uint32_t>{99} : told.placements[0].rails;
  };
  const auto go_over = [&] {
    for (const NodeId node : {a, b}) serve(node);
    for (const Report report : {Report::kReady, Report::kKnows, Report::kMoved, Report::kLeft}) {
      told();
      both_say(report);
    }
    news(a), news(b);
  };
  auto rails = two.rails;
  rails[1].up = false;
  coordinator_->set_rails(a, rails, now_);
  now_ += kCalm - 1;
  EXPECT_THAT(news(a).placements, IsEmpty());
  coordinator_->set_rails(a, rails, now_);  // says nothing new
  EXPECT_EQ(coordinator_->next_deadline(), now_ + 1);
  now_ += 1;
  const auto lost = news(a);
  EXPECT_THAT(rails_of(lost), ElementsAre(0));
  ASSERT_EQ(lost.placements.size(), 1U);
  EXPECT_EQ(lost.placements[0].follows, first_);
  coordinator_->report(a, {lost.placements[0].id, false, ""});
  go_over();
  EXPECT_EQ(epoch(), next_);
  coordinator_->set_rails(a, two.rails, now_);
  EXPECT_THAT(news(a).placements, IsEmpty());
  now_ += kCalm;
  EXPECT_THAT(rails_of(news(a)), ElementsAre(0, 1));
}

TEST_F(ChangingTest, WhatIsSetWithoutNowWaitsThoughNodesJoin) {
  const NodeId a = join("a");
  run_job({a});
  MachinePlan stars;
  stars.file = closed_form_plan(coordinator_->usable_members());
  stars.file.epoch = 4;
  ASSERT_TRUE(coordinator_->set_plan("", stars, now_).ok());
  const auto b = coordinator_->join(member("b"), "", 0, now_);
  coordinator_->listen(*b, now_ + kHold);
  now_ += kCalm;
  EXPECT_THAT(news(*b).placements, IsEmpty());
  EXPECT_EQ(coordinator_->current("train")->plan_epoch, 0U);
  coordinator_->replan("");
  EXPECT_THAT(news(a).placements, IsEmpty()) << "the same trees";
  EXPECT_EQ(coordinator_->current("train")->plan_epoch, 4U);
}

TEST_F(ChangingTest, WhatIsWantedMeanwhileComesAfterwards) {
  const NodeId a = join("a"), b = join("b"), c = join("c");
  run_job({a, b, c});
  begin_drain("c", {a, b});
  ASSERT_TRUE(coordinator_->drain("b", false, now_).ok());
  for (const Report report : {Report::kReady, Report::kKnows, Report::kMoved}) {
    both_say(report);
    told();
  }
  EXPECT_THAT(news(a).placements, IsEmpty()) << "one after the other";
  both_say(Report::kLeft);
  const auto at_a = news(a);
  ASSERT_EQ(at_a.placements.size(), 1U);
  EXPECT_EQ(at_a.placements[0].follows, next_);
  EXPECT_EQ(at_a.placements[0].nodes, 1U);
}

TEST_F(ChangingTest, TheLastNodeIsNotDrained) {
  join("a");
  join("b");
  ASSERT_TRUE(coordinator_->drain("a", false, now_).ok());
  EXPECT_THAT(coordinator_->drain("b", false, now_).error().message,
              HasSubstr("\"b\" is the last node that can have trees: start another"));
  EXPECT_THAT(coordinator_->drain("nobody", false, now_).error().message,
              HasSubstr("no member \"nobody\""));
  ASSERT_TRUE(coordinator_->drain("a", true, now_).ok());
  EXPECT_TRUE(coordinator_->drain("b", false, now_).ok());
}

}  // namespace
}  // namespace tally::control
