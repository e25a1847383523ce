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
  TileRecord& summed(std::uint32_t ranks) {
    TileRecord& record = start(ranks);
    record.staging.resize(kBytes, std::byte{0x42});
    record.result = record.staging.data();
    return record;
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
  static Sessions awaited(const TileRecord& record) {
    Sessions sessions;
    TilePushes::append_awaited(record, sessions);
    return sessions;
  }

  Counter bytes_out;
  TilePushes pushes{loopback, pool, bytes_out, 64};
};

TEST(TilePushes, ResultStoredAtItsReceiverIsPushedImmediately) {
  PushesBench bench(Mode::kDirect, 2);
  TileRecord& record = bench.summed(2);
  const auto landings = bench.pushes.locate(record);
  ASSERT_EQ(landings.size(), 2U);
  EXPECT_EQ(static_cast<void*>(landings[1].direct), bench.out[1].data());
  bench.pushes.start(record, landings);
  EXPECT_FALSE(TilePushes::has_more(record));
  EXPECT_EQ(PushesBench::awaited(record), (Sessions{0, 1}));
  EXPECT_EQ(bench.take_answers().record, &record);
  EXPECT_EQ(record.pushes_left, 0U);
  EXPECT_EQ(PushesBench::awaited(record), Sessions{});
  EXPECT_EQ(bench.bytes_out.read(), 2 * TileBench::kBytes);
}

TEST(TilePushes, OtherResultsGoToAFewReceiversAtATime) {
  constexpr std::uint32_t kMany = 2 * protocol::kGroupSources;
  PushesBench bench(Mode::kStaged, kMany);
  TileRecord& record = bench.summed(kMany);
  bench.pushes.start(record, bench.pushes.locate(record));
  EXPECT_EQ(bench.loopback.pushes_outstanding(), 0U);
  EXPECT_EQ(record.pushes_left, kMany);
  bench.pushes.push_more(record);
  EXPECT_EQ(bench.loopback.pushes_outstanding(), protocol::receivers_at_once(kMany));
  bench.pushes.push_more(record);
  EXPECT_EQ(bench.loopback.pushes_outstanding(), protocol::receivers_at_once(kMany));
  while (TilePushes::has_more(record)) {
    bench.take_answers();
    bench.pushes.push_more(record);
  }
  bench.take_answers();
  EXPECT_EQ(record.pushes_left, 0U);
  for (std::uint32_t rank = 0; rank < kMany; ++rank) EXPECT_TRUE(bench.has_result(rank)) << rank;
}

TEST(TilePushes, DroppedPushesAreNotAwaited) {
  PushesBench bench(Mode::kStaged, 3);
  TileRecord& record = bench.summed(3);
  bench.pushes.start(record, bench.pushes.locate(record));
  TilePushes::drop_rest(record);
  EXPECT_EQ(record.pushes_left, 0U);
  EXPECT_FALSE(TilePushes::has_more(record));
  EXPECT_EQ(PushesBench::awaited(record), Sessions{});
}

TEST(TilePushes, FailedPushNamesItsReceiver) {
  PushesBench bench(Mode::kStaged, 3);
  TileRecord& record = bench.summed(3);
  bench.pushes.start(record, bench.pushes.locate(record));
  bench.pushes.push_more(record);
  bench.loopback.remove_region(1, TileBench::kOut);
  bench.take_answers();
  EXPECT_EQ(record.pushes_left, 0U);
  EXPECT_NE(record.status, Status::kOk);
  EXPECT_EQ(record.culprit, 1U);
}

TEST(TilePushes, ChildNodeGetsTheResultWhenItHasRoom) {
  for (const Mode mode : {Mode::kDirect, Mode::kStaged}) {
    PushesBench bench(mode, 1);
    TileRecord& record = bench.summed(0);
    record.tile.below.push_back({0, 0, protocol::kNone});
    bench.pushes.start(record, {});
    EXPECT_EQ(record.pushes_left, 1U);
    EXPECT_EQ(PushesBench::awaited(record), Sessions{0});
    protocol::TileEvent event{.handle = record.tile.handle, .buffer = 5};
    event.where = {0, TileBench::kOut, 0, TileBench::kBytes, 0};
    bench.pushes.push_down(record, event);
    EXPECT_EQ(record.tile.below[0].buffer, 5U);
    EXPECT_EQ(record.pushes_left, 1U);
    EXPECT_EQ(bench.take_answers().below, 0U);
    EXPECT_EQ(record.pushes_left, 0U);
    EXPECT_TRUE(bench.has_result(0));
  }
}

TEST(TilePushes, ChildNodeThatIsLostOrFencedFailsTheTile) {
  for (const Status status : {Status::kOk, Status::kPeerLeft}) {
    PushesBench bench(Mode::kDirect, 1);
    TileRecord& record = bench.summed(0);
    record.tile.below.push_back({0, 0, protocol::kNone});
    bench.pushes.start(record, {});
    bench.loopback.fence(0);
    protocol::TileEvent event{.handle = record.tile.handle, .status = status};
    event.where = {0, TileBench::kOut, 0, TileBench::kBytes, 0};
    bench.pushes.push_down(record, event);
    EXPECT_EQ(record.pushes_left, 0U);
    EXPECT_EQ(record.status, status == Status::kOk ? Status::kPeerLost : status);
    EXPECT_EQ(record.culprit, 0U);
    EXPECT_FALSE(bench.has_result(0));
  }
}

}  // namespace
}  // namespace tally::engine
