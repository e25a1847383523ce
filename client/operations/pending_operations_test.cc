#include "client/operations/pending_operations.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>

#include "client/operations/post_placement.h"
#include "dataplane/partition/granules.h"

namespace tally::client {
namespace {

using ::testing::ElementsAre;

constexpr std::uint64_t kElements = 16;
constexpr std::uint32_t kDefaultDeadline = 250;

// Rank 0 of 2, with all elements in and out.
class PendingOperationsTest : public ::testing::Test {
 protected:
  PendingOperationsTest() {
    region_->id = 5;
    side_->id = 6;
    post_.notice.tag = 7;
    post_.notice.count = kElements;
    post_.notice.in_offset = post_.notice.out_offset = 8;
    post_.in = post_.out = region_.get();
    post_.user = 33;
  }
  Completed end(std::uint32_t index, Status status, bool started = false) {
    wire::Completion verdict;
    verdict.status = status;
    Completed completed;
    operations_.end({verdict, index, 7, 2, started}, completed);
    return completed;
  }
  std::uint32_t begin() {
    auto prepared = operations_.prepare(post_, kDefaultDeadline).value();
    if (prepared.needs_side()) prepared.use_side(*side_);
    std::uint32_t index = UINT32_MAX;
    operations_.begin(prepared, [&](std::uint32_t number) {
      index = number;
      return PlacedPost{placed_};
    });
    return index;
  }

  std::unique_ptr<Region> region_ = Region::allocate(4096).value();
  std::unique_ptr<Region> side_ = Region::allocate(4096).value();
  std::array<std::byte, 128> memory_{};
  Post post_;
  Status placed_ = Status::kOk;
  PendingOperations operations_{0, 2, nullptr};
};

TEST_F(PendingOperationsTest, TheNoticeHasThePlacesOfTheBuffers) {
  const auto prepared = operations_.prepare(post_, kDefaultDeadline).value();
  EXPECT_EQ(prepared.notice.in_region, 5U);
  EXPECT_EQ(prepared.notice.out_region, 5U);
  EXPECT_EQ(prepared.notice.out_offset, 8U);
  EXPECT_EQ(prepared.notice.deadline_ms, kDefaultDeadline);
  EXPECT_FALSE(prepared.needs_side());
  post_.notice.kind = wire::Kind::kBroadcast;
  post_.notice.root = 1;
  post_.notice.deadline_ms = 9;
  const auto receiver = operations_.prepare(post_, kDefaultDeadline).value();
  EXPECT_EQ(receiver.notice.in_region, wire::Notice{}.in_region) << "it contributes nothing";
  EXPECT_EQ(receiver.notice.in_offset, 0U);
  EXPECT_EQ(receiver.notice.deadline_ms, 9U);
  post_.out = nullptr;
  EXPECT_EQ(operations_.prepare(post_, 0).status(), Status::kInvalidArgument);
}

TEST_F(PendingOperationsTest, RegionsAreInUseUntilTheEnd) {
  const std::uint32_t first = begin();
  const std::uint32_t second = begin();
  EXPECT_NE(first, second);
  EXPECT_EQ(region_->outstanding, 4U) << "each in and out";
  EXPECT_THAT(operations_.tags(), ElementsAre(7, 7));
  const Completed completed = end(first, Status::kOk);
  EXPECT_EQ(completed.user, 33U);
  EXPECT_EQ(completed.tag, 7U);
  EXPECT_EQ(completed.round, 2U);
  EXPECT_EQ(region_->outstanding, 2U);
  EXPECT_EQ(begin(), first) << "its number is free again";
}

TEST_F(PendingOperationsTest, ASuccessHasTheContributorsOfItsVersion) {
  const Completed whole = end(begin(), Status::kOk);
  EXPECT_EQ(whole.contributors, 2U);
  EXPECT_EQ(whole.left_out, nullptr);
  Finished finished{{}, begin(), 7, 2, false, make_left_out({1})};
  Completed completed;
  operations_.end(finished, completed);
  EXPECT_EQ(completed.contributors, 1U);
  ASSERT_NE(completed.left_out, nullptr);
  EXPECT_EQ(completed.left_out->text, "without rank 1");
  finished.user = begin();
  finished.verdict.status = Status::kDeadline;
  operations_.end(finished, completed);
  EXPECT_EQ(completed.contributors, 0U);
  EXPECT_EQ(completed.left_out, nullptr);
}

TEST_F(PendingOperationsTest, APostThatIsNotPlacedUsesNothing) {
  placed_ = Status::kNoCredit;
  const std::uint32_t index = begin();
  EXPECT_EQ(region_->outstanding, 0U);
  placed_ = Status::kOk;
  EXPECT_EQ(begin(), index) << "its number is free";
}

TEST_F(PendingOperationsTest, StagedMemoryIsCopiedAtBothEnds) {
  const auto staged = Region::stage(memory_.data(), memory_.size()).value();
  post_.in = post_.out = staged.get();
  const std::uint32_t index = begin();
  EXPECT_EQ(operations_.copied_bytes(), kElements * 4);
  const Completed failed = end(index, Status::kDeadline, true);
  EXPECT_EQ(operations_.copied_bytes(), kElements * 4) << "nothing comes back";
  EXPECT_FALSE(failed.inputs_gone) << "the caller's copy is whole";
  end(begin(), Status::kOk);
  EXPECT_EQ(operations_.copied_bytes(), 3 * kElements * 4);
}

TEST_F(PendingOperationsTest, InputsInPlaceAreGoneOnceTheResultHasBegun) {
  EXPECT_FALSE(end(begin(), Status::kDeadline, false).inputs_gone);
  EXPECT_TRUE(end(begin(), Status::kDeadline, true).inputs_gone);
}

TEST_F(PendingOperationsTest, ReadsTheStatisticsOfAllBlocks) {
  post_.stats = true;
  const std::uint32_t index = begin();
  EXPECT_EQ(side_->outstanding, 1U);
  BlockStats stats;
  stats.sum_of_squares = 2.5;
  stats.nonfinite = 3;
  std::memcpy(side_->data(), &stats, sizeof stats);
  const Completed completed = end(index, Status::kOk);
  EXPECT_EQ(completed.stats.sum_of_squares, 2.5);
  EXPECT_EQ(completed.stats.nonfinite, 3U);
  EXPECT_EQ(side_->outstanding, 0U);
}

TEST_F(PendingOperationsTest, ContributionMayTravelWithTheNotice) {
  const auto bytes = operations_.contribution(begin());
  EXPECT_EQ(bytes.data(), region_->data() + 8);
  EXPECT_EQ(bytes.size(), kElements * 4);
  auto* registration = reinterpret_cast<ibv_mr*>(memory_.data());  // never looked into
  const auto device = Region::registered(*registration, nullptr, 4096, 0x1000);
  post_.in = device.get();
  EXPECT_TRUE(operations_.contribution(begin()).empty());
}

TEST_F(PendingOperationsTest, GivesChecksumsOfTheContribution) {
  const auto crc32c = Crc32c::open();
  if (!crc32c) GTEST_SKIP() << crc32c.error().message;
  operations_ = PendingOperations(0, 2, *crc32c);
  std::memset(region_->data() + 8, 0x5a, kElements * 4);
  EXPECT_TRUE(operations_.contribution(begin()).empty()) << "a node must be able to ask again";
  protocol::Checksum given = 0;
  std::memcpy(&given, side_->data(), sizeof given);
  EXPECT_EQ(given, (**crc32c)(std::span(region_->data() + 8, kElements * 4)));
}

TEST_F(PendingOperationsTest, ASmallContributionIsKeptForAnotherTime) {
  operations_.keep_inputs();
  std::byte* const data = region_->data() + 8;
  std::fill_n(data, kElements * 4, std::byte{3});
  const std::uint32_t number = begin();
  EXPECT_FALSE(operations_.is_spoiled(number)) << "in place, with a copy";
  EXPECT_FALSE(operations_.stands_with_others(number)) << "it may be eager";
  std::fill_n(data, kElements * 4, std::byte{9});  // part of a result
  operations_.restore(number);
  EXPECT_EQ(data[63], std::byte{3});
  EXPECT_EQ(end(number, Status::kOk).round, 2U);
  std::fill_n(data, kElements * 4, std::byte{9});
  RoundsByTag rounds{{7, {3, {}, false}}, {8, {3, {}, false}}};
  operations_.mark_kept(rounds);
  EXPECT_TRUE(rounds.at(7).kept);
  EXPECT_FALSE(rounds.at(8).kept);
  rounds = {{7, {4, {}, false}}};
  operations_.mark_kept(rounds);
  EXPECT_FALSE(rounds.at(7).kept) << "another round";

  ASSERT_LE(operations_.bytes_for_again(7), side_->bytes());
  const auto again = operations_.again(7, *side_, kDefaultDeadline);
  EXPECT_EQ(side_->data()[63], std::byte{3});
  EXPECT_EQ(again.notice.in_region, 6U);
  EXPECT_GE(again.notice.out_offset, again.notice.in_offset + kElements * 4);
  std::uint32_t second = 0;
  operations_.begin(again, [&](std::uint32_t index) {
    second = index;
    return PlacedPost{};
  });
  Completed completed;
  EXPECT_FALSE(operations_.end({{}, second, 7, 2, false}, completed)) << "the caller knows it";
}

TEST_F(PendingOperationsTest, OperationsUseTheWholeRegionWhenTheyUseAllOfItsBytes) {
  post_.notice.count = 512;  // of 4 bytes: a half
  post_.notice.in_offset = post_.notice.out_offset = 0;
  const std::uint32_t first = begin();
  EXPECT_EQ(operations_.use_of(*region_), RegionUse::kPart);
  post_.notice.in_offset = post_.notice.out_offset = 2048;
  begin();
  EXPECT_EQ(operations_.use_of(*region_), RegionUse::kWhole);
  end(first, Status::kOk);
  EXPECT_EQ(operations_.use_of(*region_), RegionUse::kPart);
  post_.notice.in_offset = 0;
  post_.notice.out_offset = 2048;
  begin();
  EXPECT_EQ(operations_.use_of(*region_), RegionUse::kWhole) << "input and result count";
}

TEST_F(PendingOperationsTest, ARegionWithoutResultsIsOnlyRead) {
  auto results = Region::allocate(4096).value();
  post_.out = results.get();
  begin();
  EXPECT_EQ(operations_.use_of(*region_), RegionUse::kOnlyRead);
  EXPECT_NE(operations_.use_of(*results), RegionUse::kOnlyRead);
}

TEST_F(PendingOperationsTest, ALargeContributionInPlaceIsKeptOnRequest) {
  auto large = Region::allocate(1 << 20).value();
  post_.in = post_.out = large.get();
  post_.notice.count = 1 << 16;
  operations_.keep_inputs();
  const std::uint32_t spoiled = begin();
  EXPECT_TRUE(operations_.is_spoiled(spoiled));
  EXPECT_TRUE(operations_.stands_with_others(spoiled));
  EXPECT_TRUE(end(spoiled, Status::kNodeLost, true).inputs_gone);
  post_.preserve = true;
  large->data()[8] = std::byte{5};
  const std::uint32_t preserved = begin();
  EXPECT_FALSE(operations_.is_spoiled(preserved));
  large->data()[8] = std::byte{6};
  EXPECT_FALSE(end(preserved, Status::kNodeLost, true).inputs_gone);
  EXPECT_EQ(large->data()[8], std::byte{5});
  RoundsByTag rounds{{7, {3, {}, false}}};
  operations_.mark_kept(rounds);
  EXPECT_FALSE(rounds.at(7).kept);
}

TEST_F(PendingOperationsTest, AJobThatGoesOnWithoutARankKeepsAllContributionsInPlace) {
  auto large = Region::allocate(1 << 20).value();
  operations_.keep_inputs_in_place();
  for (const std::uint64_t count : {kElements, std::uint64_t{1} << 16}) {
    post_.in = post_.out = large.get();
    post_.notice.count = count;
    large->data()[8] = std::byte{5};
    const std::uint32_t number = begin();
    EXPECT_FALSE(operations_.is_spoiled(number)) << count;
    EXPECT_TRUE(operations_.stands_with_others(number)) << "no result is eager";
    large->data()[8] = std::byte{6};
    operations_.restore(number);
    EXPECT_EQ(large->data()[8], std::byte{5}) << count;
    end(number, Status::kOk);
    RoundsByTag rounds{{7, {3, {}, false}}};
    operations_.mark_kept(rounds);
    EXPECT_FALSE(rounds.at(7).kept) << "an ended round stands everywhere";
  }
}

TEST_F(PendingOperationsTest, ARoundIsKeptBeforeTheCallerTakesItsCompletion) {
  operations_.keep_inputs();
  region_->data()[8] = std::byte{3};
  const std::uint32_t third = begin();
  region_->data()[8] = std::byte{4};
  const std::uint32_t fourth = begin();
  operations_.keep_ended({{}, fourth, 7, 4, false});
  wire::Completion failed;
  failed.status = Status::kDeadline;
  operations_.keep_ended({failed, third, 7, 5, false});
  RoundsByTag rounds{{7, {5, {}, false}}};
  operations_.mark_kept(rounds);
  EXPECT_TRUE(rounds.at(7).kept);
  Completed completed;
  operations_.end({{}, third, 7, 3, false}, completed);
  operations_.mark_kept(rounds);
  EXPECT_TRUE(rounds.at(7).kept) << "an earlier completion, taken later";
  operations_.again(7, *side_, kDefaultDeadline);
  EXPECT_EQ(side_->data()[0], std::byte{4});
}

}  // namespace
}  // namespace tally::client
