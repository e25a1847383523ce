// Seeded schedules: ranks post operations of random kinds and sizes to random streams of devices
// with random delays. Some are cancelled, or a rank comes too late for one. Each result is right,
// each failure has its status at all ranks, and no stream is left waiting.
//
// $TALLY_TEST_SEED repeats one schedule.
#include <gtest/gtest.h>

#include <barrier>
#include <cstdlib>
#include <random>

#include "tests/e2e/cuda/fixture.h"
#include "tests/support/reference.h"
#include "tests/support/tier.h"

namespace tally::testing {
namespace {

constexpr std::uint32_t kRanks = 2;
constexpr std::size_t kStreams = 3;
constexpr std::uint64_t kElements = 700'000;  // of a buffer
constexpr std::size_t kBuffers = 6;           // one for each operation of a schedule

enum class Trouble { kNone, kCancelled, kLeftOut };

struct Step {
  tally_kind kind;
  std::uint64_t count;
  bool in_place;
  std::size_t stream;
  Trouble trouble;
  std::uint32_t culprit;
};

// The same at all ranks.
std::vector<Step> schedule_of(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto below = [&](std::uint64_t limit) { return random() % limit; };
  constexpr tally_kind kKinds[] = {TALLY_ALL_REDUCE, TALLY_REDUCE, TALLY_BROADCAST,
                                   TALLY_REDUCE_SCATTER, TALLY_ALL_GATHER};
  const bool trouble = below(20) == 0;
  std::vector<Step> steps;
  const std::size_t size = 1 + below(kBuffers);
  for (std::size_t i = 0; i < size; ++i) {
    const std::uint64_t most = below(16) == 0 ? kElements : below(4) == 0 ? 20'000 : 300;
    Step step{kKinds[below(5)], 1 + below(most), below(2) == 0,
              below(kStreams),  Trouble::kNone,  static_cast<std::uint32_t>(below(kRanks))};
    if (trouble && i + 1 == size) {
      step.trouble = below(2) == 0 ? Trouble::kCancelled : Trouble::kLeftOut;
    }
    step.in_place &= step.kind == TALLY_ALL_REDUCE;
    steps.push_back(step);
  }
  return steps;
}

std::int32_t value_of(std::uint64_t seed, std::uint32_t rank, std::uint64_t element) {
  return static_cast<std::int32_t>((seed * 31 + rank * 7919 + element * 2654435761U) % 1000);
}

class ScheduledRank {
 public:
  ScheduledRank(const LocalNode& node, const cuda::Driver& driver, std::uint32_t index)
      : index_(index),
        thread_(driver, static_cast<int>(index)),
        rank_(node.address(), index, kRanks) {
    EXPECT_EQ(rank_.opened(), TALLY_OK) << rank_.open_error();
    for (std::size_t i = 0; i < kStreams; ++i) {
      streams_.push_back(std::make_unique<DeviceStream>(thread_));
    }
    for (std::size_t i = 0; i < kBuffers; ++i) {
      arrays_.push_back(std::make_unique<DeviceArray<std::int32_t>>(thread_, 2 * kElements));
      regions_.push_back(arrays_.back()->register_with(rank_.session()));
    }
  }
  ~ScheduledRank() { rank_.close(); }
  ScheduledRank(const ScheduledRank&) = delete;
  ScheduledRank& operator=(const ScheduledRank&) = delete;

  void run(std::uint64_t seed, std::barrier<>& all_ranks) {
    const auto steps = schedule_of(seed);
    const Step& last = steps.back();
    const bool leaves_out = last.trouble == Trouble::kLeftOut && last.culprit == index_;
    const std::size_t posted = steps.size() - (leaves_out ? 1 : 0);
    for (std::size_t i = 0; i < posted; ++i) post(seed, i, steps[i]);
    for (std::size_t i = 0; i < posted; ++i) take(seed, steps);
    all_ranks.arrive_and_wait();
    if (leaves_out) {  // and posts too late
      post(seed, posted, last);
      take(seed, steps);
    }
    for (std::size_t i = 0; i < steps.size(); ++i) verify(seed, i, steps[i]);
    for (const auto& stream : streams_) stream->finish();
  }

 private:
  static std::vector<std::int32_t> input_of(std::uint64_t seed, std::size_t at, std::uint32_t rank,
                                            std::uint64_t count) {
    std::vector<std::int32_t> values(count);
    for (std::uint64_t i = 0; i < count; ++i) values[i] = value_of(seed + at, rank, i);
    return values;
  }

  void post(std::uint64_t seed, std::size_t at, const Step& step) {
    const DeviceStream& stream = *streams_[step.stream];
    arrays_[at]->fill(input_of(seed, at, index_, step.count), stream);
    const std::uint64_t out = step.in_place ? 0 : kElements * sizeof(std::int32_t);
    auto wanted = operation(step.kind, TALLY_I32, static_cast<std::uint32_t>(at), step.count,
                            {regions_[at], 0}, {regions_[at], out});
    wanted.stream = stream.get();
    wanted.root = 1;
    if (step.trouble == Trouble::kLeftOut) wanted.deadline_ms = 20;
    ASSERT_EQ(tally_post(rank_.session(), &wanted), TALLY_OK) << rank_.error();
    if (step.trouble == Trouble::kCancelled && step.culprit == index_) {
      ASSERT_EQ(tally_cancel(rank_.session(), static_cast<std::uint32_t>(at)), TALLY_OK);
    }
  }

  void take(std::uint64_t seed, const std::vector<Step>& steps) {
    const auto done = rank_.wait();
    ASSERT_LT(done.tag, steps.size());
    const Trouble trouble = steps[done.tag].trouble;
    if (trouble == Trouble::kNone) {
      EXPECT_EQ(done.status, TALLY_OK) << done.message << "; seed " << seed;
    } else if (trouble == Trouble::kLeftOut) {
      EXPECT_EQ(done.status, TALLY_DEADLINE) << "seed " << seed;
    } else {  // it may have ended before
      EXPECT_TRUE(done.status == TALLY_OK || done.status == TALLY_CANCELLED) << "seed " << seed;
    }
  }

  void verify(std::uint64_t seed, std::size_t at, const Step& step) {
    if (step.trouble != Trouble::kNone) return;
    std::vector<std::vector<std::int32_t>> inputs;
    std::vector<const std::byte*> starts;
    for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
      inputs.push_back(input_of(seed, at, rank, step.count));
      starts.push_back(reinterpret_cast<const std::byte*>(inputs.back().data()));
    }
    const protocol::Shape shape{static_cast<wire::Kind>(step.kind),
                                ElementType::kI32,
                                Operation::kSum,
                                1,
                                kRanks,
                                step.count};
    compute_expected(shape, starts, expected_);
    const auto result = result_of(shape, static_cast<std::uint16_t>(index_), expected_);
    if (result.empty()) return;
    const auto got =
        arrays_[at]->read(step.in_place ? 0 : kElements, result.size() / sizeof(std::int32_t),
                          *streams_[step.stream]);
    EXPECT_EQ(std::memcmp(got.data(), result.data(), result.size()), 0)
        << "seed " << seed << " step " << at << " kind " << step.kind << " count " << step.count;
  }

  std::uint32_t index_;
  DeviceThread thread_;
  Rank rank_;
  std::vector<std::unique_ptr<DeviceStream>> streams_;
  std::vector<std::unique_ptr<DeviceArray<std::int32_t>>> arrays_;
  std::vector<tally_region*> regions_;
  Expected expected_;
};

void run_schedules(const MachineOptions& options, std::uint64_t first, std::uint64_t count) {
  const CudaMachine machine(options);
  const LocalNode node;
  std::barrier all_ranks(kRanks);
  on_each_rank(kRanks, [&](std::uint32_t index) {
    ScheduledRank rank(node, machine.driver(), index);
    for (std::uint64_t seed = first; seed < first + count; ++seed) {
      rank.run(seed, all_ranks);
    }
  });
}

TEST(CudaSchedules, GiveRightResultsAndLeaveNoStreamWaiting) {
  MachineOptions options{.devices = kRanks};
  if (const auto why = CudaMachine::why_not(options); !why.empty()) GTEST_SKIP() << why;
  if (const char* seed = std::getenv("TALLY_TEST_SEED"); seed != nullptr) {
    options.seed = 1;
    return run_schedules(options, std::strtoull(seed, nullptr, 10), 1);
  }
  const char* const transport = std::getenv("TALLY_TRANSPORT");
  const bool all = transport == nullptr || std::string_view(transport) == "shm";
  const std::uint64_t wanted = test_tier() == "fast"   ? 1'000
                               : test_tier() == "soak" ? 100'000
                                                       : 4'000;
  // The others are tests of the transports.
  const std::uint64_t schedules = all ? wanted : wanted / 20;
  constexpr std::uint64_t kBatch = 250;
  for (std::uint64_t first = 0; first < schedules && !HasFailure(); first += kBatch) {
    options.queues = first / kBatch % 2 == 0 ? 8 : 1;
    options.seed = first / kBatch;
    run_schedules(options, first, kBatch);
  }
}

}  // namespace
}  // namespace tally::testing
