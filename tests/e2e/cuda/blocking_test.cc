// Calls of CUDA that block the caller until the device has done work, and operations that wait for
// credit. The library's thread must go on meanwhile, because only then the device does the work.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <barrier>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "tests/e2e/cuda/fixture.h"

namespace tally::testing {
namespace {

using namespace std::chrono_literals;

tally_operation sum_in_place(std::uint32_t tag, std::uint64_t count, tally_region* region,
                             const DeviceStream& stream) {
  auto wanted = operation(TALLY_ALL_REDUCE, TALLY_F32, tag, count, {region, 0}, {region, 0});
  wanted.stream = stream.get();
  return wanted;
}

// A queue has room for less than the calls of one operation.
class CudaFullQueues : public CudaTest {
 protected:
  void SetUp() override {
    options_.queue_depth = 16;
    CudaTest::SetUp();
  }
};

TEST_P(CudaFullQueues, OperationsEndWhileAPostWaitsForRoom) {
  constexpr std::uint32_t kOperations = 12;
  on_each([&](std::uint32_t, Rank& rank, const DeviceThread& thread) {
    const DeviceStream stream(thread);
    const DeviceArray<float> array(thread, kCount);
    tally_region* const region = array.register_with(rank.session());
    array.fill(Floats(kCount, 1.0F), stream);
    for (std::uint32_t tag = 0; tag < kOperations; ++tag) {
      const auto wanted = sum_in_place(tag, kCount, region, stream);
      ASSERT_EQ(tally_post(rank.session(), &wanted), TALLY_OK) << rank.error();
    }
    for (std::uint32_t i = 0; i < kOperations; ++i) {
      const auto done = rank.wait();
      EXPECT_EQ(done.status, TALLY_OK) << done.message;
    }
    stream.finish();
    EXPECT_EQ(array.read(0, kCount, stream), Floats(kCount, 1U << kOperations));
  });
}

// Chunks that other ranks have seen must end there too.
TEST_P(CudaFullQueues, ACallThatFailsAfterTheFirstChunksHasACompletion) {
  std::barrier all_ranks(kRanks);
  on_each([&](std::uint32_t index, Rank& rank, const DeviceThread& thread) {
    const DeviceStream stream(thread);
    const DeviceArray<float> array(thread, 4 * kCount);
    tally_region* const region = array.register_with(rank.session());
    array.fill(Floats(4 * kCount, 1.0F), stream);
    all_ranks.arrive_and_wait();
    auto wanted = sum_in_place(1, 4 * kCount, region, stream);
    wanted.deadline_ms = 1000;
    if (index == 1) all_ranks.arrive_and_wait();  // so that rank 0 meets the failure
    const bool staged = transport_of(rank) != "verbs";
    const bool fails = index == 0 && staged && machine_->fail("cuMemcpyHtoDAsync", 2);
    if (tally_post(rank.session(), &wanted) == TALLY_OK) {
      if (index == 0) all_ranks.arrive_and_wait();
      const auto done = rank.wait();
      if (fails) {
        EXPECT_EQ(done.status, TALLY_NO_MEMORY) << done.message;
        EXPECT_THAT(std::string(done.message), ::testing::HasSubstr("cuMemcpyHtoDAsync"));
      }
    } else {
      EXPECT_TRUE(fails) << rank.error();
      EXPECT_THAT(rank.error(), ::testing::HasSubstr("cuMemcpyHtoDAsync"));
      all_ranks.arrive_and_wait();
    }
    stream.finish();
    all_ranks.arrive_and_wait();
    array.fill(Floats(kCount, 1.0F), stream);
    const auto done = rank.run(sum_in_place(2, kCount, region, stream));
    EXPECT_EQ(done.status, TALLY_OK) << done.message;
    EXPECT_EQ(array.read(0, kCount, stream), Floats(kCount, 2.0F));
  });
}

INSTANTIATE_TEST_SUITE_P(Layouts, CudaFullQueues, kDeviceForEachRank, name_of);

class CudaSlowRegistration : public CudaTest {
 protected:
  void SetUp() override {
    options_.registration_synchronizes = true;
    CudaTest::SetUp();
  }
};

TEST_P(CudaSlowRegistration, OperationsEndWhileRegionsComeAndGo) {
  on_each([&](std::uint32_t index, Rank& rank, const DeviceThread& thread) {
    const DeviceStream stream(thread);
    const DeviceArray<float> array(thread, kCount);
    const DeviceArray<float> other(thread, kCount);
    tally_region* const region = array.register_with(rank.session());
    const auto post = [&](std::uint32_t tag) {
      if (index == 1) std::this_thread::sleep_for(200ms);
      const auto wanted = sum_in_place(tag, kCount, region, stream);
      ASSERT_EQ(tally_post(rank.session(), &wanted), TALLY_OK) << rank.error();
    };
    post(1);
    tally_region* const second = other.register_with(rank.session());
    EXPECT_EQ(rank.wait().status, TALLY_OK);
    post(2);
    EXPECT_EQ(tally_region_free(rank.session(), second), TALLY_OK) << rank.error();
    EXPECT_EQ(rank.wait().status, TALLY_OK);
  });
}

INSTANTIATE_TEST_SUITE_P(Layouts, CudaSlowRegistration, ::testing::Values(CudaLayout{2, 8}),
                         name_of);

// A session of a job of two ranks. At the next line of its log it calls `at_log`, during which the
// library's thread waits.
class LoggingRank {
 public:
  LoggingRank(const LocalNode& node, std::uint32_t rank) {
    tally_session_options options{};
    options.size = sizeof options;
    options.address = node.address().c_str();
    options.job = "credit";
    options.rank = rank;
    options.ranks = 2;
    options.log = [](void* self, int, const char*) {
      auto& one = *static_cast<LoggingRank*>(self);
      if (one.at_log) std::exchange(one.at_log, nullptr)();
    };
    options.log_context = this;
    EXPECT_EQ(tally_open(&options, &session_), TALLY_OK) << tally_last_error(nullptr);
  }
  ~LoggingRank() { tally_close(session_); }
  LoggingRank(const LoggingRank&) = delete;
  LoggingRank& operator=(const LoggingRank&) = delete;

  tally_session* session() const { return session_; }

  std::function<void()> at_log;

 private:
  tally_session* session_ = nullptr;
};

using CudaCredit = CudaTest;

// If operations overtook each other, rank 0 could give its credit to the last ones and rank 1 to
// the first ones.
TEST_P(CudaCredit, OperationsGetItInTheOrderOfThePosts) {
  constexpr std::uint32_t kCredit = 4;
  constexpr std::uint32_t kOperations = 3 * kCredit;
  constexpr std::uint64_t kSmall = 1000;
  LocalNodeOptions options;
  options.shards = 1;
  options.credit = kCredit;
  const LocalNode node(options);
  std::barrier all_ranks(kRanks);
  on_each_rank(kRanks, [&](std::uint32_t index) {
    const DeviceThread thread(machine_->driver(), static_cast<int>(index));
    LoggingRank rank(node, index);
    const DeviceArray<float> array(thread, kOperations * kSmall);
    tally_region* const region = array.register_with(rank.session());
    // Operations of one stream follow each other. These may go on at the same time.
    std::vector<std::unique_ptr<DeviceStream>> streams;
    for (std::uint32_t i = 0; i < kOperations; ++i) {
      streams.push_back(std::make_unique<DeviceStream>(thread));
    }
    array.fill(Floats(kOperations * kSmall, 1.0F), *streams[0]);
    const auto post = [&](std::uint32_t first, std::uint32_t end) {
      for (std::uint32_t i = first; i < end; ++i) {
        auto wanted = sum_in_place(i, kSmall, region, *streams[i]);
        wanted.in.offset = wanted.out.offset = i * kSmall * sizeof(float);
        wanted.deadline_ms = 3000;
        ASSERT_EQ(tally_post(rank.session(), &wanted), TALLY_OK)
            << tally_last_error(rank.session());
      }
    };
    Gate gate(thread);
    if (index == 0) {
      // The library's thread goes on when the device has brought the input of all operations.
      gate.close(*streams[0]);
      post(0, kOperations);
      all_ranks.arrive_and_wait();
      rank.at_log = [&] {
        gate.open();
        std::this_thread::sleep_for(100ms);
      };
      array.register_with(rank.session());
    } else {
      all_ranks.arrive_and_wait();
      post(0, kCredit);
      std::this_thread::sleep_for(200ms);
      post(kCredit, kOperations);
    }
    tally_completion completion{};
    completion.size = sizeof completion;
    for (std::uint32_t i = 0; i < kOperations; ++i) {
      ASSERT_EQ(tally_wait(rank.session(), &completion, 20'000), TALLY_OK);
      EXPECT_EQ(completion.status, TALLY_OK) << completion.message;
    }
    for (const auto& stream : streams) stream->finish();
    EXPECT_EQ(array.read(0, kOperations * kSmall, *streams[0]), Floats(kOperations * kSmall, 2.0F));
    all_ranks.arrive_and_wait();
  });
}

INSTANTIATE_TEST_SUITE_P(Layouts, CudaCredit, ::testing::Values(CudaLayout{2, 32}), name_of);

}  // namespace
}  // namespace tally::testing
