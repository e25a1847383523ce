// How full a shard keeps the window over a network with delayed answers, from few ranks to many.
#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "dataplane/engine/shard.h"
#include "dataplane/wire/notice.h"
#include "tests/support/slow_link.h"

namespace tally::engine {
namespace {

using testing::SlowLink;

constexpr std::uint64_t kWindow = 1 << 20;
constexpr Nanos kLatency = 1 * kMillisecond;

// Of the time between the first push and the last pull: both ways could be used all the while.
struct Flight {
  double pulls = 0;  // bytes on their way, on average, over the window
  double pushes = 0;
  double both = 0;            // of the time: some pulls and some pushes are on their way
  double nanos_per_byte = 0;  // of input
};

double average(const std::vector<SlowLink::Passage>& passages, Nanos begin, Nanos end) {
  double sum = 0;
  for (const auto& passage : passages) {
    const Nanos inside = std::min(passage.end, end) - std::max(passage.begin, begin);
    if (inside > 0) sum += static_cast<double>(passage.bytes) * static_cast<double>(inside);
  }
  return sum / static_cast<double>(end - begin) / static_cast<double>(kWindow);
}

double share_with_both(const SlowLink& link, Nanos begin, Nanos end) {
  std::map<Nanos, std::pair<int, int>> changes;
  for (const auto& passage : link.pulled()) {
    ++changes[passage.begin].first, --changes[passage.end].first;
  }
  for (const auto& passage : link.pushed()) {
    ++changes[passage.begin].second, --changes[passage.end].second;
  }
  int pulls = 0, pushes = 0;
  Nanos from = begin, both = 0;
  for (const auto& [at, change] : changes) {
    const Nanos to = std::clamp(at, begin, end);
    if (pulls > 0 && pushes > 0) both += to - from;
    from = to;
    pulls += change.first;
    pushes += change.second;
  }
  return static_cast<double>(both) / static_cast<double>(end - begin);
}

Flight measure(std::uint16_t ranks, std::uint64_t bytes) {
  const std::vector<std::byte> input(bytes);
  SlowLink link(kLatency, kWindow, input);
  ShardConfig config;
  config.protocol.plan = protocol::even_partition(1, 1 << 20);
  config.protocol.window_bytes = kWindow;
  config.kernels = summation::kernels(summation::best_isa());
  config.max_ranks = ranks;
  Shard shard(config, link);
  shard.protocol().add_job(0, {.epoch = 1, .ranks = ranks, .weight = 1, .credit = 8});
  wire::Notice notice;
  notice.epoch = 1;
  notice.count = bytes / 4;
  notice.in_region = 1;
  notice.out_region = 2;
  for (std::uint16_t rank = 0; rank < ranks; ++rank) {
    shard.protocol().join(0, rank, rank);
    link.send(rank, wire::encode(notice));
  }
  Nanos now = 1;
  while (link.completions().size() < ranks) {
    link.reach(now);
    if (shard.turn(now)) continue;
    if (link.next() == 0) break;
    now = link.next();
  }
  EXPECT_EQ(link.completions().size(), ranks);
  EXPECT_EQ(link.pulled().size(), link.pushed().size());
  const Nanos begin = link.pushed().front().begin, end = link.pulled().back().end;
  Flight flight;
  flight.pulls = average(link.pulled(), begin, end);
  flight.pushes = average(link.pushed(), begin, end);
  flight.both = share_with_both(link, begin, end);
  std::uint64_t pulled = 0;
  for (const auto& passage : link.pulled()) pulled += passage.end > begin ? passage.bytes : 0;
  flight.nanos_per_byte = static_cast<double>(end - begin) / static_cast<double>(pulled);
  return flight;
}

TEST(ShardWindow, IsFullBothWaysHoweverManyRanksThereAre) {
  const double few = measure(16, 4 << 20).nanos_per_byte;
  for (const auto& [ranks, bytes] : {std::pair<std::uint16_t, std::uint64_t>{16, 4 << 20},
                                     {17, 4 << 20},
                                     {64, 4 << 20},
                                     {256, 1 << 20},
                                     {1024, 512 << 10}}) {
    const Flight flight = measure(ranks, bytes);
    std::printf(
        "%4u ranks: %.2f of the window pulled, %.2f pushed, both %.2f of the time, "
        "time per byte %.2f of 16 ranks'\n",
        ranks, flight.pulls, flight.pushes, flight.both, flight.nanos_per_byte / few);
    EXPECT_GE(flight.pulls, 0.8) << ranks;
    EXPECT_GE(flight.pushes, 0.8) << ranks;
    EXPECT_GE(flight.both, 0.95) << ranks;
    EXPECT_LE(flight.nanos_per_byte, 1.15 * few) << ranks;
  }
}

}  // namespace
}  // namespace tally::engine
