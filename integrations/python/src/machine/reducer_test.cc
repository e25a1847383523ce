// The ranks of hosts with two GPUs each, as threads of the test, on the CUDA and the NCCL of the
// process.
#include "integrations/python/src/machine/reducer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "gpu_bridge/nccl_api/library.h"
#include "integrations/python/src/machine/set_up.h"
#include "integrations/python/src/test_waited.h"
#include "net/rpc/rpc_channel.h"
#include "tests/e2e/cuda/device.h"
#include "tests/e2e/local_node.h"
#include "tests/support/cuda/cuda_process.h"
#include "tests/support/nccl/nccl_process.h"

namespace tally::python {
namespace {

using testing::DeviceArray;
using ::testing::HasSubstr;

constexpr std::uint64_t kCount = 300'007;  // more than kLeastBytes of float
constexpr const char* kJob = "torch-test";

struct MachineRank {
  MachineRank(const std::string& address, std::uint32_t rank, std::uint32_t ranks,
              std::uint32_t deadline_ms)
      : thread(**cuda::system_driver(), static_cast<int>(rank)),
        stream(thread),
        communicator({.address = address,
                      .job = kJob,
                      .token = {},
                      .rank = rank,
                      .ranks = ranks,
                      .connect_timeout_ms = 20'000,
                      .deadline_ms = deadline_ms,
                      .checksums = {}}) {}

  Result<std::shared_ptr<MachineReducer>> set_up(const std::string& host) {
    return set_up_machines(communicator,
                           {.host = host, .driver = &thread.driver(), .context = thread.context()});
  }
  Outcome wait(const Waited& waited) {
    EXPECT_TRUE(communicator.await([&] { return waited.ended.load(std::memory_order_acquire); },
                                   monotonic_now() + 60 * kSecond));
    return waited.outcome;
  }

  testing::DeviceThread thread;
  testing::DeviceStream stream;
  Communicator communicator;
};

Request request_of(const DeviceArray<float>& array, const testing::DeviceStream& stream,
                   tally_op op = TALLY_SUM) {
  Request request;
  request.op = op;
  request.count = kCount;
  request.in = request.out = reinterpret_cast<void*>(array.data());
  request.on_device = true;
  request.stream = stream.get();
  return request;
}

void post(MachineReducer& reducer, const DeviceArray<float>& array, const Request& request,
          Waited& waited) {
  reducer.post(request, reinterpret_cast<void*>(array.data()), array.bytes(), waited.done());
}

std::vector<float> values(std::uint32_t rank) {
  std::vector<float> all(kCount);
  for (std::uint64_t i = 0; i < kCount; ++i) {
    all[i] = static_cast<float>(i % 1000) + 4.0F * static_cast<float>(rank);
  }
  return all;
}

class MachineReducers : public ::testing::Test {
 protected:
  static constexpr std::uint32_t kRanks = 4;

  MachineReducers() {
    test::cuda::reset({.devices = kRanks, .queues = 4, .memory_bytes = std::size_t{64} << 20});
    test::nccl::reset();
  }
  ~MachineReducers() override {
    EXPECT_TRUE(test::cuda::wait_until_idle(test::cuda::Clock::now() + std::chrono::seconds(20)));
    EXPECT_EQ(test::nccl::live_communicators(), 0U);
    EXPECT_THAT(test::nccl::misuses(), ::testing::IsEmpty());
    EXPECT_THAT(test::cuda::misuses(), ::testing::IsEmpty());
    test::cuda::reset();
    test::nccl::reset();
  }

  // Ranks 0 and 1 are on one host, 2 and 3 on another one.
  static std::string host_of(std::uint32_t rank) { return rank < 2 ? "host 0" : "host 1"; }

  void on_each(const std::function<void(MachineRank&)>& body, std::uint32_t deadline_ms = 20'000) {
    std::barrier all_ranks(kRanks);
    std::vector<std::thread> threads;
    for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
      threads.emplace_back([&, rank] {
        MachineRank one(node_.address(), rank, kRanks, deadline_ms);
        body(one);
        one.stream.finish();  // not left waiting
        all_ranks.arrive_and_wait();
        one.communicator.close();
      });
    }
    for (std::thread& thread : threads) thread.join();
  }

  // All ranks get the same reason.
  void expect_none(const std::string& reason,
                   const std::function<std::string(std::uint32_t)>& host = host_of) {
    on_each([&](MachineRank& rank) {
      const auto made = rank.set_up(host(rank.communicator.rank()));
      ASSERT_FALSE(made);
      EXPECT_EQ(made.error().status, Status::kUnsupported);
      EXPECT_THAT(made.error().message, HasSubstr(reason));
      EXPECT_EQ(rank.communicator.first_failure(), TALLY_OK);
    });
  }

  // The bytes that the node has read from a rank of a job.
  std::uint64_t bytes_at_node(const std::string& job, std::size_t rank) const {
    auto channel =
        rpc::RpcChannel::connect(node_.address(), monotonic_now() + 20 * kSecond).value();
    const auto metrics =
        channel.call("node.metrics", {{"job", job}}, {}, monotonic_now() + 20 * kSecond);
    EXPECT_TRUE(metrics) << (metrics ? "" : metrics.error().message);
    return metrics ? (*metrics)["ranks"][rank]["bytes_in"].get<std::uint64_t>() : 0;
  }

  const testing::LocalNode node_;
};

TEST_F(MachineReducers, SumsAndEachRankSendsItsShare) {
  constexpr std::uint64_t kOperations = 2;
  on_each([&](MachineRank& rank) {
    const std::uint32_t index = rank.communicator.rank();
    const auto made = rank.set_up(host_of(index));
    ASSERT_TRUE(made) << made.error().message;
    const DeviceArray<float> array(rank.thread, kCount);
    for (const tally_op op : {TALLY_SUM, TALLY_AVERAGE}) {
      array.fill(values(index), rank.stream);
      Waited waited;
      const Request request = request_of(array, rank.stream, op);
      ASSERT_TRUE((*made)->takes(request));
      post(**made, array, request, waited);
      const Outcome outcome = rank.wait(waited);
      ASSERT_EQ(outcome.status, TALLY_OK) << outcome.message;
      auto expected = values(0);
      for (float& value : expected) value = 4 * value + 4 * (1 + 2 + 3);
      if (op == TALLY_AVERAGE) {
        for (float& value : expected) value /= 4;
      }
      EXPECT_EQ(array.read(0, kCount, rank.stream), expected);
    }
    // The rank owns one column, with half of the bytes.
    const auto column = gpu::Division::job_of(std::string(kJob) + ".machines", index % 2);
    EXPECT_NEAR(static_cast<double>(bytes_at_node(column, index / 2)),
                kOperations * kCount * sizeof(float) / 2.0, 16 * sizeof(float));
    EXPECT_LT(bytes_at_node(kJob, index), 10'000U);
    rank.communicator.close();
  });
}

TEST_F(MachineReducers, ManyOperationsWaitForRoom) {
  constexpr std::size_t kMany = 2 * gpu::MachineGroup::kMostOperations;
  on_each([&](MachineRank& rank) {
    const auto made = rank.set_up(host_of(rank.communicator.rank()));
    ASSERT_TRUE(made) << made.error().message;
    const DeviceArray<float> array(rank.thread, kCount);
    array.fill(std::vector<float>(kCount, 1.0F), rank.stream);
    std::vector<Waited> waited(kMany);
    for (Waited& one : waited) {
      post(**made, array, request_of(array, rank.stream, TALLY_AVERAGE), one);
    }
    for (const Waited& one : waited) EXPECT_EQ(rank.wait(one).status, TALLY_OK);
    EXPECT_EQ(array.read(kCount - 1, 1, rank.stream), std::vector<float>{1.0F});
    rank.communicator.close();
  });
}

TEST_F(MachineReducers, TakesWhatGroupsHave) {
  on_each([&](MachineRank& rank) {
    // Hosts of one and of three GPUs.
    const auto made = rank.set_up(rank.communicator.rank() == 0 ? "host 0" : "host 1");
    ASSERT_TRUE(made) << made.error().message;
    Request request;
    request.count = MachineReducer::kLeastBytes / sizeof(float);
    EXPECT_TRUE((*made)->takes(request));
    const auto refuses = [&](auto change) {
      Request changed = request;
      change(changed);
      EXPECT_FALSE((*made)->takes(changed));
    };
    refuses([](Request& one) { one.op = TALLY_AVERAGE; });
    refuses([](Request& one) { --one.count; });
    refuses([](Request& one) { one.stats = true; });
    refuses([](Request& one) { one.in_graph = true; });
    refuses([](Request& one) { one.kind = TALLY_BROADCAST; });
  });
}

TEST_F(MachineReducers, HostsOfOneRankHaveNoGroups) {
  expect_none("no host has two ranks", [](std::uint32_t rank) { return std::to_string(rank); });
}

TEST_F(MachineReducers, AFailureOfNcclIsTheReasonAtAllRanks) {
  test::nccl::fail("ncclGetUniqueId", 1, nccl::Code::kSystemError);
  expect_none("ncclGetUniqueId: unhandled system error");
}

TEST_F(MachineReducers, AGroupOfNcclThatDoesNotStartIsTheReasonAtAllRanks) {
  for (std::uint64_t call = 1; call <= kRanks; ++call) {  // one alone would keep its group waiting
    test::nccl::fail("ncclCommInitRank", call, nccl::Code::kInternalError);
  }
  expect_none("rank 0: ncclCommInitRank: internal error");
}

TEST_F(MachineReducers, AGroupThatCannotBeMadeIsTheReasonAtAllRanks) {
  test::nccl::fail("ncclCommCount", 2, nccl::Code::kSystemError);
  expect_none("ncclCommCount: unhandled system error");
}

TEST_F(MachineReducers, ARankThatLeavesEndsTheOthersByErrors) {
  on_each(
      [&](MachineRank& rank) {
        const std::uint32_t index = rank.communicator.rank();
        const auto made = rank.set_up(host_of(index));
        ASSERT_TRUE(made) << made.error().message;
        const DeviceArray<float> array(rank.thread, kCount);
        array.fill(values(index), rank.stream);
        if (index == 3) return rank.communicator.close();
        Waited waited;
        const Request request = request_of(array, rank.stream);
        try {
          post(**made, array, request, waited);
          const Outcome outcome = rank.wait(waited);
          EXPECT_NE(outcome.status, TALLY_OK);
          EXPECT_THAT(outcome.message, HasSubstr("machine group: "));
          EXPECT_NE(rank.communicator.first_failure(), TALLY_OK);
          Waited later;
          EXPECT_THROW(post(**made, array, request, later), Failure);
        } catch (const Failure& failure) {  // the loss was known before
          EXPECT_THAT(failure.what(), HasSubstr("machine group: "));
        }
        rank.stream.finish();
        rank.communicator.close();
      },
      2000);
}

TEST_F(MachineReducers, ARankThatLeavesEndsTheSetUpByAnError) {
  on_each(
      [&](MachineRank& rank) {
        if (rank.communicator.rank() == 3) return rank.communicator.close();
        EXPECT_THROW(static_cast<void>(rank.set_up("host")), Failure);
      },
      2000);
}

TEST_F(MachineReducers, TheEndOfTheSessionEndsWhatIsOutstanding) {
  std::barrier all_posted(kRanks);
  on_each([&](MachineRank& rank) {
    const std::uint32_t index = rank.communicator.rank();
    const auto made = rank.set_up(host_of(index));
    ASSERT_TRUE(made) << made.error().message;
    const DeviceArray<float> array(rank.thread, kCount);
    Waited waited;
    if (index != 3) post(**made, array, request_of(array, rank.stream), waited);
    all_posted.arrive_and_wait();
    rank.communicator.close();
    if (index != 3) {
      EXPECT_TRUE(waited.ended);
      EXPECT_NE(waited.outcome.status, TALLY_OK);
    }
    Waited later;
    EXPECT_THROW(post(**made, array, request_of(array, rank.stream), later), Failure);
    rank.stream.finish();
  });
}

}  // namespace
}  // namespace tally::python
