#include "dataplane/engine/tiles/tile_pushes.h"

#include <gtest/gtest.h>

#include "dataplane/partition/groups.h"
#include "tests/support/tile_bench.h"

namespace tally::engine {
namespace {

using testing::TileBench;
using Mode = TileBench::Mode;
using Sessions = std::vector<protocol::SessionId>;

struct PushesBench : TileBench {
  using TileBench::TileBench;

  // A tile whose sum is in its staging memory.
  TileSlot& summed(std::uint32_t ranks) {
    TileSlot& slot = start(ranks);
    slot.staging.resize(kBytes, std::byte{0x42});
    slot.result = slot.staging.data();
    return slot;
  }
  // Records all answers that come. Returns the last.
  PushAnswer take_answers() {
    PushAnswer last;
    for (int quiet = 0; quiet < 3; ++quiet) {
      while (pushes.poll() > 0) {
        while (const auto answer = pushes.next()) last = *answer;
      }
    }
    return last;
  }
  bool has_result(std::uint32_t peer) const {
    const auto bytes = std::as_bytes(std::span(out[peer]));
    return bytes.front() == std::byte{0x42} && bytes.back() == std::byte{0x42};
  }
  static Sessions awaited(const TileSlot& slot) {
    Sessions sessions;
    TilePushes::append_awaited(slot, sessions);
    return sessions;
  }

  Counter bytes_out;
  TilePushes pushes{loopback, pool, bytes_out, 64};
};

TEST(TilePushes, ResultStoredAtItsReceiverIsPushedImmediately) {
  PushesBench bench(Mode::kDirect, 2);
  TileSlot& slot = bench.summed(2);
  const auto landings = bench.pushes.locate(slot);
  ASSERT_EQ(landings.size(), 2U);
  EXPECT_EQ(static_cast<void*>(landings[1].direct), bench.out[1].data());
  bench.pushes.start(slot, landings);
  EXPECT_FALSE(TilePushes::has_more(slot));
  EXPECT_EQ(PushesBench::awaited(slot), (Sessions{0, 1}));
  EXPECT_EQ(bench.take_answers().slot, &slot);
  EXPECT_EQ(slot.pushes_left, 0U);
  EXPECT_EQ(PushesBench::awaited(slot), Sessions{});
  EXPECT_EQ(bench.bytes_out.read(), 2 * TileBench::kBytes);
}

TEST(TilePushes, OtherResultsGoToAFewReceiversAtATime) {
  constexpr std::uint32_t kMany = 2 * protocol::kGroupSources;
  PushesBench bench(Mode::kStaged, kMany);
  TileSlot& slot = bench.summed(kMany);
  bench.pushes.start(slot, bench.pushes.locate(slot));
  EXPECT_EQ(bench.loopback.pushes_outstanding(), 0U);
  EXPECT_EQ(slot.pushes_left, kMany);
  bench.pushes.push_more(slot);
  EXPECT_EQ(bench.loopback.pushes_outstanding(), protocol::receivers_at_once(kMany));
  bench.pushes.push_more(slot);
  EXPECT_EQ(bench.loopback.pushes_outstanding(), protocol::receivers_at_once(kMany));
  while (TilePushes::has_more(slot)) {
    bench.take_answers();
    bench.pushes.push_more(slot);
  }
  bench.take_answers();
  EXPECT_EQ(slot.pushes_left, 0U);
  for (std::uint32_t rank = 0; rank < kMany; ++rank) EXPECT_TRUE(bench.has_result(rank)) << rank;
}

TEST(TilePushes, DroppedPushesAreNotAwaited) {
  PushesBench bench(Mode::kStaged, 3);
  TileSlot& slot = bench.summed(3);
  bench.pushes.start(slot, bench.pushes.locate(slot));
  TilePushes::drop_rest(slot);
  EXPECT_EQ(slot.pushes_left, 0U);
  EXPECT_FALSE(TilePushes::has_more(slot));
  EXPECT_EQ(PushesBench::awaited(slot), Sessions{});
}

TEST(TilePushes, FailedPushNamesItsReceiver) {
  PushesBench bench(Mode::kStaged, 3);
  TileSlot& slot = bench.summed(3);
  bench.pushes.start(slot, bench.pushes.locate(slot));
  bench.pushes.push_more(slot);
  bench.loopback.remove_region(1, TileBench::kOut);
  bench.take_answers();
  EXPECT_EQ(slot.pushes_left, 0U);
  EXPECT_NE(slot.status, Status::kOk);
  EXPECT_EQ(slot.culprit, 1U);
}

TEST(TilePushes, ChildNodeGetsTheResultWhenItHasRoom) {
  for (const Mode mode : {Mode::kDirect, Mode::kStaged}) {
    PushesBench bench(mode, 1);
    TileSlot& slot = bench.summed(0);
    slot.tile.below.push_back({0, 0, protocol::kNone});
    bench.pushes.start(slot, {});
    EXPECT_EQ(slot.pushes_left, 1U);
    EXPECT_EQ(PushesBench::awaited(slot), Sessions{0});
    protocol::TileEvent event{.handle = slot.tile.handle, .slot = 5};
    event.where = {0, TileBench::kOut, 0, TileBench::kBytes, 0};
    bench.pushes.push_down(slot, event);
    EXPECT_EQ(slot.tile.below[0].slot, 5U);
    EXPECT_EQ(slot.pushes_left, 1U);
    EXPECT_EQ(bench.take_answers().below, 0U);
    EXPECT_EQ(slot.pushes_left, 0U);
    EXPECT_TRUE(bench.has_result(0));
  }
}

TEST(TilePushes, ChildNodeThatIsLostOrFencedFailsTheTile) {
  for (const Status status : {Status::kOk, Status::kPeerLeft}) {
    PushesBench bench(Mode::kDirect, 1);
    TileSlot& slot = bench.summed(0);
    slot.tile.below.push_back({0, 0, protocol::kNone});
    bench.pushes.start(slot, {});
    bench.loopback.fence(0);
    protocol::TileEvent event{.handle = slot.tile.handle, .status = status};
    event.where = {0, TileBench::kOut, 0, TileBench::kBytes, 0};
    bench.pushes.push_down(slot, event);
    EXPECT_EQ(slot.pushes_left, 0U);
    EXPECT_EQ(slot.status, status == Status::kOk ? Status::kPeerLost : status);
    EXPECT_EQ(slot.culprit, 0U);
    EXPECT_FALSE(bench.has_result(0));
  }
}

}  // namespace
}  // namespace tally::engine
