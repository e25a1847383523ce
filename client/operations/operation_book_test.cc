#include "client/operations/operation_book.h"

#include <gtest/gtest.h>

namespace tally::client {
namespace {

constexpr std::uint64_t kLarge = 1 << 20;  // elements: divided over the shards

class OperationBookTest : public ::testing::Test {
 protected:
  OperationBookTest() : book_(config()) {}

  static BookConfig config() {
    BookConfig config;
    config.partition = protocol::even_partition(2, 1 << 20);
    config.ranks = 2;
    config.epoch = 9;
    config.credit = 3;
    return config;
  }

  Status post(std::uint32_t tag, std::uint64_t count, Nanos until = kForever) {
    wire::Notice notice;
    notice.tag = tag;
    notice.count = count;
    out_.clear();
    return book_.post(notice, tag + 1000, until, out_);
  }

  static wire::Completion answer(const Outbound& outbound, Status status = Status::kOk) {
    wire::Completion completion;
    completion.status = status;
    completion.part = outbound.notice.part;
    completion.tag = outbound.notice.tag;
    completion.round = outbound.notice.round;
    completion.cookie = outbound.notice.cookie;
    return completion;
  }

  Status complete(const Outbound& outbound, Status status = Status::kOk) {
    cancels_.clear();
    return book_.complete(outbound.shard, answer(outbound, status), cancels_);
  }

  OperationBook book_;
  std::vector<Outbound> out_;
  std::vector<Outbound> cancels_;
  Finished finished_;
};

TEST_F(OperationBookTest, AnOperationEndsWithItsLastPart) {
  ASSERT_EQ(post(5, kLarge), Status::kOk);
  ASSERT_EQ(out_.size(), 2u);
  EXPECT_NE(out_[0].shard, out_[1].shard);
  EXPECT_EQ(out_[1].notice.part, 1);
  EXPECT_EQ(out_[0].notice.epoch, 9u);
  ASSERT_EQ(complete(out_[1]), Status::kOk);
  EXPECT_FALSE(book_.take(finished_));
  ASSERT_EQ(complete(out_[0]), Status::kOk);
  ASSERT_TRUE(book_.take(finished_));
  EXPECT_EQ(finished_.verdict.status, Status::kOk);
  EXPECT_EQ(finished_.user, 1005u);
  EXPECT_FALSE(finished_.started);
  EXPECT_EQ(book_.outstanding(), 0u);
}

TEST_F(OperationBookTest, RoundsCountTheUsesOfATag) {
  for (std::uint32_t round = 0; round < 5; ++round) {
    ASSERT_EQ(post(5, 10), Status::kOk);
    EXPECT_EQ(out_[0].notice.round, round);
    EXPECT_EQ(post(5, 10), Status::kDuplicate);
    ASSERT_EQ(post(6, 10), Status::kOk);
    EXPECT_EQ(out_[0].notice.round, round);
    book_.abandon(Status::kNodeLost);
    while (book_.take(finished_)) continue;
  }
}

TEST_F(OperationBookTest, CreditIsPerShardAndComesBack) {
  std::vector<Outbound> all;
  std::uint32_t tag = 0;
  while (post(tag, kLarge) == Status::kOk) {
    all.insert(all.end(), out_.begin(), out_.end());
    ++tag;
  }
  EXPECT_EQ(tag, 3u);
  EXPECT_EQ(post(tag, kLarge), Status::kNoCredit);
  EXPECT_TRUE(out_.empty());
  complete(all[0]);
  EXPECT_EQ(post(tag, kLarge), Status::kNoCredit) << "the other shard has none";
  complete(all[1]);
  EXPECT_EQ(post(tag, kLarge), Status::kOk);
}

// Four trees on two shards: a large operation takes two of the three credits of each.
TEST_F(OperationBookTest, PartsThatShareAShardTakeItsCreditTogether) {
  BookConfig shared = config();
  shared.partition = protocol::even_partition(4, 1 << 20);
  shared.shards = {0, 1, 0, 1};
  book_ = OperationBook(shared);
  ASSERT_EQ(post(5, kLarge), Status::kOk);
  ASSERT_EQ(out_.size(), 4u);
  const auto posted = out_;
  for (const Outbound& one : posted) {
    const protocol::Operand operand{.tag = 5, .count = kLarge};
    const auto tree = protocol::cut(shared.partition, operand, one.notice.part).tree;
    EXPECT_EQ(one.shard, shared.shards[tree]);
  }
  EXPECT_EQ(post(6, kLarge), Status::kNoCredit);
  std::uint32_t small = 0;
  for (std::uint32_t tag = 10; tag < 40; ++tag) small += post(tag, 1) == Status::kOk ? 1 : 0;
  EXPECT_EQ(small, 2u) << "what was refused has taken none of the credit";
  Outbound elsewhere = posted[0];
  elsewhere.shard = 1 - elsewhere.shard;
  EXPECT_EQ(complete(elsewhere), Status::kProtocol);
  for (const Outbound& one : posted) EXPECT_EQ(complete(one), Status::kOk);
  ASSERT_TRUE(book_.take(finished_));
  EXPECT_EQ(finished_.verdict.status, Status::kOk);
}

TEST_F(OperationBookTest, OneFailedPartTakesTheOthersBack) {
  ASSERT_EQ(post(5, kLarge), Status::kOk);
  const auto posted = out_;
  ASSERT_EQ(complete(posted[0], Status::kMismatch), Status::kOk);
  ASSERT_EQ(cancels_.size(), 1u);
  EXPECT_EQ(cancels_[0].shard, posted[1].shard);
  EXPECT_EQ(cancels_[0].notice.kind, wire::Kind::kCancel);
  EXPECT_EQ(cancels_[0].notice.round, posted[1].notice.round);
  EXPECT_FALSE(book_.take(finished_)) << "the buffers are not back";
  ASSERT_EQ(complete(posted[1], Status::kCancelled), Status::kOk);
  EXPECT_TRUE(cancels_.empty());
  ASSERT_TRUE(book_.take(finished_));
  EXPECT_EQ(finished_.verdict.status, Status::kMismatch);
  EXPECT_FALSE(finished_.started);
}

TEST_F(OperationBookTest, TheCauseWinsOverTheCancelThatFollowedFromIt) {
  ASSERT_EQ(post(5, kLarge), Status::kOk);
  const auto posted = out_;
  complete(posted[1], Status::kCancelled);  // another rank saw the cause first
  complete(posted[0], Status::kPeerLost);
  ASSERT_TRUE(book_.take(finished_));
  EXPECT_EQ(finished_.verdict.status, Status::kPeerLost);
}

TEST_F(OperationBookTest, TheVerdictDoesNotDependOnTheOrderOfTheParts) {
  for (const Status status : {Status::kDeadline, Status::kCancelled}) {
    for (const std::size_t first : {0u, 1u}) {
      ASSERT_EQ(post(5, kLarge), Status::kOk);
      const auto posted = out_;
      for (const std::size_t part : {first, 1 - first}) {
        wire::Completion completion = answer(posted[part], status);
        completion.culprit = static_cast<std::uint16_t>(part);
        ASSERT_EQ(book_.complete(posted[part].shard, completion, cancels_), Status::kOk);
      }
      ASSERT_TRUE(book_.take(finished_));
      EXPECT_EQ(finished_.verdict.culprit, 0u);
    }
  }
}

TEST_F(OperationBookTest, ANoticeThatArrivedTwiceIsStillServedOnce) {
  ASSERT_EQ(post(5, 10), Status::kOk);
  const auto posted = out_;
  ASSERT_EQ(complete(posted[0], Status::kDuplicate), Status::kOk);
  EXPECT_TRUE(cancels_.empty());
  EXPECT_FALSE(book_.take(finished_)) << "the node has the buffers";
  ASSERT_EQ(complete(posted[0]), Status::kOk);
  ASSERT_TRUE(book_.take(finished_));
  EXPECT_EQ(finished_.verdict.status, Status::kOk);
}

TEST_F(OperationBookTest, APartThatWentWellMeansThatResultsHaveLanded) {
  ASSERT_EQ(post(5, kLarge), Status::kOk);
  const auto posted = out_;
  complete(posted[0]);
  complete(posted[1], Status::kPeerLost);
  ASSERT_TRUE(book_.take(finished_));
  EXPECT_TRUE(finished_.started);
}

TEST_F(OperationBookTest, RefusesCompletionsForNoOutstandingPart) {
  ASSERT_EQ(post(5, kLarge), Status::kOk);
  const auto posted = out_;
  const auto refuse = [&](auto&& change, const char* why) {
    std::uint32_t shard = posted[0].shard;
    wire::Completion completion = answer(posted[0]);
    change(shard, completion);
    EXPECT_EQ(book_.complete(shard, completion, cancels_), Status::kProtocol) << why;
  };
  refuse([](auto& shard, auto&) { shard = 1 - shard; }, "another shard's part");
  refuse([](auto&, auto& c) { c.cookie ^= 1 << 16; }, "an old cookie");
  refuse([](auto&, auto& c) { c.cookie |= 0xffff; }, "no such entry");
  refuse([](auto&, auto& c) { c.part = 2; }, "no such part");
  refuse([](auto&, auto& c) { c.round = 1; }, "another round");
  complete(posted[0]);
  refuse([](auto&, auto&) {}, "the same twice");
}

// Else rank 1's shards would blame rank 1 for what rank 0 did.
TEST_F(OperationBookTest, ACancelNamesTheRankThatCausedIt) {
  ASSERT_EQ(post(5, kLarge), Status::kOk);
  wire::Completion completion = answer(out_[0], Status::kCancelled);
  completion.culprit = 1;
  ASSERT_EQ(book_.complete(out_[0].shard, completion, cancels_), Status::kOk);
  ASSERT_EQ(cancels_.size(), 1u);
  EXPECT_EQ(cancels_[0].notice.root, 1);
  ASSERT_EQ(post(6, kLarge), Status::kOk);
  cancels_.clear();
  ASSERT_EQ(complete(out_[0], Status::kDeadline), Status::kOk) << "which may name nobody";
  EXPECT_EQ(cancels_[0].notice.root, 0) << "this rank";
}

TEST_F(OperationBookTest, ACancelGoesToEveryPartThatHasNotEnded) {
  ASSERT_EQ(post(5, kLarge), Status::kOk);
  const auto posted = out_;
  complete(posted[0]);
  ASSERT_EQ(book_.cancel(5, cancels_), Status::kOk);
  ASSERT_EQ(book_.cancel(5, cancels_), Status::kOk);
  ASSERT_EQ(cancels_.size(), 1u) << "once: the ring has no room for more";
  EXPECT_EQ(cancels_[0].shard, posted[1].shard);
  EXPECT_EQ(book_.cancel(6, cancels_), Status::kInvalidArgument);
}

TEST_F(OperationBookTest, ReportsTheShardsThatOweAVerdict) {
  ASSERT_EQ(post(5, kLarge, 50), Status::kOk);
  EXPECT_TRUE(book_.overdue_shards(49).empty());
  EXPECT_EQ(book_.overdue_shards(50), (std::vector<std::uint32_t>{0, 1}));
  ASSERT_EQ(complete(out_[0]), Status::kOk);
  EXPECT_EQ(book_.overdue_shards(50), std::vector<std::uint32_t>{out_[1].shard});
}

TEST_F(OperationBookTest, AbandonEndsEverythingAndFreesTheCredit) {
  ASSERT_EQ(post(5, kLarge, 50), Status::kOk);
  ASSERT_EQ(post(6, 10, 40), Status::kOk);
  EXPECT_EQ(book_.earliest_until(0), 40);
  EXPECT_TRUE(book_.outstanding(6));
  book_.abandon(Status::kNodeLost);
  int ended = 0;
  for (; book_.take(finished_); ++ended) EXPECT_EQ(finished_.verdict.status, Status::kNodeLost);
  EXPECT_EQ(ended, 2);
  EXPECT_EQ(book_.earliest_until(0), kForever);
  for (std::uint32_t tag = 10; tag < 13; ++tag) EXPECT_EQ(post(tag, kLarge), Status::kOk);
}

// A session asks each millisecond.
TEST_F(OperationBookTest, TheEarliestDeadlineIsKnownHoweverMuchIsOutstanding) {
  constexpr std::uint32_t kMany = 10'000;
  constexpr int kQuestions = 2000;
  BookConfig large = config();
  large.credit = kMany;
  OperationBook book(large);
  const auto ask = [&book] {
    const Nanos begin = monotonic_now();
    Nanos sum = 0;
    for (int i = 0; i < kQuestions; ++i) sum += book.earliest_until(1000) / kQuestions;
    EXPECT_GE(sum, 0);
    return monotonic_now() - begin;
  };
  const auto add = [&](std::uint32_t tag) {
    wire::Notice notice;
    notice.tag = tag;
    notice.count = 1;
    std::vector<Outbound> out;
    ASSERT_EQ(book.post(notice, 0, 1'000'000 + tag, out), Status::kOk);
  };
  add(0);
  const Nanos one = ask();
  for (std::uint32_t tag = 1; tag < kMany; ++tag) add(tag);
  EXPECT_EQ(book.earliest_until(1000), 1'000'000);
  EXPECT_LT(ask(), 100 * one + kMillisecond) << "with one it takes " << one;
}

// The timeout of an operation that has ended is forgotten at the latest when its time has come.
TEST_F(OperationBookTest, EndedOperationHasNoDeadline) {
  ASSERT_EQ(post(5, 10, 40), Status::kOk);
  const Outbound first = out_[0];
  ASSERT_EQ(post(6, 10, 90), Status::kOk);
  ASSERT_EQ(complete(first), Status::kOk);
  EXPECT_LE(book_.earliest_until(39), 90);
  EXPECT_EQ(book_.earliest_until(40), 90);
  ASSERT_EQ(post(7, 10, 60), Status::kOk);
  EXPECT_EQ(book_.earliest_until(41), 60);
  EXPECT_EQ(book_.earliest_until(60), 60) << "it is overdue";
  EXPECT_EQ(book_.earliest_until(95), 60);
}

TEST_F(OperationBookTest, ATagContinuesWithTheRoundOfAnotherBook) {
  EXPECT_EQ(book_.next_round(5), 0u);
  book_.begin_at(5, 41);
  ASSERT_EQ(post(5, 10), Status::kOk);
  EXPECT_EQ(out_[0].notice.round, 41u);
  EXPECT_EQ(complete(out_[0]), Status::kOk);
  ASSERT_EQ(post(6, 10), Status::kOk);
  const std::map<std::uint32_t, std::uint32_t> next = {{5, 42}, {6, 1}};
  EXPECT_EQ(book_.next_rounds(), next);
}

TEST_F(OperationBookTest, InterruptedOperationsAreNotPosted) {
  ASSERT_EQ(post(8, kLarge), Status::kOk);
  const auto eighth = out_;
  ASSERT_EQ(post(5, 8), Status::kOk);
  ASSERT_EQ(complete(eighth[0]), Status::kOk) << "one of its two parts has ended";
  ASSERT_EQ(book_.note_loss(answer(eighth[1], Status::kNodeLost)), Status::kOk);
  const auto interrupted = book_.interrupt();
  ASSERT_EQ(interrupted.size(), 2U);
  EXPECT_EQ(interrupted[0].notice.tag, 5U);
  EXPECT_FALSE(interrupted[0].verdict);
  EXPECT_EQ(interrupted[1].user, 1008U);
  ASSERT_TRUE(interrupted[1].verdict);
  EXPECT_EQ(interrupted[1].verdict->status, Status::kNodeLost);
  EXPECT_EQ(book_.outstanding(), 0U);
  EXPECT_FALSE(book_.has_finished());
  EXPECT_EQ(book_.rounds(), (RoundsByTag{{5, {}}, {8, {}}}));
  for (std::uint32_t tag = 0; tag < 3; ++tag) EXPECT_EQ(post(tag, kLarge), Status::kOk) << "credit";
}

TEST_F(OperationBookTest, WhatHasFailedIsNotInterrupted) {
  ASSERT_EQ(post(5, kLarge), Status::kOk);
  ASSERT_EQ(complete(out_[0], Status::kDeadline), Status::kOk);
  ASSERT_EQ(post(6, 8), Status::kOk);
  ASSERT_EQ(book_.cancel(6, cancels_), Status::kOk);
  const auto interrupted = book_.interrupt();
  ASSERT_EQ(interrupted.size(), 1U);
  EXPECT_TRUE(interrupted[0].cancelled) << "it may have ended well at another rank";
  ASSERT_TRUE(book_.take(finished_));
  EXPECT_EQ(finished_.verdict.status, Status::kDeadline);
  const RoundsByTag rounds = book_.rounds();
  EXPECT_EQ(rounds.at(5).failure->status, Status::kDeadline);
  EXPECT_EQ(rounds.at(5).next, 1U);
  EXPECT_EQ(rounds.at(6).next, 0U);
}

TEST_F(OperationBookTest, AFailureCountsUntilTheNextRoundEndsWell) {
  ASSERT_EQ(post(5, 8), Status::kOk);
  ASSERT_EQ(complete(out_[0]), Status::kOk);
  for (int round = 1; round < 3; ++round) {
    ASSERT_EQ(post(5, 8), Status::kOk);
    ASSERT_EQ(complete(out_[0], Status::kDeadline), Status::kOk);
  }
  EXPECT_EQ(book_.rounds().at(5).failure, (RoundFailure{Status::kDeadline, wire::kNoRank, 1}));
  OperationBook after(config());
  after.begin_at(5, 3);
  after.begin_at(6, 0);
  after.inherit(book_);
  EXPECT_EQ(after.rounds().at(5), book_.rounds().at(5));
  ASSERT_EQ(post(5, 8), Status::kOk);
  ASSERT_EQ(complete(out_[0]), Status::kOk);
  EXPECT_EQ(book_.rounds().at(5), (TagRounds{4, {}, false}));
}

// -- ranks that are left out --------------------------------------------------------------------

class LeftOutBookTest : public OperationBookTest {
 protected:
  LeftOutBookTest() { book_ = OperationBook(config()); }
  static BookConfig config() {
    BookConfig config = OperationBookTest::config();
    config.ranks = 4;
    config.left_out = {1, 3};
    return config;
  }
  Status reduce(std::uint32_t tag, std::uint16_t root, std::uint64_t count = kLarge) {
    wire::Notice notice;
    notice.kind = wire::Kind::kReduce;
    notice.tag = tag;
    notice.count = count;
    notice.root = root;
    out_.clear();
    return book_.post(notice, tag + 1000, kForever, out_);
  }
};

TEST_F(LeftOutBookTest, AnOperationThatNeedsALeftOutRankEndsAtOnce) {
  ASSERT_EQ(post(5, 10), Status::kOk);
  ASSERT_EQ(complete(out_[0]), Status::kOk);
  ASSERT_TRUE(book_.take(finished_));
  ASSERT_EQ(reduce(5, 3), Status::kOk);
  EXPECT_TRUE(out_.empty()) << "no node hears of it";
  EXPECT_EQ(book_.outstanding(), 0U);
  EXPECT_FALSE(book_.outstanding(5));
  ASSERT_TRUE(book_.take(finished_));
  EXPECT_EQ(finished_.verdict.status, Status::kPeerLost);
  EXPECT_EQ(finished_.verdict.culprit, 3);
  EXPECT_EQ(finished_.user, 1005U);
  EXPECT_EQ(finished_.tag, 5U);
  EXPECT_EQ(finished_.round, 1U);
  EXPECT_FALSE(finished_.started) << "the inputs are not gone";
  EXPECT_EQ(book_.next_round(5), 2U) << "it takes its round";
  const TagRounds rounds = book_.rounds().at(5);
  EXPECT_EQ(rounds.next, 2U);
  EXPECT_EQ(rounds.failure, (RoundFailure{Status::kPeerLost, 3, 1}));
}

TEST_F(LeftOutBookTest, AnOperationThatEndsAtOnceTakesNoCredit) {
  for (std::uint32_t i = 0; i < 20; ++i) ASSERT_EQ(reduce(5, 1), Status::kOk);
  std::uint32_t tag = 6;
  while (post(tag, kLarge) == Status::kOk) ++tag;
  EXPECT_EQ(tag, 9U) << "all credit was there";
  ASSERT_EQ(reduce(5, 1), Status::kOk) << "it needs none";
}

TEST_F(LeftOutBookTest, OtherOperationsAreDoneAmongTheRanksThatAreLeft) {
  ASSERT_EQ(reduce(5, 2), Status::kOk);
  EXPECT_EQ(out_.size(), 2U);
  const auto posted = out_;
  EXPECT_EQ(reduce(5, 3), Status::kDuplicate) << "the tag is outstanding";
  for (const Outbound& one : posted) ASSERT_EQ(complete(one), Status::kOk);
  ASSERT_TRUE(book_.take(finished_));
  EXPECT_EQ(finished_.verdict.status, Status::kOk);
  ASSERT_NE(finished_.left_out, nullptr);
  EXPECT_EQ(finished_.left_out->ranks, (std::vector<std::uint16_t>{1, 3}));
}

TEST_F(LeftOutBookTest, AnInterruptedOperationKnowsTheRanksOfItsVersion) {
  ASSERT_EQ(post(5, kLarge), Status::kOk);
  const auto interrupted = book_.interrupt();
  ASSERT_EQ(interrupted.size(), 1U);
  ASSERT_NE(interrupted[0].left_out, nullptr);
  EXPECT_EQ(interrupted[0].left_out->text, "without ranks 1 and 3");
}

TEST_F(OperationBookTest, WithAllRanksThereIsNoSetOfLeftOutRanks) {
  ASSERT_EQ(post(5, 10), Status::kOk);
  ASSERT_EQ(complete(out_[0]), Status::kOk);
  ASSERT_TRUE(book_.take(finished_));
  EXPECT_EQ(finished_.left_out, nullptr);
}

}  // namespace
}  // namespace tally::client
