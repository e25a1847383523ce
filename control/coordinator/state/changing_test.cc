// Jobs that get another plan while they run, as the coordinator sees it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "control/coordinator/layout/closed_form.h"
#include "tests/support/control/changing_fixture.h"

namespace tally::control {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST_F(ChangingTest, TheTreesOfADrainedNodeGoToOtherNodes) {
  const NodeId a = join("a"), b = join("b");
  run_job({a, b});
  ASSERT_TRUE(coordinator_->drain("b", false, now_).ok());
  const auto at_a = news(a);
  ASSERT_EQ(at_a.placements.size(), 1U);
  EXPECT_EQ(at_a.placements[0].follows, first_);
  EXPECT_THAT(at_a.placements[0].trees, ElementsAre(0, 1));
  EXPECT_THAT(news(b).placements, IsEmpty());
  EXPECT_THAT(waiting("b"), HasSubstr("waits for \"a\" to take its new trees"));
  EXPECT_THAT(instructions(), IsEmpty());
  coordinator_->report(a, {at_a.placements[0].id, false, ""});
  EXPECT_THAT(instructions(), ElementsAre(Word::kPrepare));
  EXPECT_EQ(last_.version->nodes.size(), 1U);
  EXPECT_EQ(last_.version->nodes[0].member.name, "a");
  EXPECT_GT(next_, first_);
  coordinator_->report(1, next_, {Report::kReady, {{{7, 3}}}});
  EXPECT_EQ(waiting("b"), "waits for rank 1 to make ready for its new plan");
  coordinator_->report(2, next_, {Report::kReady, {{{7, 4}}}});
  EXPECT_THAT(instructions(), ElementsAre(Word::kDecided));
  EXPECT_EQ(last_.decision.first, (Rounds{{7, 4}}));
  EXPECT_EQ(epoch(), first_);
  both_report(Report::kKnows);
  EXPECT_THAT(instructions(), ElementsAre(Word::kGo));
  EXPECT_EQ(epoch(), next_);
  both_report(Report::kMoved);
  EXPECT_THAT(instructions(), ElementsAre(Word::kLeave));
  EXPECT_EQ(coordinator_->jobs().load_of(b).jobs, 1U);
  coordinator_->report(1, next_, {Report::kLeft});
  EXPECT_EQ(waiting("b"), "waits for rank 1 to close their sessions of its old plan");
  coordinator_->report(2, next_, {Report::kLeft});
  EXPECT_EQ(coordinator_->jobs().load_of(b).jobs, 0U);
  EXPECT_EQ(waiting("b"), "");
  EXPECT_EQ(news(b).withdraw.size(), 1U);
  EXPECT_EQ(news(a).withdraw.size(), 1U);
  EXPECT_THAT(instructions(), IsEmpty()) << "the change is over before its nodes have let go";
  // A job that forms now has no trees there.
  coordinator_->open(5, opening(0, "other", "", 1), now_);
  EXPECT_EQ(news(a).placements.size(), 1U);
  EXPECT_THAT(news(b).placements, IsEmpty());
}

TEST_F(ChangingTest, ARefusalOfANodeKeepsThePlan) {
  const NodeId a = join("a"), b = join("b");
  run_job({a, b});
  ASSERT_TRUE(coordinator_->drain("b", false, now_).ok());
  const auto at_a = news(a);
  coordinator_->report(a, {at_a.placements[0].id, false, "no room"});
  EXPECT_THAT(instructions(), IsEmpty()) << "no rank has heard of it";
  EXPECT_EQ(epoch(), first_);
  EXPECT_THAT(waiting("b"), HasSubstr("node \"a\": no room"));
  EXPECT_TRUE(coordinator_->drained("b")->waiting[0].gave_up);
  begin_drain("b", {a});  // once more
}

TEST_F(ChangingTest, ALostRankCallsTheChangeOff) {
  const NodeId a = join("a"), b = join("b");
  run_job({a, b});
  begin_drain("b", {a});
  coordinator_->report(1, next_, {Report::kReady});
  coordinator_->close(2);
  EXPECT_THAT(instructions(), ElementsAre(Word::kCalledOff));
  EXPECT_THAT(last_.why, HasSubstr("rank 1"));
  EXPECT_EQ(epoch(), first_);
  EXPECT_EQ(news(a).withdraw.size(), 1U) << "the version that never was";
  EXPECT_THAT(news(b).withdraw, IsEmpty());
  coordinator_->report(1, next_, {Report::kKnows});  // too late
  EXPECT_THAT(instructions(), IsEmpty());
}

TEST_F(ChangingTest, ARankThatCannotChangeOrDoesNotAnswerCallsTheChangeOff) {
  const NodeId a = join("a"), b = join("b");
  run_job({a, b});
  begin_drain("b", {a});
  coordinator_->report(2, next_, {Report::kCannot, {}, "no memory"});
  EXPECT_THAT(instructions(), ElementsAre(Word::kCalledOff));
  EXPECT_EQ(waiting("b"), "rank 1: no memory");
  news(a);
  begin_drain("b", {a});
  coordinator_->report(2, next_, {Report::kReady});
  EXPECT_LE(coordinator_->next_deadline(), now_ + kChangeTimeout);
  for (const Nanos until = now_ + kChangeTimeout; now_ < until;) {
    now_ += 5 * kSecond;
    news(a);
    news(b);
  }
  EXPECT_THAT(instructions(), ElementsAre(Word::kCalledOff));
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
      both_report(Report::kReady);
      instructions();
      both_report(Report::kKnows);
      ASSERT_THAT(instructions(), ElementsAre(Word::kGo));
    }
    coordinator_->leave(gone ? a : b, "its cable was cut");
    const auto words = instructions();
    EXPECT_EQ(words.size(), gone ? 0U : 1U);
    EXPECT_TRUE(gone || words[0] == Word::kCalledOff) << "posts are held back";
    EXPECT_EQ(epoch(), 0U);
    EXPECT_EQ(news(gone ? b : a).withdraw.size(), gone ? 1U : 2U);
    coordinator_->close(1);
    coordinator_->close(2);
    coordinator_.emplace(options_, store_ = MemoryStore());
    answers_.clear();
    sent_.clear();
  }
}

TEST_F(ChangingTest, ANodeThatEndsWithBothVersionsIsNotWaitedFor) {
  const NodeId a = join("a"), b = join("b"), c = join("c");
  run_job({a, b, c});
  begin_drain("b", {a, c});
  coordinator_->leave(a, "its cable was cut");
  act();
  EXPECT_THAT(lost_, IsEmpty());
  EXPECT_GT(coordinator_->next_deadline(), now_);
}

TEST_F(ChangingTest, ManyNodesThatJoinMakeOneVersion) {
  const NodeId a = join("a");
  run_job({a});
  now_ += kSecond;
  const auto b = coordinator_->join(member("b"), 0, now_);
  now_ += kCalm / 2;
  const auto c = coordinator_->join(member("c"), 0, now_);
  coordinator_->listen(*b, now_ + kHold);
  coordinator_->listen(*c, now_ + kHold);
  now_ += kCalm - 1;
  EXPECT_THAT(news(*b).placements, IsEmpty());
  EXPECT_EQ(coordinator_->next_deadline(), now_ + 1);
  now_ += 1;
  for (const NodeId node : {a, *b, *c}) {
    const auto sent = news(node);
    ASSERT_EQ(sent.placements.size(), 1U);
    EXPECT_EQ(sent.placements[0].nodes, 3U);
    coordinator_->report(node, {sent.placements[0].id, false, ""});
  }
  EXPECT_THAT(instructions(), ElementsAre(Word::kPrepare));
}

TEST_F(ChangingTest, ChangedNicsAreUsedAfterTheyAreStable) {
  Member two = member("a");
  two.rails = {{.address = "10.0.0.1", .tcp = "tcp:10.0.0.1:7733", .speed = 100, .shards = 1},
               {.address = "10.0.1.1", .tcp = "tcp:10.0.1.1:7733", .speed = 100, .shards = 1}};
  const auto joined = coordinator_->join(two, 0, now_);
  ASSERT_TRUE(joined.ok());
  const NodeId a = *joined, b = join("b");
  coordinator_->listen(a, now_ + kHold);
  run_job({a, b});
  const auto rails_of = [](const Coordinator::News& sent) {
    return sent.placements.empty() ? std::vector<std::uint32_t>{99} : sent.placements[0].rails;
  };
  const auto go_over = [&] {
    for (const NodeId node : {a, b}) serve(node);
    for (const Report report : {Report::kReady, Report::kKnows, Report::kMoved, Report::kLeft}) {
      instructions();
      both_report(report);
    }
    news(a), news(b);
  };
  auto rails = two.rails;
  rails[1].up = false;
  coordinator_->set_rails(a, rails, now_);
  now_ += kCalm - 1;
  EXPECT_THAT(news(a).placements, IsEmpty());
  coordinator_->set_rails(a, rails, now_);  // changes nothing
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

TEST_F(ChangingTest, APlanThatIsSetWaitsForReplanThoughNodesJoin) {
  const NodeId a = join("a");
  run_job({a});
  MachinePlan stars;
  stars.file = closed_form_plan(coordinator_->members().usable());
  stars.file.epoch = 4;
  ASSERT_TRUE(coordinator_->set_plan("", stars, now_).ok());
  const auto b = coordinator_->join(member("b"), 0, now_);
  coordinator_->listen(*b, now_ + kHold);
  now_ += kCalm;
  EXPECT_THAT(news(*b).placements, IsEmpty());
  EXPECT_EQ(coordinator_->jobs().current("train")->plan_epoch, 0U);
  coordinator_->replan("");
  EXPECT_THAT(news(a).placements, IsEmpty()) << "the same trees";
  EXPECT_EQ(coordinator_->jobs().current("train")->plan_epoch, 4U);
}

TEST_F(ChangingTest, ADrainKeepsTheJobsPlanThoughAnotherWasSet) {
  const NodeId a = join("a"), b = join("b"), c = join("c");
  run_job({a, b, c});
  MachinePlan alone;
  alone.file = closed_form_plan({{a, member("a")}});
  alone.file.epoch = 4;
  ASSERT_TRUE(coordinator_->set_plan("", alone, now_).ok());
  ASSERT_TRUE(coordinator_->drain("b", false, now_).ok());
  const auto by_the_closed_form = news(a);
  ASSERT_EQ(by_the_closed_form.placements.size(), 1U);
  EXPECT_EQ(by_the_closed_form.placements[0].nodes, 2U);
  coordinator_->report(a, {by_the_closed_form.placements[0].id, false, ""});
  serve(c);
  ASSERT_THAT(instructions(), ElementsAre(Word::kPrepare));
  go_over();
  EXPECT_EQ(coordinator_->jobs().current("train")->plan_epoch, 0U);
  news(a);
  coordinator_->replan("train");
  const auto as_set = news(a);
  ASSERT_EQ(as_set.placements.size(), 1U);
  EXPECT_EQ(as_set.placements[0].nodes, 1U);
}

TEST_F(ChangingTest, ADrainDuringAChangeFollowsTheChange) {
  const NodeId a = join("a"), b = join("b"), c = join("c");
  run_job({a, b, c});
  begin_drain("c", {a, b});
  ASSERT_TRUE(coordinator_->drain("b", false, now_).ok());
  for (const Report report : {Report::kReady, Report::kKnows, Report::kMoved}) {
    both_report(report);
    instructions();
  }
  EXPECT_THAT(news(a).placements, IsEmpty()) << "one after the other";
  both_report(Report::kLeft);
  const auto at_a = news(a);
  ASSERT_EQ(at_a.placements.size(), 1U);
  EXPECT_EQ(at_a.placements[0].follows, next_);
  EXPECT_EQ(at_a.placements[0].nodes, 1U);
}

TEST_F(ChangingTest, RefusesToDrainTheLastNode) {
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
