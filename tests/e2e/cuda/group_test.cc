// All-reduces of machines with several GPUs: results, bytes, order, overlap.
#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <mutex>
#include <nlohmann/json.hpp>
#include <random>

#include "gpu_bridge/machine/test_hosts.h"
#include "net/rpc/rpc_channel.h"
#include "tests/e2e/cuda/group_fixture.h"
#include "tests/support/tier.h"

namespace tally::testing {
namespace {

struct Machines {
  const char* name;
  host::Host (*make)();
  std::size_t hosts;
};

host::Host two_gpus() {
  return host::pcie_host(1);
}
host::Host four_gpus() {
  return host::pcie_host(2);
}
host::Host eight_gpus() {
  return host::pcie_host(4);
}
host::Host pairs() {
  return host::mixed_host(false);
}

constexpr Machines kMachines[] = {
    {"TwoHostsOfTwoGpus", two_gpus, 2},
    {"TwoHostsOfFourGpus", four_gpus, 2},
    {"OneHostOfTwoSwitches", eight_gpus, 1},
    {"OneHostWithNvswitch", host::nvlink_host, 1},
    {"OneHostOfPairs", pairs, 1},
};

constexpr const char* kStrategies[] = {
    "none",           "CPU-assisted",
    "NVLink islands", "NVLink islands, best shares",
    "reduce-scatter", "reduce-scatter, best shares",
    "reduce",         "chosen",
};

class GroupStrategies : public ::testing::TestWithParam<Machines> {};

// A GPU's part of the bytes of its group.
double share_of(const host::Group& group, host::VertexId gpu) {
  double weight = 0;
  for (const host::Share& share : group.shares) weight += share.gpu == gpu ? share.weight : 0;
  return weight;
}

// What a rank must move for each byte of gradient: strategy.h has the formulas.
struct RankBytes {
  double ring = 0;   // over NCCL, to the next one of the ring
  double tally = 0;  // through Tally, and over the bus each way
};

RankBytes bytes_of(const gpu::Division& division, const host::Group& group, std::size_t index,
                   std::uint32_t rank) {
  const auto& members = division.members(index);
  const double own = share_of(group, members[rank]);
  if (members.size() == 1) return {0, own};
  return {(1 - own) + (1 - share_of(group, members[(rank + 1) % members.size()])), own};
}

// The bytes that the node has read from a rank: those of the columns that it owns.
std::uint64_t bytes_at_node(const Cluster& cluster, std::size_t group, std::uint32_t rank) {
  auto channel =
      rpc::RpcChannel::connect(cluster.address(), monotonic_now() + 20 * kSecond).value();
  std::uint64_t bytes = 0;
  for (const std::size_t column : cluster.division().columns_of(group, rank)) {
    const auto metrics =
        channel.call("node.metrics", {{"job", gpu::Division::job_of("gpus", column)}}, {},
                     monotonic_now() + 20 * kSecond);
    EXPECT_TRUE(metrics) << (metrics ? "" : metrics.error().message);
    if (metrics) bytes += (*metrics)["ranks"][group]["bytes_in"].get<std::uint64_t>();
  }
  return bytes;
}

// The group of a rank among all.
std::size_t group_of(const gpu::Division& division, std::uint32_t rank) {
  std::size_t group = 0;
  while (group + 1 < division.groups() && division.rank_of(group + 1, 0) <= rank) ++group;
  return group;
}

void run_strategy(const Groups& groups) {
  Cluster cluster(groups);
  constexpr std::uint64_t kSizes[] = {1, 7, 1000, 70'001, 300'000};
  constexpr std::uint64_t kTotal = 1 + 7 + 1000 + 70'001 + 300'000;
  const gpu::Division& division = cluster.division();
  cluster.on_each([&](GroupRank& rank) {
    const DeviceArray<float> array(rank.thread(), 300'000);
    ASSERT_TRUE(rank.group().add_buffer(array.data(), array.bytes()));
    std::uint32_t tag = 0;
    for (const std::uint64_t count : kSizes) {
      array.fill(group_values(rank.index(), count), rank.stream());
      const auto done = rank.run(group_operation(array, rank.stream(), count, tag++));
      ASSERT_EQ(done.status, Status::kOk) << done.message;
      ASSERT_EQ(array.read(0, count, rank.stream()), group_sum(division.ranks(), count)) << count;
    }
    const std::size_t group = group_of(division, rank.index());
    const std::uint32_t inside = rank.index() - division.rank_of(group, 0);
    const RankBytes expected = bytes_of(division, groups[group], group, inside);
    constexpr double kBytes = kTotal * sizeof(float);
    // Each of at most 8 pieces of the last chunk of a size is rounded by less than an element.
    constexpr double kRounding = std::size(kSizes) * 8 * sizeof(float);
    EXPECT_NEAR(static_cast<double>(bytes_at_node(cluster, group, inside)), expected.tally * kBytes,
                kRounding);
    if (rank.comm() != nullptr) {
      auto counted = test::nccl::counters(rank.comm());
      EXPECT_NEAR(static_cast<double>(counted.all_sent_bytes()), expected.ring * kBytes,
                  4 * kRounding);
      const bool even = host::is_even(groups[group]);
      EXPECT_GT(counted.calls[even ? "ncclReduceScatter" : "ncclReduce"], 0U);
    }
    ASSERT_TRUE(rank.group().remove_buffer(array.data()));
  });
  // Each group moves the bytes of a gradient to host memory once, and back.
  const auto counted = test::cuda::counters();
  const std::uint64_t bytes = division.groups() * kTotal * sizeof(float);
  const std::uint64_t filled = division.ranks() * kTotal * sizeof(float);
  EXPECT_EQ(counted.bytes_down, bytes + filled);  // the test reads the result
  EXPECT_EQ(counted.bytes_up, bytes + filled);    // and writes the input
}

TEST_P(GroupStrategies, EachStrategyGivesTheSumAndMovesTheBytesOfItsFormulas) {
  const host::Host host = GetParam().make();
  const host::HostPlan& plan = plan_of(host);
  std::size_t ran = 0;
  for (const char* strategy : kStrategies) {
    SCOPED_TRACE(strategy);
    const Groups groups = groups_of(plan, strategy, GetParam().hosts);
    if (groups.empty()) continue;
    run_strategy(groups);
    ++ran;
  }
  EXPECT_GE(ran, 3U);
}

INSTANTIATE_TEST_SUITE_P(Machines, GroupStrategies, ::testing::ValuesIn(kMachines),
                         [](const auto& machines) { return std::string(machines.param.name); });

Groups two_hosts() {
  return groups_of(four_gpus(), "CPU-assisted", 2);
}

TEST(MachineGroups, GroupsOfDifferentSizesSum) {
  // Host 0 has a group of three GPUs, with shares of a half, and a GPU alone; host 1 has a pair.
  const Groups groups = {
      host::Group{{1, 2, 3}, false, {{1, 9, 8, 0.5}, {3, 9, 8, 0.3}, {2, 9, 8, 0.2}}},
      host::Group{{4}, false, {{4, 9, 8, 1}}},
      host::Group{{1, 2}, false, {{1, 9, 8, 0.5}, {2, 9, 8, 0.5}}}};
  run_strategy(groups);
}

TEST(MachineGroups, TheThreadOfAGroupGetsNoSignals) {
  Cluster cluster(two_hosts());
  cluster.on_each([&](GroupRank&) { EXPECT_TRUE(blocks_signals("tally-group")); });
}

TEST(MachineGroups, OneHardwareQueueIsEnough) {
  ClusterOptions options;
  options.cuda.queues = 1;
  Cluster cluster(two_hosts(), options);
  cluster.on_each([&](GroupRank& rank) {
    constexpr std::uint64_t kMany = 400'000;
    const DeviceArray<float> array(rank.thread(), kMany);
    ASSERT_TRUE(rank.group().add_buffer(array.data(), array.bytes()));
    array.fill(group_values(rank.index(), kMany), rank.stream());
    const auto done = rank.run(group_operation(array, rank.stream(), kMany));
    ASSERT_EQ(done.status, Status::kOk) << done.message;
    EXPECT_EQ(array.read(0, kMany, rank.stream()), group_sum(8, kMany));
  });
}

TEST(MachineGroups, EachOperatorAndType) {
  Cluster cluster(two_hosts());
  cluster.on_each([&](GroupRank& rank) {
    constexpr std::uint64_t kFew = 10'007;
    const DeviceArray<float> array(rank.thread(), 2 * kFew);
    ASSERT_TRUE(rank.group().add_buffer(array.data(), array.bytes()));
    std::uint32_t tag = 0;
    const auto reduce = [&](tally_op op) {
      array.fill(group_values(rank.index(), kFew), rank.stream());
      auto wanted = group_operation(array, rank.stream(), kFew, tag++);
      wanted.op = op;
      wanted.priority = 7;
      wanted.user = 1234;
      const auto done = rank.run(wanted);
      EXPECT_EQ(done.status, Status::kOk) << done.message;
      EXPECT_EQ(done.user, 1234U);
      return array.read(0, kFew, rank.stream());
    };
    auto average = group_sum(8, kFew);
    for (float& value : average) value /= 8;
    EXPECT_EQ(reduce(TALLY_SUM), group_sum(8, kFew));
    EXPECT_EQ(reduce(TALLY_AVERAGE), average);
    EXPECT_EQ(reduce(TALLY_MIN), group_values(0, kFew));
    EXPECT_EQ(reduce(TALLY_MAX), group_values(7, kFew));
    for (const tally_type type :
         {TALLY_F64, TALLY_F16, TALLY_BF16, TALLY_I8, TALLY_U8, TALLY_I32, TALLY_I64}) {
      array.fill(std::vector<float>(2 * kFew, 0), rank.stream());
      auto wanted = group_operation(array, rank.stream(), kFew, tag++);
      wanted.type = type;
      const auto done = rank.run(wanted);
      EXPECT_EQ(done.status, Status::kOk) << done.message;
    }
    auto wanted = group_operation(array, rank.stream(), kFew, tag++);
    wanted.op = TALLY_AVERAGE;
    wanted.type = TALLY_I32;
    EXPECT_EQ(rank.group().all_reduce(wanted).status(), Status::kUnsupported);
    wanted.op = TALLY_SUM;
    wanted.count = 3 * kFew;
    EXPECT_EQ(rank.group().all_reduce(wanted).status(), Status::kInvalidArgument);
  });
}

TEST(MachineGroups, OperationsHaveTheirPlaceInTheOrderOfTheStream) {
  Cluster cluster(two_hosts());
  std::barrier all_ranks(static_cast<std::ptrdiff_t>(cluster.division().ranks()));
  cluster.on_each([&](GroupRank& rank) {
    constexpr std::uint64_t kMany = 200'000;
    constexpr std::uint32_t kSteps = 4;
    const DeviceArray<float> array(rank.thread(), kMany);
    const DeviceArray<float> kept(rank.thread(), kMany);
    ASSERT_TRUE(rank.group().add_buffer(array.data(), array.bytes()));
    const auto& cu = rank.thread().driver();
    Gate gate(rank.thread());
    gate.close(rank.stream());
    const float begin = rank.index() == 0 ? 1.0F : 0.0F;
    std::uint32_t bits = 0;
    std::memcpy(&bits, &begin, sizeof bits);
    rank.thread().check(cu.memset_d32_async(array.data(), bits, kMany, rank.stream().get()));
    for (std::uint32_t step = 0; step < kSteps; ++step) {
      const auto posted =
          rank.group().all_reduce(group_operation(array, rank.stream(), kMany, step));
      ASSERT_TRUE(posted) << posted.error().message;
    }
    rank.thread().check(
        cu.memcpy_dtod_async(kept.data(), array.data(), array.bytes(), rank.stream().get()));
    rank.thread().check(cu.memset_d32_async(array.data(), 0, kMany, rank.stream().get()));
    EXPECT_FALSE(rank.stream().is_idle());
    gpu::GroupCompletion completion;
    EXPECT_EQ(rank.group().wait(completion, 5).status(), Status::kAgain);
    EXPECT_EQ(rank.group().remove_buffer(array.data()).status(), Status::kAgain);
    gate.open();
    rank.stream().finish();
    EXPECT_EQ(kept.read(0, kMany, rank.stream()), std::vector<float>(kMany, 512));  // 8^3
    EXPECT_EQ(array.read(0, 10, rank.stream()), std::vector<float>(10, 0));
    for (std::uint32_t step = 0; step < kSteps; ++step) {
      const auto done = rank.wait();
      EXPECT_EQ(done.status, Status::kOk) << done.message;
    }
    EXPECT_EQ(rank.group().wait(completion, 5).status(), Status::kInvalidArgument);
    all_ranks.arrive_and_wait();
  });
}

// Buffers that come and go leave the buffers of outstanding operations alone.
TEST(MachineGroups, BuffersOfOutstandingOperationsStay) {
  Cluster cluster(two_hosts());
  std::barrier all_ranks(static_cast<std::ptrdiff_t>(cluster.division().ranks()));
  cluster.on_each([&](GroupRank& rank) {
    constexpr std::uint64_t kFew = 1000;
    std::vector<std::unique_ptr<DeviceArray<float>>> arrays;
    for (int i = 0; i < 9; ++i) {
      arrays.push_back(std::make_unique<DeviceArray<float>>(rank.thread(), kFew));
    }
    const auto add = [&](int i) {
      ASSERT_TRUE(rank.group().add_buffer(arrays[i]->data(), arrays[i]->bytes()));
    };
    for (int i = 0; i < 3; ++i) add(i);
    arrays[1]->fill(group_values(rank.index(), kFew), rank.stream());
    Gate gate(rank.thread());
    gate.close(rank.stream());
    ASSERT_TRUE(rank.group().all_reduce(group_operation(*arrays[1], rank.stream(), kFew)));
    const auto remove = [&](int i) {
      const auto removed = rank.group().remove_buffer(arrays[i]->data());
      EXPECT_TRUE(removed) << (removed ? "" : removed.error().message);
    };
    remove(0);
    remove(2);
    for (int i = 3; i < 9; ++i) add(i);
    remove(8);
    EXPECT_EQ(rank.group().remove_buffer(arrays[1]->data()).status(), Status::kAgain);
    gate.open();
    const auto done = rank.wait();
    EXPECT_EQ(done.status, Status::kOk) << done.message;
    EXPECT_EQ(arrays[1]->read(0, kFew, rank.stream()), group_sum(8, kFew));
    all_ranks.arrive_and_wait();
  });
}

// Several operations at once on two streams, with random sizes and delays.
void run_schedule(std::uint64_t seed, unsigned queues) {
  SCOPED_TRACE(seed);
  constexpr std::uint64_t kMost = 120'000;
  constexpr std::uint32_t kOperations = 8;
  ClusterOptions options;
  options.cuda.queues = queues;
  options.cuda.seed = seed;
  options.cuda.longest_delay = std::chrono::microseconds(100);
  options.group.chunk_bytes = 64 << 10;
  options.group.depth = 1 + static_cast<std::uint32_t>(seed % 4);
  Cluster cluster(two_hosts(), options);
  cluster.on_each([&](GroupRank& rank) {
    const DeviceStream second(rank.thread());
    std::vector<std::unique_ptr<DeviceArray<float>>> arrays;
    std::mt19937_64 random(seed);  // the same at all ranks
    std::vector<std::uint64_t> counts;
    for (std::uint32_t i = 0; i < kOperations; ++i) {
      arrays.push_back(std::make_unique<DeviceArray<float>>(rank.thread(), kMost));
      ASSERT_TRUE(rank.group().add_buffer(arrays[i]->data(), arrays[i]->bytes()));
      counts.push_back(1 + random() % (random() % 2 == 0 ? 100 : kMost));
      arrays[i]->fill(group_values(rank.index() + i, counts[i]), rank.stream());
    }
    for (std::uint32_t i = 0; i < kOperations; ++i) {
      const DeviceStream& stream = i % 3 == 0 ? second : rank.stream();
      auto wanted = group_operation(*arrays[i], stream, counts[i], i);
      wanted.priority = i;
      ASSERT_TRUE(rank.group().all_reduce(wanted));
    }
    for (std::uint32_t i = 0; i < kOperations; ++i) {
      const auto done = rank.wait();
      ASSERT_EQ(done.status, Status::kOk) << done.message;
      auto expected = group_sum(cluster.division().ranks(), counts[done.tag]);
      // Each rank's values are greater by 3 for each array.
      for (float& value : expected) value += static_cast<float>(3 * done.tag * 8);
      ASSERT_EQ(arrays[done.tag]->read(0, counts[done.tag], second), expected);
    }
    second.finish();
  });
}

TEST(MachineGroups, SchedulesWithDelaysGiveRightResults) {
  const std::uint64_t schedules = test_tier() == "fast" ? 6 : test_tier() == "soak" ? 500 : 12;
  for (std::uint64_t seed = 1; seed <= schedules && !::testing::Test::HasFailure(); ++seed) {
    run_schedule(seed, seed % 3 == 0 ? 1 : seed % 3 == 1 ? 4 : 8);
  }
}

TEST(MachineGroups, AnOperationAllocatesNothingAndDoesNotBlockTheHost) {
  Cluster cluster(two_hosts());
  std::barrier all_ranks(static_cast<std::ptrdiff_t>(cluster.division().ranks()));
  cluster.on_each([&](GroupRank& rank) {
    constexpr std::uint64_t kMany = 300'000;
    const DeviceArray<float> array(rank.thread(), kMany);
    ASSERT_TRUE(rank.group().add_buffer(array.data(), array.bytes()));
    const auto step = [&](std::uint32_t steps) {
      for (std::uint32_t i = 0; i < steps; ++i) {
        const auto done = rank.run(group_operation(array, rank.stream(), kMany, i));
        ASSERT_EQ(done.status, Status::kOk) << done.message;
      }
    };
    step(4);  // the sessions make the events of their operations
    all_ranks.arrive_and_wait();
    auto before = test::cuda::counters();
    all_ranks.arrive_and_wait();
    step(6);
    all_ranks.arrive_and_wait();
    auto after = test::cuda::counters();
    EXPECT_EQ(after.host_synchronizations, before.host_synchronizations);
    EXPECT_EQ(after.allocations, before.allocations);
    for (const char* call : {"cuStreamCreate", "cuMemHostRegister"}) {
      EXPECT_EQ(after.calls[call], before.calls[call]) << call;
    }
    all_ranks.arrive_and_wait();
  });
}

// NCCL and the bus have limited speeds. The time of an operation is near that of its slowest stage,
// and less than the sum of the stages.
TEST(MachineGroups, ChunksOverlapInTheStages) {
  constexpr std::uint64_t kMany = 2'000'000;
  constexpr std::uint64_t kSpeed = 20'000'000;  // bytes per second
  ClusterOptions options;
  options.cuda.queues = 8;  // as real devices have; each of the 8 streams of a rank has its own
  options.cuda.bandwidth_down = options.cuda.bandwidth_up = kSpeed / 2;
  options.nccl.bandwidth = kSpeed;
  options.group.chunk_bytes = 512 << 10;
  Cluster cluster(groups_of(two_gpus(), "reduce-scatter", 2), options);
  std::mutex mutex;
  double longest = 0;
  cluster.on_each([&](GroupRank& rank) {
    const DeviceArray<float> array(rank.thread(), kMany);
    ASSERT_TRUE(rank.group().add_buffer(array.data(), array.bytes()));
    const auto begin = test::cuda::Clock::now();
    const auto done = rank.run(group_operation(array, rank.stream(), kMany));
    const double seconds = std::chrono::duration<double>(test::cuda::Clock::now() - begin).count();
    ASSERT_EQ(done.status, Status::kOk) << done.message;
    const std::lock_guard lock(mutex);
    longest = std::max(longest, seconds);
  });
  // Of two GPUs each sends half of the bytes in both stages of NCCL, and has half of the bytes.
  const double half = kMany * sizeof(float) / 2.0;
  const double nccl_stage = half / kSpeed, bus = half / (kSpeed / 2.0);
  const double sum = 2 * nccl_stage + 2 * bus;  // without overlap
  RecordProperty("milliseconds", static_cast<int>(longest * 1000));
  RecordProperty("milliseconds_of_the_sum", static_cast<int>(sum * 1000));
  std::printf("%.0f ms; the stages one after the other %.0f ms; the slowest alone %.0f ms\n",
              longest * 1000, sum * 1000, std::max(2 * nccl_stage, bus) * 1000);
  // Sanitizers take more time than the stages.
  if (!is_sanitized()) {
    EXPECT_LT(longest, 0.75 * sum);
  }
}

}  // namespace
}  // namespace tally::testing
