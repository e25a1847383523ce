// When roots may start tiles, and which of their operations goes on.
#include "dataplane/protocol/scheduling/pacer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace tally::protocol {
namespace {

constexpr JobId kJob = 3;
constexpr std::uint32_t kVertex = 1;
constexpr std::uint64_t kRate = 1'000'000;  // bytes per second
constexpr std::uint64_t kTile = 10'000;     // 10 ms at this rate

class PacerTest : public ::testing::Test {
 protected:
  void add(std::uint32_t height = 1) { pacer_.add({kJob, kVertex, 0, height, kRate, 8}); }

  // Starts tiles of one operation from `begin` on for so long. Tiles end when `most` are in flight.
  // Returns how many have started.
  std::uint32_t run(Nanos begin, Nanos time, std::uint32_t most) {
    std::uint32_t started = 0;
    std::uint32_t in_flight = 0;
    bool ready = true;
    for (Nanos now = begin; now < begin + time; now += kMillisecond / 10) {
      pacer_.reach(now);
      pacer_.release([&](JobId, std::uint32_t, const auto&) { ready = true; });
      while (ready && pacer_.is_due(kJob, kVertex)) {
        pacer_.started(kJob, kVertex, kTile);
        ++started;
        ++in_flight;
      }
      if (ready) pacer_.hold(kJob, kVertex, {0, 0, 0});
      ready = false;
      for (; in_flight >= most && in_flight > 0; --in_flight) pacer_.ended(kJob, kVertex);
    }
    pacer_.remove(kJob, kVertex, 0);
    for (; in_flight > 0; --in_flight) pacer_.ended(kJob, kVertex);
    return started;
  }

  std::vector<PoolIndex> released(Nanos now) {
    std::vector<PoolIndex> operations;
    pacer_.reach(now);
    pacer_.release([&](JobId job, std::uint32_t vertex, const auto& ready) {
      EXPECT_EQ(job, kJob);
      EXPECT_EQ(vertex, kVertex);
      operations.push_back(ready.operation);
    });
    return operations;
  }

  Pacer pacer_;
};

TEST_F(PacerTest, ARootWithoutAPaceIsAlwaysDue) {
  pacer_.add({kJob, kVertex, 0, 1, 0, 8});
  for (int i = 0; i < 100; ++i) {
    pacer_.started(kJob, kVertex, kTile);
    EXPECT_TRUE(pacer_.is_due(kJob, kVertex));
    EXPECT_TRUE(pacer_.is_due(kJob + 1, kVertex));
  }
  EXPECT_FALSE(pacer_.has_held());
  EXPECT_EQ(pacer_.next_release(), kForever);
}

// A tree of one level has at most two tiles in flight where none waits.
TEST_F(PacerTest, OnAFullNetworkARootKeepsThePace) {
  add();
  EXPECT_NEAR(run(0, 10 * kSecond, 3), 1000, 5);
}

TEST_F(PacerTest, ARootIsFasterWhileTheNetworkHasRoomAndThenKeepsThePaceAgain) {
  add(2);
  const std::uint32_t quick = run(0, 10 * kSecond, 1);
  EXPECT_GT(quick, 10'000U);
  EXPECT_NEAR(run(20 * kSecond, 10 * kSecond, 4), 1000, 50);
}

// Otherwise the tiles of all trees come to each link at the same time.
TEST_F(PacerTest, TreesThatBeginTogetherDoNotStayTogether) {
  constexpr std::uint32_t kTrees = 10;
  for (std::uint32_t tree = 0; tree < kTrees; ++tree) {
    pacer_.add({kJob, tree, tree, 1, kRate, 8});
  }
  for (const Nanos begin : {kSecond, 5 * kSecond}) {  // after a pause, too
    pacer_.reach(begin);
    std::vector<Nanos> releases;
    for (std::uint32_t tree = 0; tree < kTrees; ++tree) {
      ASSERT_TRUE(pacer_.is_due(kJob, tree)) << "the first tiles do not wait";
      pacer_.started(kJob, tree, kTile);
      pacer_.hold(kJob, tree, {0, 0, tree});
      releases.push_back(pacer_.next_release());
      pacer_.remove(kJob, tree, tree);
      pacer_.ended(kJob, tree);
    }
    std::ranges::sort(releases);
    EXPECT_GE(releases.front(), begin + 10 * kMillisecond);
    EXPECT_LT(releases.back(), begin + 20 * kMillisecond);
    for (std::uint32_t i = 1; i < kTrees; ++i) {
      EXPECT_GT(releases[i] - releases[i - 1], kMillisecond / 2);
    }
  }
}

TEST_F(PacerTest, LostTimeIsMadeUpForToABound) {
  add();
  pacer_.reach(kSecond);
  pacer_.started(kJob, kVertex, kTile / 10);  // due 1 ms later
  pacer_.reach(2 * kSecond);
  std::uint32_t started = 0;
  for (; pacer_.is_due(kJob, kVertex); ++started) pacer_.started(kJob, kVertex, kTile / 10);
  EXPECT_EQ(started, 6U) << "one tile, and those of 5 ms";
}

// A thread that is late takes the ends of tiles first. Then it starts the held operation's.
TEST_F(PacerTest, ALateThreadMakesUpForLostTimeAfterAllTilesHaveEnded) {
  pacer_.add({kJob, kVertex, 1, 1, kRate, 8});
  pacer_.reach(kSecond);
  pacer_.started(kJob, kVertex, kTile / 10);
  pacer_.hold(kJob, kVertex, {0, 0, 0});
  pacer_.ended(kJob, kVertex);
  ASSERT_EQ(released(kSecond + 5 * kMillisecond).size(), 1U);
  std::uint32_t started = 0;
  for (; pacer_.is_due(kJob, kVertex); ++started) pacer_.started(kJob, kVertex, kTile / 10);
  EXPECT_EQ(started, 4U);
}

// Each is over before the next one comes.
TEST_F(PacerTest, OperationsOfOneTileAreFasterToo) {
  add();
  std::uint32_t started = 0;
  bool waits = false;
  for (Nanos now = 0; now < 10 * kSecond; now += kMillisecond / 10) {
    pacer_.reach(now);
    pacer_.release([&](JobId, std::uint32_t, const auto&) { waits = false; });
    if (waits) continue;
    if (!pacer_.is_due(kJob, kVertex)) {
      pacer_.hold(kJob, kVertex, {0, 0, 0});
      waits = true;
      continue;
    }
    pacer_.started(kJob, kVertex, kTile);
    pacer_.ended(kJob, kVertex);
    ++started;
  }
  EXPECT_GT(started, 10'000U);
}

TEST_F(PacerTest, TilesInFlightAreBounded) {
  add(2);
  for (std::uint32_t i = 0; i < 2 * Pacer::kMostTiles; ++i) {
    pacer_.reach(i * kSecond);
    ASSERT_TRUE(pacer_.is_due(kJob, kVertex)) << i;
    pacer_.started(kJob, kVertex, kTile);
  }
  pacer_.reach(kSecond * kSecond);
  EXPECT_FALSE(pacer_.is_due(kJob, kVertex));
  pacer_.hold(kJob, kVertex, {0, 0, 10});
  EXPECT_EQ(pacer_.next_release(), kForever) << "no time helps";
  pacer_.ended(kJob, kVertex);
  EXPECT_EQ(released(kSecond * kSecond), std::vector<PoolIndex>{10});
}

TEST_F(PacerTest, HeldOperationsReturnOneAtATimeInTheSchedulersOrder) {
  add();
  pacer_.started(kJob, kVertex, kTile);
  ASSERT_FALSE(pacer_.is_due(kJob, kVertex));
  pacer_.hold(kJob, kVertex, {.priority = 0, .age = 1, .operation = 11});
  pacer_.hold(kJob, kVertex, {.priority = 0, .age = 0, .operation = 10});
  pacer_.hold(kJob, kVertex, {.priority = 7, .age = 2, .operation = 12});
  const Nanos due = pacer_.next_release();
  EXPECT_EQ(due, 10 * kMillisecond);
  EXPECT_TRUE(released(due - 1).empty());
  EXPECT_EQ(released(due), std::vector<PoolIndex>{12});
  EXPECT_EQ(released(due), std::vector<PoolIndex>{10});
  EXPECT_EQ(released(due), std::vector<PoolIndex>{11});
  EXPECT_FALSE(pacer_.has_held());
}

TEST_F(PacerTest, OperationsThatHaveFailedDoNotReturn) {
  add();
  pacer_.started(kJob, kVertex, kTile);
  for (const PoolIndex one : {10U, 11U}) pacer_.hold(kJob, kVertex, {0, one, one});
  pacer_.remove(kJob, kVertex, 12);  // is not held
  pacer_.remove(kJob, kVertex, 10);
  EXPECT_EQ(released(kSecond), std::vector<PoolIndex>{11});
  pacer_.started(kJob, kVertex, kTile);
  pacer_.hold(kJob, kVertex, {0, 0, 13});
  pacer_.remove(kJob, kVertex, 13);
  EXPECT_FALSE(pacer_.has_held());
}

TEST_F(PacerTest, AJobThatEndsTakesItsOperationsAlong) {
  add();
  pacer_.add({kJob + 1, kVertex, 0, 1, kRate, 8});
  for (const JobId job : {kJob, kJob + 1}) {
    pacer_.started(job, kVertex, kTile);
    pacer_.hold(job, kVertex, {0, 0, job});
  }
  pacer_.remove_job(kJob + 1);
  pacer_.remove_job(kJob + 2);  // has no roots
  EXPECT_EQ(released(kSecond), std::vector<PoolIndex>{kJob});
  EXPECT_TRUE(pacer_.is_due(kJob + 1, kVertex)) << "the next job of this number has no pace yet";
}

}  // namespace
}  // namespace tally::protocol
