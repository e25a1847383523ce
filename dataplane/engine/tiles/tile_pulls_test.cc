#include "dataplane/engine/tiles/tile_pulls.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/tile_bench.h"

namespace tally::engine {
namespace {

using testing::TileBench;
using Mode = TileBench::Mode;
using Sessions = std::vector<protocol::SessionId>;

struct PullsBench : TileBench {
  using TileBench::TileBench;

  // Takes answers until a group is complete, or nothing comes.
  TileRecord* complete() {
    for (int quiet = 0; quiet < 3; ++quiet) {
      if (pulls.poll() == 0) continue;
      if (TileRecord* record = pulls.next_complete()) return record;
    }
    return nullptr;
  }
  static Sessions awaited(const TileRecord& record) {
    Sessions sessions;
    TilePulls::append_awaited(record, sessions);
    std::sort(sessions.begin(), sessions.end());
    return sessions;
  }

  TilePulls pulls{loopback, pool, 0, 8};
};

TEST(TilePulls, GroupIsCompleteWhenAllInputsHaveCome) {
  for (const Mode mode : {Mode::kDirect, Mode::kStaged}) {
    PullsBench bench(mode, 3);
    TileRecord& record = bench.start(3);
    TilePulls::begin(record);
    EXPECT_EQ(bench.pulls.pull_group(record), 3 * TileBench::kBytes);
    EXPECT_EQ(PullsBench::awaited(record), (Sessions{0, 1, 2}));
    EXPECT_EQ(bench.complete(), &record);
    EXPECT_EQ(bench.pulls.next_complete(), nullptr);
    EXPECT_EQ(PullsBench::awaited(record), Sessions{});
    for (std::uint32_t rank = 0; rank < 3; ++rank) {
      float value = 0;
      std::memcpy(&value, record.views[rank].front().data, sizeof value);
      EXPECT_EQ(value, bench.in[rank][0]);
    }
    bench.pulls.release(record);
    EXPECT_EQ(bench.loopback.views_held(), 0U);
    bench.pulls.release(record);  // nothing is left to release
  }
}

TEST(TilePulls, GroupsArePulledOneAfterAnotherWithTheirChecksums) {
  PullsBench bench(Mode::kDirect, 3);
  TileRecord& record = bench.start(3);
  for (std::uint32_t rank : {0U, 2U}) {
    record.tile.checksums.push_back({rank, {rank, TileBench::kOut, 0, 8, 0}});
  }
  record.tile.group = {0, 2};
  TilePulls::begin(record);
  EXPECT_EQ(bench.pulls.pull_group(record), 2 * TileBench::kBytes);
  EXPECT_EQ(record.pulls_left, 3U);
  EXPECT_EQ(bench.complete(), &record);
  bench.pulls.release(record);
  bench.pulls.pull_again(record);
  EXPECT_EQ(record.pulls_left, 3U) << "the same group";
  EXPECT_EQ(bench.complete(), &record);
  bench.pulls.release(record);
  record.tile.group = {2, 3};
  EXPECT_EQ(bench.pulls.pull_group(record), TileBench::kBytes);
  EXPECT_EQ(record.pulls_left, 2U);
  EXPECT_EQ(record.checksums, (protocol::Group{1, 2}));
  EXPECT_EQ(bench.complete(), &record);
  bench.pulls.release(record);
  EXPECT_EQ(bench.loopback.views_held(), 0U);
}

TEST(TilePulls, InputThatDoesNotComeFailsTheTile) {
  PullsBench bench(Mode::kStaged, 3);
  TileRecord& record = bench.start(3);
  TilePulls::begin(record);
  bench.pulls.pull_group(record);
  bench.loopback.remove_region(1, TileBench::kIn);
  EXPECT_EQ(bench.complete(), &record);
  EXPECT_NE(record.status, Status::kOk);
  EXPECT_EQ(record.culprit, 1U);
  bench.pulls.release(record);
  EXPECT_EQ(bench.loopback.views_held(), 0U);
}

TEST(TilePulls, PartialSumIsPulledWhenTheChildNodeIsReady) {
  for (const Status status : {Status::kOk, Status::kPeerLost}) {
    PullsBench bench(Mode::kDirect, 2);
    TileRecord& record = bench.start(2);
    record.tile.partials = 1;  // peer 1 is a child node
    TilePulls::begin(record);
    bench.pulls.pull_group(record);
    EXPECT_EQ(bench.complete(), nullptr);
    EXPECT_EQ(PullsBench::awaited(record), Sessions{1});
    const protocol::TileEvent event{.handle = record.tile.handle, .index = 1, .status = status};
    EXPECT_EQ(bench.pulls.take_partial(record, event), status != Status::kOk);
    EXPECT_EQ(record.partials_left, 0U);
    EXPECT_EQ(bench.complete(), status == Status::kOk ? &record : nullptr);
    EXPECT_EQ(record.status, status);
    bench.pulls.release(record);
  }
}

TEST(TilePulls, PartialSumOfLaterGroupIsPulledWithItsGroup) {
  PullsBench bench(Mode::kDirect, 2);
  TileRecord& record = bench.start(2);
  record.tile.partials = 1;
  record.tile.group = {0, 1};
  TilePulls::begin(record);
  bench.pulls.pull_group(record);
  EXPECT_FALSE(bench.pulls.take_partial(record, {.handle = record.tile.handle, .index = 1}));
  EXPECT_EQ(bench.complete(), &record);
  bench.pulls.release(record);
  record.tile.group = {1, 2};
  bench.pulls.pull_group(record);
  EXPECT_EQ(bench.complete(), &record);
  bench.pulls.release(record);
}

TEST(TilePulls, AnswersLeftByTheCallerAreNotLost) {
  PullsBench bench(Mode::kDirect, 1);
  TileRecord& first = bench.start(1);
  TilePulls::begin(first);
  bench.pulls.pull_group(first);
  TileRecord& second = bench.start(1);
  TilePulls::begin(second);
  bench.pulls.pull_group(second);
  EXPECT_EQ(bench.pulls.poll(), 2U);
  EXPECT_EQ(bench.pulls.next_complete(), &first);
  EXPECT_EQ(bench.pulls.poll(), 1U);
  EXPECT_EQ(bench.pulls.next_complete(), &second);
  bench.pulls.release(first);
  bench.pulls.release(second);
}

}  // namespace
}  // namespace tally::engine
