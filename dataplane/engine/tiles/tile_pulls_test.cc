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
  TileSlot* complete() {
    for (int quiet = 0; quiet < 3; ++quiet) {
      if (pulls.poll() == 0) continue;
      if (TileSlot* slot = pulls.next_complete()) return slot;
    }
    return nullptr;
  }
  static Sessions awaited(const TileSlot& slot) {
    Sessions sessions;
    TilePulls::append_awaited(slot, sessions);
    std::sort(sessions.begin(), sessions.end());
    return sessions;
  }

  TilePulls pulls{loopback, pool, 0, 8};
};

TEST(TilePulls, GroupIsCompleteWhenAllInputsHaveCome) {
  for (const Mode mode : {Mode::kDirect, Mode::kStaged}) {
    PullsBench bench(mode, 3);
    TileSlot& slot = bench.start(3);
    TilePulls::begin(slot);
    EXPECT_EQ(bench.pulls.pull_group(slot), 3 * TileBench::kBytes);
    EXPECT_EQ(PullsBench::awaited(slot), (Sessions{0, 1, 2}));
    EXPECT_EQ(bench.complete(), &slot);
    EXPECT_EQ(bench.pulls.next_complete(), nullptr);
    EXPECT_EQ(PullsBench::awaited(slot), Sessions{});
    for (std::uint32_t rank = 0; rank < 3; ++rank) {
      float value = 0;
      std::memcpy(&value, slot.views[rank].front().data, sizeof value);
      EXPECT_EQ(value, bench.in[rank][0]);
    }
    bench.pulls.release(slot);
    EXPECT_EQ(bench.loopback.views_held(), 0U);
    bench.pulls.release(slot);  // nothing is left to release
  }
}

TEST(TilePulls, GroupsArePulledOneAfterAnotherWithTheirChecksums) {
  PullsBench bench(Mode::kDirect, 3);
  TileSlot& slot = bench.start(3);
  for (std::uint32_t rank : {0U, 2U}) {
    slot.tile.checksums.push_back({rank, {rank, TileBench::kOut, 0, 8, 0}});
  }
  slot.tile.group = {0, 2};
  TilePulls::begin(slot);
  EXPECT_EQ(bench.pulls.pull_group(slot), 2 * TileBench::kBytes);
  EXPECT_EQ(slot.pulls_left, 3U);
  EXPECT_EQ(bench.complete(), &slot);
  bench.pulls.release(slot);
  bench.pulls.pull_again(slot);
  EXPECT_EQ(slot.pulls_left, 3U) << "the same group";
  EXPECT_EQ(bench.complete(), &slot);
  bench.pulls.release(slot);
  slot.tile.group = {2, 3};
  EXPECT_EQ(bench.pulls.pull_group(slot), TileBench::kBytes);
  EXPECT_EQ(slot.pulls_left, 2U);
  EXPECT_EQ(slot.checksums, (protocol::Group{1, 2}));
  EXPECT_EQ(bench.complete(), &slot);
  bench.pulls.release(slot);
  EXPECT_EQ(bench.loopback.views_held(), 0U);
}

TEST(TilePulls, InputThatDoesNotComeFailsTheTile) {
  PullsBench bench(Mode::kStaged, 3);
  TileSlot& slot = bench.start(3);
  TilePulls::begin(slot);
  bench.pulls.pull_group(slot);
  bench.loopback.remove_region(1, TileBench::kIn);
  EXPECT_EQ(bench.complete(), &slot);
  EXPECT_NE(slot.status, Status::kOk);
  EXPECT_EQ(slot.culprit, 1U);
  bench.pulls.release(slot);
  EXPECT_EQ(bench.loopback.views_held(), 0U);
}

TEST(TilePulls, PartialSumIsPulledWhenTheChildNodeIsReady) {
  for (const Status status : {Status::kOk, Status::kPeerLost}) {
    PullsBench bench(Mode::kDirect, 2);
    TileSlot& slot = bench.start(2);
    slot.tile.partials = 1;  // peer 1 is a child node
    TilePulls::begin(slot);
    bench.pulls.pull_group(slot);
    EXPECT_EQ(bench.complete(), nullptr);
    EXPECT_EQ(PullsBench::awaited(slot), Sessions{1});
    const protocol::TileEvent event{.handle = slot.tile.handle, .index = 1, .status = status};
    EXPECT_EQ(bench.pulls.take_partial(slot, event), status != Status::kOk);
    EXPECT_EQ(slot.partials_left, 0U);
    EXPECT_EQ(bench.complete(), status == Status::kOk ? &slot : nullptr);
    EXPECT_EQ(slot.status, status);
    bench.pulls.release(slot);
  }
}

TEST(TilePulls, PartialSumOfLaterGroupIsPulledWithItsGroup) {
  PullsBench bench(Mode::kDirect, 2);
  TileSlot& slot = bench.start(2);
  slot.tile.partials = 1;
  slot.tile.group = {0, 1};
  TilePulls::begin(slot);
  bench.pulls.pull_group(slot);
  EXPECT_FALSE(bench.pulls.take_partial(slot, {.handle = slot.tile.handle, .index = 1}));
  EXPECT_EQ(bench.complete(), &slot);
  bench.pulls.release(slot);
  slot.tile.group = {1, 2};
  bench.pulls.pull_group(slot);
  EXPECT_EQ(bench.complete(), &slot);
  bench.pulls.release(slot);
}

TEST(TilePulls, AnswersLeftByTheCallerAreNotLost) {
  PullsBench bench(Mode::kDirect, 1);
  TileSlot& first = bench.start(1);
  TilePulls::begin(first);
  bench.pulls.pull_group(first);
  TileSlot& second = bench.start(1);
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
