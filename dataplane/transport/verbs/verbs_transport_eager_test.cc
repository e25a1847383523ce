// Small operations over the transport: contributions that come with their notices, results that are
// on their way when their completion is.
#include <gtest/gtest.h>

#include <algorithm>

#include "dataplane/transport/onesided/small_operation.h"
#include "tests/support/transport/verbs_transport_fixture.h"

namespace tally::transport::verbs {
namespace {

class VerbsEager : public VerbsTransportTest {
 protected:
  // The client has sent it; what the shard sees of it.
  wire::Notice arrived() {
    const auto come = notices();
    wire::Notice read;
    EXPECT_EQ(come.size(), 1U);
    if (come.size() == 1) {
      EXPECT_EQ(wire::parse(come[0].message, read), Status::kOk);
    }
    return read;
  }
  void complete(Peer peer, std::uint32_t cookie) {
    const Message message{peer, onesided::small_completion(cookie)};
    transport_->complete({&message, 1});
  }
  static std::vector<std::byte> filled(std::size_t bytes, int value) {
    return std::vector<std::byte>(bytes, std::byte(value));
  }
  Push result(std::uint64_t operation_bytes, std::uint64_t offset, std::uint64_t bytes,
              const std::byte* source) {
    return {{{kFirst, 1, offset, bytes}, nullptr, operation_bytes, 7}, source, 8};
  }
  std::size_t answered() {
    std::array<Pushed, 8> answers;
    return transport_->pushed(answers);
  }
};

TEST_F(VerbsEager, AContributionBehindItsNoticeIsNotRead) {
  first_.send(onesided::small_notice(7), filled(100, 9));
  const wire::Notice seen = arrived();
  EXPECT_EQ(seen.in_offset, 0U);
  EXPECT_EQ(seen.out_region, 1U);
  EXPECT_TRUE(transport_->covers({kFirst, seen.in_region, 0, 100}));
  EXPECT_FALSE(transport_->covers({kFirst, seen.in_region, 0, 101}));
  api_.hold();
  const Pull wanted{{kFirst, seen.in_region, 60, 40}, 9};
  transport_->pull({&wanted, 1});
  EXPECT_EQ(api_.held(IBV_WR_RDMA_READ), 0U);
  Pulled answer;
  ASSERT_EQ(transport_->pulled({&answer, 1}), 1U);
  ASSERT_EQ(answer.status, Status::kOk);
  ASSERT_EQ(answer.view[0].bytes, 40U);
  EXPECT_EQ(answer.view[0].data[39], std::byte{9});
  transport_->release(answer.handle);
  complete(kFirst, 7);
  EXPECT_FALSE(transport_->covers({kFirst, seen.in_region, 0, 1}));
  api_.let_go();
  expect_served(kFirst, first_);
}

// Four messages that are not over have all the pieces there are; the fifth would take the first's.
TEST_F(VerbsEager, MessagesTakeThePiecesInTurn) {
  std::vector<wire::Notice> seen;
  for (std::uint32_t round = 0; round < 3 * kCredit; ++round) {
    std::vector<wire::Notice> now;
    for (std::uint32_t i = 0; i < kEagerPieces; ++i) {
      first_.send(onesided::small_notice(i), filled(kEagerBytes, static_cast<int>(round + i)));
      now.push_back(arrived());
    }
    for (std::uint32_t i = 0; i < kEagerPieces; ++i) {
      const Pulled pulled = pull({kFirst, now[i].in_region, 0, kEagerBytes});
      ASSERT_EQ(pulled.status, Status::kOk);
      EXPECT_EQ(pulled.view[0].data[0], std::byte(round + i));
      EXPECT_EQ(pulled.view[0].data[kEagerBytes - 1], std::byte(round + i));
      transport_->release(pulled.handle);
      complete(kFirst, i);
    }
    std::array<ibv_wc, 64> taken;
    api_.poll_cq(first_.queue(), 64, taken.data());
  }
}

// Nobody gets at the contributions of others, or stores into any.
TEST_F(VerbsEager, AContributionIsItsRanksAndIsNotStoredInto) {
  first_.send(onesided::small_notice(7), filled(100, 9));
  const wire::Notice seen = arrived();
  EXPECT_FALSE(transport_->covers({kSecond, seen.in_region, 0, 1}));
  EXPECT_EQ(pull({kSecond, seen.in_region, 0, 1}).status, Status::kBadRegion);
  EXPECT_EQ(push({kFirst, seen.in_region, 0, 1}, tiles_.data()).status, Status::kBadRegion);
  transport_->detach(kFirst);
  EXPECT_FALSE(transport_->covers({kFirst, seen.in_region, 0, 1}));
  expect_served(kSecond, second_);
}

// A view is valid until it is released, whatever becomes of the peer.
TEST_F(VerbsEager, AContributionOutlivesItsConnectionWhileItIsSeen) {
  first_.send(onesided::small_notice(7), filled(100, 9));
  const wire::Notice seen = arrived();
  const Pulled pulled = pull({kFirst, seen.in_region, 0, 100});
  ASSERT_EQ(pulled.status, Status::kOk);
  transport_->part(kFirst).reset();
  transport_->detach(kFirst);
  EXPECT_EQ(pulled.view[0].data[99], std::byte{9});
  transport_->release(pulled.handle);
}

// What is more than a peer may leave here is still where it was.
TEST_F(VerbsEager, WhatFindsNoRoomIsReadFromWhereItIs) {
  for (std::uint32_t i = 0; i < onesided::Payloads::kMostEach; ++i) {
    first_.send(onesided::small_notice(i), filled(8, 1));
    EXPECT_NE(arrived().in_region, 1U);
  }
  first_.send(onesided::small_notice(100), filled(8, 1));
  const wire::Notice seen = arrived();
  EXPECT_EQ(seen.in_region, 1U);
  EXPECT_EQ(seen.in_offset, 5000U);
}

TEST_F(VerbsEager, WhatIsNoNoticeIsTheShardsToRefuse) {
  wire::Notice cancel = onesided::small_notice(7);
  cancel.kind = wire::Kind::kCancel;
  first_.send(cancel, filled(8, 1));
  EXPECT_EQ(notices().size(), 1U);
  EXPECT_FALSE(transport_->covers({kFirst, 1U << 31, 0, 1}));
}

TEST_F(VerbsEager, ASmallResultIsAnsweredAtOnceAndGoesBeforeItsCompletion) {
  api_.hold();
  std::vector<std::byte> tile = filled(500, 33);  // of the shard's, soon another's
  const Push wanted = result(2000, 10, 500, tile.data());
  transport_->push({&wanted, 1});
  EXPECT_EQ(answered(), 1U);
  tile.assign(500, std::byte{0});
  complete(kFirst, 7);
  EXPECT_EQ(api_.held(IBV_WR_RDMA_WRITE), 1U);
  EXPECT_EQ(api_.held(IBV_WR_SEND), 1U);
  api_.let_go();
  EXPECT_EQ(first_.memory[10], std::byte{33});
  EXPECT_EQ(first_.memory[509], std::byte{33});
  notices();
  EXPECT_EQ(answered(), 0U);  // once
  expect_served(kFirst, first_);
}

TEST_F(VerbsEager, ACompletionWaitsForSmallResultsThatFindNoRoomInTheQueue) {
  api_.hold();
  std::vector<Push> pushes;
  for (std::uint64_t i = 0; i < 50; ++i) {
    const bool large = i < 40;
    pushes.push_back(result(large ? 1 << 20 : 64, i * 64, 64, tiles_.data()));
  }
  transport_->push(pushes);
  EXPECT_EQ(answered(), 8U);
  EXPECT_EQ(answered(), 2U);
  complete(kFirst, 7);
  EXPECT_EQ(api_.held(IBV_WR_SEND), 0U);
  api_.let_go();
  for (int turn = 0; turn < 8; ++turn) notices();
  EXPECT_TRUE(std::all_of(first_.memory.begin(), first_.memory.begin() + 50 * 64,
                          [](std::byte byte) { return byte == std::byte{42}; }));
  wire::Completion completion;
  ASSERT_EQ(wire::parse(first_.entries[0], completion), Status::kOk);
  EXPECT_EQ(completion.cookie, 7U);
}

// Of a large operation every byte stands before anybody is told, the last few too.
TEST_F(VerbsEager, TheResultOfALargeOperationIsAnsweredWhenItStands) {
  api_.hold();
  const Push wanted = result(kEagerBytes + 1, 0, 10, tiles_.data());
  transport_->push({&wanted, 1});
  EXPECT_EQ(answered(), 0U);
  api_.let_go();
  notices();
  EXPECT_EQ(answered(), 1U);
}

TEST_F(VerbsEager, APeerThatGoesTakesItsSmallResultsAlong) {
  api_.hold();
  const std::vector<Push> pushes(16, result(64, 0, 64, tiles_.data()));
  transport_->push(pushes);
  first_.send(onesided::small_notice(7), filled(100, 9));
  while (answered() > 0) continue;
  api_.cut("one");
  api_.let_go();
  EXPECT_EQ(lost(), std::vector<Peer>{kFirst});
  transport_->detach(kFirst);
  EXPECT_EQ(answered(), 0U);
  expect_served(kSecond, second_);
}

}  // namespace
}  // namespace tally::transport::verbs
