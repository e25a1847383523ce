#include "tests/support/nccl/nccl_process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <numeric>
#include <thread>

#include "gpu_bridge/cuda_api/driver.h"
#include "gpu_bridge/nccl_api/library.h"
#include "tests/support/cuda/cuda_process.h"

namespace tally::test::nccl {
namespace {

using tally::cuda::Context;
using tally::cuda::Pointer;
using tally::cuda::Stream;
using tally::nccl::Library;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using Values = std::vector<float>;

Clock::time_point soon() {
  return Clock::now() + std::chrono::seconds(60);
}

// A rank as a thread of the test: a device, a stream, memory and a communicator.
class RankThread {
 public:
  RankThread(const UniqueId& id, int ranks, int rank, int device, std::size_t count)
      : cu_(**tally::cuda::system_driver()), nccl_(**tally::nccl::system_library()) {
    cu_.primary_ctx_retain(&context_, device);
    cu_.ctx_push_current(context_);
    cu_.stream_create(&stream_, tally::cuda::kStreamNonBlocking);
    cu_.mem_alloc(&memory_, count * sizeof(float));
    init_ = nccl_.comm_init_rank(&comm_, ranks, id, rank);
  }
  ~RankThread() {
    Context popped = nullptr;
    cu_.ctx_pop_current(&popped);
  }
  RankThread(const RankThread&) = delete;
  RankThread& operator=(const RankThread&) = delete;

  const Library& nccl() const { return nccl_; }
  const tally::cuda::Driver& cu() const { return cu_; }
  Comm comm() const { return comm_; }
  Code init() const { return init_; }
  Stream stream() const { return stream_; }
  Stream another_stream() {
    Stream made = nullptr;
    cu_.stream_create(&made, tally::cuda::kStreamNonBlocking);
    return made;
  }
  float* at(std::size_t index) const {
    return reinterpret_cast<float*>(memory_ + index * sizeof(float));
  }
  void fill(const Values& values) {
    cu_.memcpy_htod_async(memory_, values.data(), values.size() * sizeof(float), stream_);
  }
  Values read(std::size_t count, Stream stream) {
    Values values(count);
    cu_.memcpy_dtoh_async(values.data(), memory_, count * sizeof(float), stream);
    cu_.stream_synchronize(stream);
    return values;
  }
  Values read(std::size_t count) { return read(count, stream_); }

 private:
  const tally::cuda::Driver& cu_;
  const Library& nccl_;
  Context context_ = nullptr;
  Stream stream_ = nullptr;
  Pointer memory_ = 0;
  Comm comm_ = nullptr;
  Code init_ = Code::kSuccess;
};

class NcclProcess : public ::testing::Test {
 protected:
  static constexpr int kMost = 4;
  static constexpr std::size_t kSize = 64;

  NcclProcess() { restart(); }
  ~NcclProcess() override {
    EXPECT_EQ(live_communicators(), 0U);
    EXPECT_THAT(misuses(), IsEmpty());
    EXPECT_THAT(cuda::misuses(), IsEmpty());
    reset();
    cuda::reset();
  }

  void restart(const Settings& settings = {}, unsigned queues = 8) {
    cuda::Settings of_cuda;
    of_cuda.devices = kMost;
    of_cuda.queues = queues;
    cuda::reset(of_cuda);
    reset(settings);
  }

  using Body = std::function<void(int rank, RankThread&)>;
  void on_each(int ranks, const Body& body, bool destroys = true) {
    UniqueId id = {};
    const Library& nccl = **tally::nccl::system_library();
    ASSERT_EQ(nccl.get_unique_id(&id), Code::kSuccess);
    std::vector<std::thread> threads;
    for (int rank = 0; rank < ranks; ++rank) {
      threads.emplace_back([&, rank] {
        RankThread thread(id, ranks, rank, rank, kSize);
        ASSERT_EQ(thread.init(), Code::kSuccess);
        body(rank, thread);
        if (destroys) {
          EXPECT_EQ(nccl.comm_destroy(thread.comm()), Code::kSuccess);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  }

  static Values values_of(int rank, std::size_t count) {
    Values values(count);
    std::iota(values.begin(), values.end(), static_cast<float>(100 * rank));
    return values;
  }
};

TEST_F(NcclProcess, ReduceScatterAndAllGatherInPlace) {
  on_each(3, [&](int rank, RankThread& one) {
    one.fill(values_of(rank, 6));
    const std::size_t own = 2 * static_cast<std::size_t>(rank);
    EXPECT_EQ(one.nccl().reduce_scatter(one.at(0), one.at(own), 2, DataType::kFloat32, RedOp::kSum,
                                        one.comm(), one.stream()),
              Code::kSuccess);
    EXPECT_EQ(one.nccl().all_gather(one.at(own), one.at(0), 2, DataType::kFloat32, one.comm(),
                                    one.stream()),
              Code::kSuccess);
    EXPECT_THAT(one.read(6), ElementsAre(300, 303, 306, 309, 312, 315));
    auto counted = counters(one.comm());
    EXPECT_EQ(counted.calls["ncclReduceScatter"], 1U);
    EXPECT_EQ(counted.sent_bytes["ncclReduceScatter"], 2 * 2 * sizeof(float));
    EXPECT_EQ(counted.sent_bytes["ncclAllGather"], 2 * 2 * sizeof(float));
    EXPECT_EQ(counted.all_sent_bytes(), 32U);
  });
}

TEST_F(NcclProcess, GroupsOfReducesAndBroadcastsAreOneOperation) {
  on_each(2, [&](int rank, RankThread& one) {
    one.fill(values_of(rank, 5));
    const std::size_t begin[] = {0, 1}, count[] = {1, 4};
    EXPECT_EQ(one.nccl().group_start(), Code::kSuccess);
    for (const int root : {0, 1}) {
      one.nccl().reduce(one.at(begin[root]), one.at(begin[root]), count[root], DataType::kFloat32,
                        RedOp::kMax, root, one.comm(), one.stream());
    }
    EXPECT_EQ(one.nccl().group_end(), Code::kSuccess);
    one.nccl().group_start();
    for (const int root : {0, 1}) {
      one.nccl().broadcast(one.at(begin[root]), one.at(begin[root]), count[root],
                           DataType::kFloat32, root, one.comm(), one.stream());
    }
    EXPECT_EQ(one.nccl().group_end(), Code::kSuccess);
    EXPECT_THAT(one.read(5), ElementsAre(100, 101, 102, 103, 104));
    EXPECT_EQ(records(one.comm()).size(), 2U);
    const std::uint64_t reduced = rank == 0 ? 4 : 1;
    const std::uint64_t gathered = rank == 0 ? 1 : 4;
    auto counted = counters(one.comm());
    EXPECT_EQ(counted.sent_bytes["ncclReduce"], reduced * sizeof(float));
    EXPECT_EQ(counted.sent_bytes["ncclBroadcast"], gathered * sizeof(float));
  });
}

TEST_F(NcclProcess, ReducesWithEachOperatorAndType) {
  on_each(2, [&](int rank, RankThread& one) {
    const auto all_reduce = [&](RedOp op) {
      one.fill(values_of(rank, 2));
      EXPECT_EQ(one.nccl().all_reduce(one.at(0), one.at(0), 2, DataType::kFloat32, op, one.comm(),
                                      one.stream()),
                Code::kSuccess);
      return one.read(2);
    };
    EXPECT_THAT(all_reduce(RedOp::kSum), ElementsAre(100, 102));
    EXPECT_THAT(all_reduce(RedOp::kAvg), ElementsAre(50, 51));
    EXPECT_THAT(all_reduce(RedOp::kMin), ElementsAre(0, 1));
    EXPECT_THAT(all_reduce(RedOp::kMax), ElementsAre(100, 101));
    for (const DataType type :
         {DataType::kInt8, DataType::kUint8, DataType::kInt32, DataType::kInt64, DataType::kFloat16,
          DataType::kFloat64, DataType::kBfloat16}) {
      one.fill(Values(2, 0));
      EXPECT_EQ(one.nccl().all_reduce(one.at(0), one.at(0), 1, type, RedOp::kSum, one.comm(),
                                      one.stream()),
                Code::kSuccess);
      EXPECT_THAT(one.read(2), ElementsAre(0, 0));
    }
  });
}

TEST_F(NcclProcess, CallsReturnBeforeTheOtherRanksCall) {
  for (const unsigned queues : {1U, 8U}) {
    restart({}, queues);
    std::atomic<bool> waited = false;
    on_each(2, [&](int rank, RankThread& one) {
      if (rank == 1) {
        while (!waited) std::this_thread::yield();
      }
      one.fill(values_of(rank, 1));
      one.nccl().all_reduce(one.at(0), one.at(0), 1, DataType::kFloat32, RedOp::kSum, one.comm(),
                            one.stream());
      if (rank == 0) {
        EXPECT_EQ(one.cu().stream_query(one.stream()), tally::cuda::Code::kNotReady);
        waited = true;
      }
      EXPECT_THAT(one.read(1), ElementsAre(100));
    });
  }
}

// As NCCL does, also where the program does not order the streams.
TEST_F(NcclProcess, OperationsOfACommunicatorRunInTheOrderOfTheCalls) {
  restart({.bandwidth = 4000});
  on_each(2, [&](int rank, RankThread& one) {
    one.fill(values_of(rank, 40));
    one.cu().stream_synchronize(one.stream());
    const Stream second = one.another_stream();
    one.nccl().all_reduce(one.at(0), one.at(0), 40, DataType::kFloat32, RedOp::kSum, one.comm(),
                          one.stream());
    one.nccl().all_reduce(one.at(0), one.at(0), 40, DataType::kFloat32, RedOp::kSum, one.comm(),
                          second);
    EXPECT_EQ(one.read(1, second), Values{200});
    const auto done = records(one.comm());
    ASSERT_EQ(done.size(), 2U);
    EXPECT_LE(done[0].begin + std::chrono::milliseconds(39), done[0].end);  // 160 bytes
    EXPECT_LE(done[0].end, done[1].end);
    EXPECT_LE(done[0].begin + std::chrono::milliseconds(39), done[1].begin);
  });
}

TEST_F(NcclProcess, AnAbortEndsTheOwnOperationsOnly) {
  std::atomic<int> aborted = 0;
  on_each(
      2,
      [&](int rank, RankThread& one) {
        if (rank == 1) {
          while (aborted == 0) std::this_thread::yield();
          EXPECT_EQ(one.nccl().comm_abort(one.comm()), Code::kSuccess);
          return;
        }
        one.fill(values_of(rank, 1));
        one.cu().stream_synchronize(one.stream());
        one.nccl().all_reduce(one.at(0), one.at(0), 1, DataType::kFloat32, RedOp::kSum, one.comm(),
                              one.stream());
        EXPECT_EQ(one.cu().stream_query(one.stream()), tally::cuda::Code::kNotReady);
        EXPECT_EQ(one.nccl().comm_abort(one.comm()), Code::kSuccess);
        aborted = 1;
        EXPECT_THAT(one.read(1), ElementsAre(0));
        Code error = Code::kSuccess;
        EXPECT_EQ(one.nccl().comm_get_async_error(one.comm(), &error), Code::kInvalidArgument);
      },
      false);
  EXPECT_THAT(misuses(), ElementsAre(HasSubstr("of a communicator that is destroyed")));
  forget_misuses();
  EXPECT_TRUE(cuda::wait_until_idle(soon()));
}

TEST_F(NcclProcess, DetectsRanksThatCallDifferently) {
  on_each(2, [&](int rank, RankThread& one) {
    one.nccl().all_reduce(one.at(0), one.at(0), rank == 0 ? 1 : 2, DataType::kFloat32, RedOp::kSum,
                          one.comm(), one.stream());
    one.cu().stream_synchronize(one.stream());
  });
  EXPECT_THAT(misuses(), ElementsAre(HasSubstr("calls something else")));
  forget_misuses();
}

TEST_F(NcclProcess, RefusesMemoryThatIsNotOfADevice) {
  on_each(1, [&](int, RankThread& one) {
    float value = 0;
    EXPECT_EQ(one.nccl().all_reduce(&value, &value, 1, DataType::kFloat32, RedOp::kSum, one.comm(),
                                    one.stream()),
              Code::kInvalidUsage);
    EXPECT_EQ(one.nccl().all_reduce(one.at(0), one.at(1), 2, DataType::kFloat32, RedOp::kSum,
                                    one.comm(), one.stream()),
              Code::kInvalidUsage);
  });
  EXPECT_THAT(misuses(),
              ElementsAre(HasSubstr("not memory of a device"), HasSubstr("the buffers overlap")));
  forget_misuses();
}

TEST_F(NcclProcess, RefusesTwoRanksOnOneDevice) {
  UniqueId id = {};
  (**tally::nccl::system_library()).get_unique_id(&id);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      const RankThread one(id, 2, rank, 0, kSize);
      EXPECT_EQ(one.init(), Code::kInvalidUsage);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_F(NcclProcess, FailsWhenTheTestOrdersIt) {
  on_each(1, [&](int, RankThread& one) {
    fail("ncclBroadcast", 2, Code::kSystemError);
    const auto broadcast = [&] {
      return one.nccl().broadcast(one.at(0), one.at(0), 1, DataType::kFloat32, 0, one.comm(),
                                  one.stream());
    };
    EXPECT_EQ(broadcast(), Code::kSuccess);
    EXPECT_EQ(broadcast(), Code::kSystemError);
    set_async_error(one.comm(), Code::kRemoteError);
    Code error = Code::kSuccess;
    EXPECT_EQ(one.nccl().comm_get_async_error(one.comm(), &error), Code::kSuccess);
    EXPECT_EQ(error, Code::kRemoteError);
    one.cu().stream_synchronize(one.stream());
  });
}

}  // namespace
}  // namespace tally::test::nccl
