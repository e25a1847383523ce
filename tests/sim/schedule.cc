#include "tests/sim/schedule.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/clock.h"

namespace tally::sim {
namespace {

using wire::Kind;

constexpr std::uint64_t kSplitBytes = 8 << 10;

std::uint64_t random_count(Random& random) {
  switch (random.below(12)) {
    case 0:
      return 0;
    case 1:
      return 1;
    case 2:
      return random.between(2, 7);
    case 3:
      return random.between(4094, 4098);  // around a block
    case 4:
      return random.between(4097, 13'000);  // several tiles, several parts
    default:
      return random.between(8, 600);
  }
}

protocol::Shape random_shape(Random& random, std::uint16_t ranks) {
  protocol::Shape shape;
  shape.ranks = ranks;
  shape.kind = static_cast<Kind>(random.chance(0.4) ? 1 : random.between(1, 6));
  shape.type = kElementTypes[random.below(kElementTypes.size())].type;
  shape.operation = static_cast<Operation>(random.below(kOperationNames.size()));
  shape.count = shape.kind == Kind::kBarrier ? 0 : random_count(random);
  const bool rooted = shape.kind == Kind::kReduce || shape.kind == Kind::kBroadcast;
  shape.root = rooted ? static_cast<std::uint16_t>(random.below(ranks)) : 0;
  return shape;
}

// The same in all fields but one.
protocol::Shape differing(Random& random, const protocol::Shape& shape) {
  for (;;) {
    protocol::Shape odd = shape;
    const protocol::Shape other = random_shape(random, shape.ranks);
    switch (random.below(5)) {
      case 0:
        odd.kind = other.kind;
        if (odd.kind == Kind::kBarrier) odd.count = 0;
        break;
      case 1:
        odd.type = other.type;
        break;
      case 2:
        odd.operation = other.operation;
        break;
      case 3:
        if (odd.kind != Kind::kBarrier) odd.count = other.count;
        break;
      default:
        odd.root = other.root;
        break;
    }
    const bool rooted = odd.kind == Kind::kReduce || odd.kind == Kind::kBroadcast;
    if (!rooted) odd.root = 0;
    const bool same = odd.kind == shape.kind && odd.type == shape.type &&
                      odd.operation == shape.operation && odd.count == shape.count &&
                      odd.root == shape.root;
    if (!same) return odd;
  }
}

void choose_troubles(Random& random, JobPlan& job) {
  const std::uint64_t count = random.chance(0.6) ? 1 : random.between(2, 3);
  for (std::uint64_t i = 0; i < count; ++i) job.troubles |= 1u << random.below(kTroubles);
  // Ranks that misbehave alone have nobody to tell.
  job.victim = static_cast<std::uint16_t>(random.below(job.ranks));
  job.when = static_cast<Nanos>(random.below(3 * kMillisecond));
  job.until = job.when + static_cast<Nanos>(random.below(3 * kSecond));
  job.for_good = random.chance(0.3);
}

OpPlan make_op(Random& random, const JobPlan& job) {
  OpPlan op;
  op.tag = static_cast<std::uint32_t>(random.below(job.tags));
  op.shape = random_shape(random, job.ranks);
  op.priority = static_cast<std::uint8_t>(random.below(3));
  op.in_place = random.chance(0.5) ? random.next() : random.chance(0.5) ? ~0ULL : 0;
  const bool whole = op.shape.kind == Kind::kAllReduce || op.shape.kind == Kind::kReduce;
  if (whole && random.chance(0.3)) op.wants_stats = random.next();
  if (job.has(Trouble::kAbsent) || job.has(Trouble::kLate)) {
    op.deadline_ms = static_cast<std::uint32_t>(random.between(5, 50));
  }
  if (job.has(Trouble::kMismatch) && job.ranks > 1 && random.chance(0.4)) {
    op.odd_rank = static_cast<std::uint16_t>(random.below(job.ranks));
    op.odd_shape = differing(random, op.shape);
  }
  if (job.has(Trouble::kBadRegion) && random.chance(0.4)) {
    op.bad_rank = static_cast<std::uint16_t>(random.below(job.ranks));
  }
  return op;
}

JobPlan make_job(Random& random, std::uint32_t index) {
  JobPlan job;
  job.ranks = static_cast<std::uint16_t>(random.between(1, 6));
  if (random.chance(0.01)) job.ranks = static_cast<std::uint16_t>(random.between(17, 20));
  job.weight = static_cast<std::uint32_t>(random.between(1, 4));
  job.epoch = index + 1;
  job.tags = static_cast<std::uint32_t>(random.between(1, 5));
  if (random.chance(0.55)) choose_troubles(random, job);
  const std::uint64_t ops = random.between(1, 10);
  // A verdict for a late rank is kept while there is credit for it, so troubled jobs have enough.
  job.credit = static_cast<std::uint32_t>(job.healthy() ? random.between(1, 6) : 16);
  job.block = random.between(1, job.credit);
  job.after = random.below(ops + 1);
  std::vector<std::uint32_t> rounds(job.tags);
  for (std::uint64_t i = 0; i < ops; ++i) {
    job.ops.push_back(make_op(random, job));
    job.ops.back().round = rounds[job.ops.back().tag]++;
  }
  return job;
}

// From numbers of its own, so that all else of a seed is as it would be without checksums.
void choose_checksums(Random random, JobPlan& job) {
  if (random.chance(0.4)) return;
  job.corruption = random.chance(0.5) ? 0.1 : 0;
  job.checksums = job.corruption > 0 || random.chance(0.4) ? ~0ULL : random.next();
}

// A class of small operations with a tree of its own. Not where ranks disagree about counts: whose
// counts fall in classes with other homes find out by the deadline alone. From numbers of its own,
// as above.
void choose_classes(Random random, Schedule& schedule) {
  const bool disagree = std::any_of(schedule.jobs.begin(), schedule.jobs.end(),
                                    [](const JobPlan& job) { return job.has(Trouble::kMismatch); });
  if (disagree || random.chance(0.7)) return;
  const auto tree = static_cast<std::uint32_t>(random.below(schedule.shards));
  schedule.plan.classes.insert(schedule.plan.classes.begin(),
                               {random.below(kSplitBytes - 1), false, {tree}, {65536}});
}

}  // namespace

std::string_view name(Trouble trouble) {
  static constexpr std::array<std::string_view, kTroubles> kNames = {
      "mismatch", "bad region", "cancel", "absent", "late",     "death",     "death on use",
      "garbage",  "fence",      "leave",  "stop",   "transfer", "duplicate", "flip"};
  return kNames[static_cast<std::size_t>(trouble)];
}

Schedule make_schedule(std::uint64_t seed) {
  Random random(seed);
  Schedule schedule;
  schedule.seed = seed;
  schedule.shards = static_cast<std::uint32_t>(random.between(1, 4));
  schedule.plan = protocol::even_partition(schedule.shards, kSplitBytes);
  if (random.chance(0.3) && schedule.shards > 1) {  // uneven: parts may be empty
    auto weights = schedule.plan.classes.back().weights;
    const auto moved = static_cast<std::uint32_t>(random.below(weights[0] + 1));
    weights[0] -= moved;
    weights.back() += moved;
    schedule.plan = protocol::weighted_partition(weights, kSplitBytes);
  }
  schedule.tile_bytes = random.chance(0.5) ? 4096 : random.between(1, 8) << 14;
  schedule.tiles = static_cast<std::uint32_t>(random.between(1, 8));
  schedule.window_bytes = random.between(16, 512) << 10;
  const bool staged = random.chance(0.5);
  schedule.loopback.mode =
      staged ? transport::LoopbackConfig::Mode::kStaged : transport::LoopbackConfig::Mode::kDirect;
  if (random.chance(0.2)) schedule.loopback.span_bytes = 8 * random.between(30, 900);
  schedule.delay = random.chance(0.7) ? 0.3 : 0;
  schedule.activity = random.chance(0.5) ? 1 : 0.2;
  const std::uint64_t jobs = random.between(1, 3);
  for (std::uint32_t job = 0; job < jobs; ++job) {
    schedule.jobs.push_back(make_job(random, job));
    choose_checksums(Random((seed ^ 0xc4c32c) * 4 + job), schedule.jobs.back());
  }
  choose_classes(Random(seed ^ 0xc1a55e5), schedule);
  return schedule;
}

std::string describe(const Schedule& schedule) {
  const bool staged = schedule.loopback.mode == transport::LoopbackConfig::Mode::kStaged;
  std::string text = fmt::format(
      "seed {}: {} shards, {} tiles of {} bytes, window {}, {}", schedule.seed, schedule.shards,
      schedule.tiles, schedule.tile_bytes, schedule.window_bytes, staged ? "staged" : "direct");
  for (const JobPlan& job : schedule.jobs) {
    text +=
        fmt::format("; {} ranks, {} operations, credit {}", job.ranks, job.ops.size(), job.credit);
    if (job.checksums != 0) text += ", checksums";
    if (job.corruption > 0) text += ", corrupted pulls";
    for (std::size_t t = 0; t < kTroubles; ++t) {
      if (job.has(static_cast<Trouble>(t))) {
        text += fmt::format(", {}", name(static_cast<Trouble>(t)));
      }
    }
  }
  return text;
}

}  // namespace tally::sim
