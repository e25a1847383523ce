#include "client/operations/post_placement.h"

#include <gtest/gtest.h>

namespace tally::client {
namespace {

using By = PlanSwitch::By;

constexpr std::uint16_t kRank = 1;

// Credit for one operation in each book, and for two posts that wait.
class PostPlacementTest : public ::testing::Test {
 protected:
  static BookConfig config() {
    BookConfig config;
    config.partition = protocol::even_partition(1, 1 << 20);
    config.rank = kRank;
    config.ranks = 2;
    config.credit = 1;
    return config;
  }
  Books books() { return {plans_, now_, old_set_ ? &old_ : nullptr, 2}; }
  PlacedPost place(std::uint32_t tag, Nanos now = 0) {
    wire::Notice notice;
    notice.tag = tag;
    notice.count = 16;
    notice.deadline_ms = 1000;
    out_.clear();
    return posts_.place(books(), notice, tag + 100, now, out_);
  }
  std::optional<PlacedPost> place_waiting(std::size_t& at) {
    out_.clear();
    return posts_.place_waiting(books(), at, 0, out_);
  }
  // Ends the operation of the last notice.
  static void end_last(OperationBook& book, const std::vector<Outbound>& sent) {
    wire::Completion completion;
    completion.tag = sent[0].notice.tag;
    completion.round = sent[0].notice.round;
    completion.cookie = sent[0].notice.cookie;
    std::vector<Outbound> none;
    ASSERT_EQ(book.complete(0, completion, none), Status::kOk);
  }
  // All ranks know that the new version carries tag 7 from round 1 on.
  void move() {
    plans_.hold();
    plans_.know({{7, 1}});
    plans_.go({});
    now_.begin_at(7, 1);
    old_set_ = true;
  }

  PlanSwitch plans_;
  OperationBook now_{config()}, old_{config()};
  bool old_set_ = false;
  PostPlacement posts_{kRank};
  std::vector<Outbound> out_;
  Finished finished_;
};

TEST_F(PostPlacementTest, WithoutAChangeTheBookCarriesThePost) {
  const PlacedPost placed = place(7, 5 * kSecond);
  EXPECT_EQ(placed.status, Status::kOk);
  EXPECT_EQ(placed.by, By::kNew);
  EXPECT_EQ(placed.user, 107U);
  EXPECT_EQ(out_.size(), 1U);
  EXPECT_EQ(now_.earliest_until(0), 11 * kSecond) << "the deadline, and time for the verdict";
  EXPECT_EQ(place(7).status, Status::kDuplicate);
  EXPECT_EQ(place(8).status, Status::kNoCredit);
}

TEST_F(PostPlacementTest, HoldsPostsDuringAChange) {
  plans_.hold();
  EXPECT_EQ(place(7).by, By::kNone);
  EXPECT_TRUE(out_.empty());
  EXPECT_TRUE(posts_.waits(7));
  EXPECT_EQ(place(7).status, Status::kDuplicate);
  EXPECT_EQ(place(8).status, Status::kOk);
  EXPECT_EQ(place(9).status, Status::kNoCredit);
  EXPECT_EQ(posts_.waiting(), 2U);
  std::size_t at = 0;
  EXPECT_FALSE(place_waiting(at));
  plans_.call_off();
  const auto first = place_waiting(at);
  ASSERT_TRUE(first);
  EXPECT_EQ(first->user, 107U) << "the oldest";
  EXPECT_FALSE(place_waiting(at)) << "no credit";
  EXPECT_TRUE(posts_.waits(8));
  EXPECT_EQ(place(8).status, Status::kDuplicate) << "it still waits";
}

TEST_F(PostPlacementTest, TheVersionOfTheRoundCarriesThePost) {
  move();
  const PlacedPost placed = place(7);
  EXPECT_EQ(placed.by, By::kOld);
  EXPECT_EQ(placed.round, 0U);
  EXPECT_TRUE(plans_.is_past());
  EXPECT_EQ(place(7).status, Status::kDuplicate) << "in the old book";
  EXPECT_EQ(place(9).by, By::kNew);
  const auto sent = out_;
  end_last(now_, sent);
  EXPECT_EQ(place(7).status, Status::kDuplicate);
}

// A post without credit does not keep later posts from another version.
TEST_F(PostPlacementTest, PassesOverAPostWithoutCredit) {
  ASSERT_EQ(place(5).status, Status::kOk);
  const auto sent = out_;
  plans_.hold();
  ASSERT_EQ(place(9).by, By::kNone);
  ASSERT_EQ(place(7).by, By::kNone);
  move();
  std::size_t at = 0;
  const auto placed = place_waiting(at);
  ASSERT_TRUE(placed);
  EXPECT_EQ(placed->user, 107U);
  EXPECT_EQ(placed->by, By::kOld);
  EXPECT_FALSE(place_waiting(at));
  end_last(now_, sent);
  at = 0;
  EXPECT_EQ(place_waiting(at)->user, 109U);
  EXPECT_EQ(posts_.waiting(), 0U);
}

TEST_F(PostPlacementTest, PostsEndWithoutABook) {
  plans_.hold();
  const std::uint32_t round = place(7).round;
  place(8);
  EXPECT_FALSE(posts_.cancel(9));
  EXPECT_TRUE(posts_.cancel(7));
  EXPECT_FALSE(posts_.cancel(7));
  ASSERT_TRUE(posts_.take(finished_));
  EXPECT_EQ(finished_.verdict.status, Status::kCancelled);
  EXPECT_EQ(finished_.verdict.culprit, kRank);
  EXPECT_EQ(finished_.round, round);
  posts_.end_waiting(Status::kNodeLost);
  EXPECT_EQ(posts_.waiting(), 0U);
  ASSERT_TRUE(posts_.take(finished_));
  EXPECT_EQ(finished_.verdict.status, Status::kNodeLost);
  EXPECT_EQ(finished_.user, 108U);
  EXPECT_FALSE(posts_.take(finished_));
}

TEST_F(PostPlacementTest, TakesFinishedOperationsOver) {
  place(7);
  end_last(now_, out_);
  posts_.take_over(now_);
  EXPECT_FALSE(now_.has_finished());
  EXPECT_TRUE(posts_.has_ended());
  ASSERT_TRUE(posts_.take(finished_));
  EXPECT_EQ(finished_.user, 107U);
}

// A rank with an interrupted operation of tags 7 and 8, each of round 0, that waits for a repair.
class InterruptedPostsTest : public PostPlacementTest {
 protected:
  InterruptedPostsTest() {
    for (const std::uint32_t tag : {7, 8}) {
      Interrupted one;
      one.notice.tag = tag;
      one.notice.count = 16;
      one.user = tag + 100;
      interrupted_.push_back(one);
      now_.begin_at(tag, 0);
    }
    plans_.interrupt();
    posts_.hold(interrupted_);
  }
  void repair(const RoundDecision& decided, bool safe = true) {
    const RoundsByTag own = now_.rounds();
    plans_.know(decided.first);
    plans_.repaired();
    for (const auto& [tag, first] : decided.first) now_.begin_at(tag, first);
    posts_.close_rounds(decided, own, [safe](std::uint64_t) { return safe; });
  }
  Status ended(std::uint64_t user) {
    Finished finished;
    if (!posts_.take(finished)) return Status::kAgain;
    EXPECT_EQ(finished.user, user);
    return finished.verdict.status;
  }

  std::vector<Interrupted> interrupted_;
};

TEST_F(InterruptedPostsTest, AreDoneAgainOrEndAsElsewhere) {
  EXPECT_EQ(place(7).status, Status::kDuplicate);
  EXPECT_EQ(posts_.waiting(), 2U);
  repair({.first = {{7, 1}, {8, 0}}, .failed = {}});
  EXPECT_EQ(ended(107), Status::kOk);
  std::size_t at = 0;
  const auto placed = place_waiting(at);
  ASSERT_TRUE(placed);
  EXPECT_EQ(placed->user, 108U);
  EXPECT_EQ(out_[0].notice.round, 0U);
  EXPECT_EQ(now_.next_round(7), 1U);
}

TEST_F(InterruptedPostsTest, AResultThatMayNotHaveArrivedIsNoSuccess) {
  repair({.first = {{7, 1}, {8, 0}}, .failed = {}}, false);
  EXPECT_EQ(ended(107), Status::kNodeLost);
}

TEST_F(InterruptedPostsTest, AFailureElsewhereHoldsForRoundsThatAreNotPostedYet) {
  repair({.first = {{7, 3}, {8, 1}},
          .failed = {{7, {Status::kDeadline, 0, 1}}, {8, {Status::kCancelled, 1, 0}}}});
  EXPECT_EQ(ended(107), Status::kOk) << "round 0 had succeeded elsewhere";
  EXPECT_EQ(ended(108), Status::kCancelled);
  for (const std::uint32_t round : {1U, 2U}) {
    const PlacedPost placed = place(7);
    EXPECT_EQ(placed.status, Status::kOk);
    EXPECT_EQ(placed.round, round);
    EXPECT_TRUE(out_.empty());
    EXPECT_EQ(ended(107), Status::kDeadline);
  }
  place(7);
  ASSERT_EQ(out_.size(), 1U);
  EXPECT_EQ(out_[0].notice.round, 3U);
}

TEST_F(InterruptedPostsTest, ACancelledOneIsAnnouncedAndThenCancelled) {
  EXPECT_TRUE(posts_.cancel(7));
  EXPECT_EQ(ended(0), Status::kAgain);
  repair({.first = {{7, 0}, {8, 0}}, .failed = {}});
  std::size_t at = 0;
  const auto placed = place_waiting(at);
  ASSERT_TRUE(placed);
  EXPECT_TRUE(placed->cancelled);
  EXPECT_EQ(placed->tag, 7U);
}

TEST_F(InterruptedPostsTest, ANodesVerdictHoldsWhenTheSessionEnds) {
  posts_.end_waiting(Status::kNodeLost);
  wire::Completion verdict;
  verdict.status = Status::kNodeLost;
  verdict.witness = 3;
  interrupted_[0].verdict = verdict;
  verdict.status = Status::kPeerLost;
  verdict.culprit = 0;
  interrupted_[1].verdict = verdict;
  EXPECT_EQ(ended(107), Status::kNodeLost);
  EXPECT_EQ(ended(108), Status::kNodeLost);
  posts_.hold(interrupted_);
  posts_.end_waiting(Status::kNodeLost);
  Finished finished;
  ASSERT_TRUE(posts_.take(finished));
  EXPECT_EQ(finished.verdict.witness, 3);
  EXPECT_TRUE(finished.started);
  ASSERT_TRUE(posts_.take(finished));
  EXPECT_EQ(finished.verdict.status, Status::kNodeLost);
  EXPECT_EQ(finished.verdict.culprit, wire::kNoRank) << "that rank may be interrupted, too";
}

TEST_F(InterruptedPostsTest, ThePostOfARoundThatIsDoneAgainWaits) {
  repair({.first = {{7, 2}, {8, 1}, {9, 0}}, .failed = {}});
  EXPECT_EQ(ended(107), Status::kOk);
  EXPECT_EQ(ended(108), Status::kOk);
  wire::Notice notice;
  notice.tag = 9;
  notice.count = 16;
  posts_.do_again(notice, 500);
  EXPECT_TRUE(posts_.does_again(9));
  EXPECT_EQ(place(9).by, By::kNone);
  EXPECT_EQ(place(9).status, Status::kDuplicate);
  std::size_t at = 0;
  auto placed = place_waiting(at);
  ASSERT_TRUE(placed);
  EXPECT_EQ(placed->user, 500U);
  const auto sent = out_;
  EXPECT_FALSE(place_waiting(at));
  end_last(now_, sent);
  ASSERT_TRUE(now_.take(finished_));
  posts_.done_again(9);
  at = 0;
  placed = place_waiting(at);
  ASSERT_TRUE(placed);
  EXPECT_EQ(placed->user, 109U);
  EXPECT_EQ(out_[0].notice.round, 1U);
}

TEST_F(InterruptedPostsTest, APostBehindARoundThatIsInterruptedAgainHasTheNextRound) {
  now_.begin_at(9, 4);
  repair({.first = {{7, 1}, {8, 1}, {9, 3}}, .failed = {}});
  EXPECT_EQ(ended(107), Status::kOk);
  EXPECT_EQ(ended(108), Status::kOk);
  wire::Notice notice;
  notice.tag = 9;
  notice.count = 16;
  notice.round = 3;
  posts_.do_again(notice, 500);
  std::size_t at = 0;
  ASSERT_TRUE(place_waiting(at));
  plans_.interrupt();
  posts_.hold(now_.interrupt());
  EXPECT_EQ(now_.next_round(9), 3U);
  EXPECT_EQ(place(9).round, 4U);
}

TEST_F(InterruptedPostsTest, APostThatWasNeverSentHasNoResult) {
  EXPECT_EQ(place(9).by, By::kNone);
  repair({.first = {{7, 0}, {8, 0}, {9, 1}}, .failed = {}});
  EXPECT_EQ(ended(109), Status::kNodeLost);
}

// The next version leaves rank 0 out.
class PostsWithoutARankTest : public PostPlacementTest {
 protected:
  static OperationBook without_rank_0() {
    BookConfig without = config();
    without.left_out = {0};
    return OperationBook(without);
  }
  static wire::Notice reduce(std::uint32_t tag) {
    wire::Notice notice;
    notice.kind = wire::Kind::kReduce;
    notice.tag = tag;
    notice.count = 16;
    return notice;
  }
  void repair(const RoundDecision& decided) {
    const RoundsByTag own = now_.rounds();
    plans_.know(decided.first);
    plans_.repaired();
    now_ = without_rank_0();
    for (const auto& [tag, first] : decided.first) now_.begin_at(tag, first);
    posts_.close_rounds(decided, own, [](std::uint64_t) { return true; });
  }
};

TEST_F(PostsWithoutARankTest, APostThatNeedsTheRankEndsAtOnce) {
  now_ = without_rank_0();
  const PlacedPost placed = posts_.place(books(), reduce(7), 107, 0, out_);
  EXPECT_EQ(placed.status, Status::kOk);
  EXPECT_EQ(placed.by, By::kNone) << "there is nothing to send";
  EXPECT_EQ(placed.round, 0U);
  EXPECT_TRUE(out_.empty());
  EXPECT_EQ(posts_.waiting(), 0U);
  ASSERT_TRUE(now_.take(finished_));
  EXPECT_EQ(finished_.verdict.status, Status::kPeerLost);
  EXPECT_EQ(place(7).round, 1U);
}

TEST_F(PostsWithoutARankTest, AnInterruptedOperationThatNeedsTheRankEndsAtOnce) {
  ASSERT_EQ(posts_.place(books(), reduce(7), 107, 0, out_).by, By::kNew);
  plans_.interrupt();
  posts_.hold(now_.interrupt());
  repair({.first = {{7, 0}}, .failed = {}});
  std::size_t at = 0;
  const auto placed = place_waiting(at);
  ASSERT_TRUE(placed);
  EXPECT_EQ(placed->by, By::kNone);
  EXPECT_TRUE(out_.empty());
  ASSERT_TRUE(now_.take(finished_));
  EXPECT_EQ(finished_.verdict.status, Status::kPeerLost);
  EXPECT_EQ(finished_.verdict.culprit, 0);
  EXPECT_FALSE(finished_.started) << "its contribution is back";
}

// Its round has succeeded at another rank, with the contributions of all.
TEST_F(PostsWithoutARankTest, AClosedOperationHasTheRanksOfTheVersionThatCarriedIt) {
  ASSERT_EQ(posts_.place(books(), reduce(7), 107, 0, out_).by, By::kNew);
  plans_.interrupt();
  posts_.hold(now_.interrupt());
  repair({.first = {{7, 1}}, .failed = {}});
  ASSERT_TRUE(posts_.take(finished_));
  EXPECT_EQ(finished_.verdict.status, Status::kOk);
  EXPECT_EQ(finished_.left_out, nullptr) << "not those of the next version";
}

TEST_F(PostsWithoutARankTest, AClosedOperationLacksTheRanksThatItsVersionLeftOut) {
  now_ = without_rank_0();
  ASSERT_EQ(place(7).by, By::kNew);
  plans_.interrupt();
  posts_.hold(now_.interrupt());
  repair({.first = {{7, 1}}, .failed = {}});
  ASSERT_TRUE(posts_.take(finished_));
  ASSERT_NE(finished_.left_out, nullptr);
  EXPECT_EQ(finished_.left_out->text, "without rank 0");
}

}  // namespace
}  // namespace tally::client
