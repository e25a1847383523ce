// All-reduces of machines with several GPUs that fail: all ranks get the same status, the message
// names the stage, and no stream is left waiting.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <barrier>

#include "gpu_bridge/machine/test_hosts.h"
#include "tests/e2e/cuda/group_fixture.h"
#include "tests/support/tier.h"

namespace tally::testing {
namespace {

using ::testing::HasSubstr;

constexpr std::uint64_t kElementsOf = 200'000;

// Two hosts of two switches with two GPUs each: ranks 0 and 1 are a group, 2 and 3 ...
class GroupFailures : public ::testing::Test {
 protected:
  static constexpr std::uint32_t kGpus = 8;

  void begin(std::uint32_t deadline_ms = 20'000) {
    ClusterOptions options;
    options.group.deadline_ms = deadline_ms;
    cluster_ = std::make_unique<Cluster>(groups_of(host::pcie_host(2), "CPU-assisted", 2), options);
  }

  using Body = std::function<void(GroupRank& rank, const gpu::GroupOperation& operation)>;
  void on_each(const Body& body) {
    cluster_->on_each([&](GroupRank& rank) {
      const DeviceArray<float> array(rank.thread(), kElementsOf);
      ASSERT_TRUE(rank.group().add_buffer(array.data(), array.bytes()));
      array.fill(group_values(rank.index(), kElementsOf), rank.stream());
      all_ranks_.arrive_and_wait();
      body(rank, group_operation(array, rank.stream(), kElementsOf));
      rank.stream().finish();  // not left waiting
      all_ranks_.arrive_and_wait();
      rank.close();
    });
  }

  // The group refuses operations, or they fail until it does.
  static void expect_over(GroupRank& rank, gpu::GroupOperation operation) {
    for (++operation.tag; operation.tag < 10 && rank.group().all_reduce(operation);
         ++operation.tag) {
      EXPECT_NE(rank.wait().status, Status::kOk);
    }
    EXPECT_LT(operation.tag, 10U);
  }

  std::barrier<> all_ranks_{kGpus};
  std::unique_ptr<Cluster> cluster_;
};

TEST_F(GroupFailures, ALateGroupFailsTheOperationAtAllRanks) {
  const int deadline_ms = 500 * sanitizer_factor();
  begin(deadline_ms);
  std::barrier late(kGpus);
  on_each([&](GroupRank& rank, const gpu::GroupOperation& operation) {
    if (rank.index() / 2 == 3) {
      std::this_thread::sleep_for(std::chrono::milliseconds(deadline_ms + 400));
    }
    const auto done = rank.run(operation);
    EXPECT_EQ(done.status, Status::kDeadline) << done.message;
    EXPECT_EQ(done.stage, gpu::Stage::kSum);
    EXPECT_THAT(done.message, HasSubstr("stage sum (Tally)"));
    late.arrive_and_wait();
    // The group goes on.
    auto next = operation;
    next.tag = 1;
    next.op = TALLY_MAX;
    const auto fine = rank.run(next);
    EXPECT_EQ(fine.status, Status::kOk) << fine.message;
  });
}

TEST_F(GroupFailures, AMissingRankEndsTheGroup) {
  begin(400);
  on_each([&](GroupRank& rank, const gpu::GroupOperation& operation) {
    if (rank.index() == 5) return;
    const auto done = rank.run(operation);
    EXPECT_NE(done.status, Status::kOk);
    EXPECT_THAT(done.message, HasSubstr("stage "));
    expect_over(rank, operation);
  });
}

TEST_F(GroupFailures, AnErrorOfNcclEndsTheGroup) {
  begin();
  test::nccl::fail("ncclReduceScatter", 3, nccl::Code::kSystemError);
  on_each([&](GroupRank& rank, const gpu::GroupOperation& operation) {
    if (rank.group().all_reduce(operation)) {  // otherwise the failure is known already
      const auto done = rank.wait();
      EXPECT_NE(done.status, Status::kOk);
      EXPECT_THAT(done.message, HasSubstr("stage "));
    }
    expect_over(rank, operation);
  });
}

TEST_F(GroupFailures, AnAsynchronousErrorOfNcclEndsTheGroup) {
  begin();
  on_each([&](GroupRank& rank, const gpu::GroupOperation& operation) {
    if (rank.index() == 3) {
      test::nccl::set_async_error(rank.comm(), nccl::Code::kRemoteError);
      return;
    }
    const auto posted = rank.group().all_reduce(operation);
    if (!posted) return;
    const auto done = rank.wait();
    EXPECT_NE(done.status, Status::kOk);
  });
}

TEST_F(GroupFailures, ABrokenDeviceEndsTheGroup) {
  begin();
  on_each([&](GroupRank& rank, const gpu::GroupOperation& operation) {
    if (rank.index() == 6) {
      rank.thread().expect_failures();
      test::cuda::break_context(6, cuda::Code::kIllegalAddress);
    }
    const auto posted = rank.group().all_reduce(operation);
    if (!posted) return;  // the failure is known already
    const auto done = rank.wait();
    EXPECT_NE(done.status, Status::kOk);
    if (rank.index() == 6) {
      EXPECT_THAT(done.message, HasSubstr("CUDA_ERROR_ILLEGAL_ADDRESS"));
    }
  });
}

TEST_F(GroupFailures, ARankThatLeavesEndsTheGroup) {
  begin();
  on_each([&](GroupRank& rank, const gpu::GroupOperation& operation) {
    if (rank.index() == 2) {
      rank.leave();
      return;
    }
    const auto posted = rank.group().all_reduce(operation);
    if (!posted) return;
    const auto begin = test::cuda::Clock::now();
    const auto done = rank.wait();
    EXPECT_NE(done.status, Status::kOk);
    EXPECT_LT(test::cuda::Clock::now() - begin, std::chrono::seconds(15));  // not the deadline
  });
}

TEST_F(GroupFailures, AClosedGroupFailsOutstandingOperationsAtAllRanks) {
  begin();
  on_each([&](GroupRank& rank, const gpu::GroupOperation& operation) {
    if (rank.index() == 7) {
      auto one = operation;
      ASSERT_TRUE(rank.group().all_reduce(one));
      rank.leave();
      return;
    }
    if (rank.index() / 2 == 0) return;  // so that the operation cannot succeed
    const auto posted = rank.group().all_reduce(operation);
    if (!posted) return;
    EXPECT_NE(rank.wait().status, Status::kOk);
  });
}

TEST_F(GroupFailures, TheEndOfTheNodeEndsTheGroup) {
  begin();
  on_each([&](GroupRank& rank, const gpu::GroupOperation& operation) {
    if (rank.index() == 0) {
      cluster_->stop_node();
      return;
    }
    if (!rank.group().all_reduce(operation)) return;
    EXPECT_NE(rank.wait().status, Status::kOk);
  });
}

TEST_F(GroupFailures, RefusesAStreamThatIsBeingCaptured) {
  begin();
  on_each([&](GroupRank& rank, const gpu::GroupOperation& operation) {
    const auto& cu = rank.thread().driver();
    DeviceStream captured(rank.thread());
    rank.thread().check(cu.stream_begin_capture(captured.get(), cuda::kCaptureModeThreadLocal));
    auto wanted = operation;
    wanted.stream = captured.get();
    EXPECT_EQ(rank.group().all_reduce(wanted).status(), Status::kUnsupported);
    cuda::Graph graph = nullptr;
    rank.thread().check(cu.stream_end_capture(captured.get(), &graph));
    rank.thread().check(cu.graph_destroy(graph));
  });
}

constexpr std::uint32_t kAll = 3;

// A rank's agreement, up to the first verdict of all ranks.
std::unique_ptr<gpu::Agreement> agree(const Rank& rank, std::uint32_t index) {
  auto agreement = gpu::Agreement::begin(rank.session(), 20'000);
  EXPECT_TRUE(agreement) << agreement.error().message;
  const Status own = index == 1 ? Status::kDeadline : Status::kOk;
  EXPECT_TRUE((*agreement)->announce(3, 5, {own, gpu::Stage::kSum, index}));
  gpu::Agreement::Agreed agreed;
  while (!(*agreement)->poll(agreed)) std::this_thread::yield();
  EXPECT_EQ(agreed.index, 3U);
  EXPECT_EQ(agreed.verdict.status, Status::kDeadline);
  EXPECT_EQ(agreed.verdict.stage, gpu::Stage::kSum);
  EXPECT_EQ(agreed.verdict.rank, 1U);
  return std::move(agreement).value();
}

// A process that is one rank, and dies after the first verdict. It begins before there are threads.
class ProcessRank {
 public:
  explicit ProcessRank(std::uint32_t index) {
    EXPECT_EQ(::pipe(address_), 0);
    child_ = ::fork();
    if (child_ != 0) return;
    char address[200] = {};
    if (::read(address_[0], address, sizeof address - 1) <= 0) ::_exit(1);
    const Rank rank(address, index, kAll);
    const auto agreement = agree(rank, index);
    ::_exit(0);
  }
  ~ProcessRank() {
    int status = 0;
    EXPECT_EQ(::waitpid(child_, &status, 0), child_);
    EXPECT_EQ(status, 0);
    ::close(address_[0]);
    ::close(address_[1]);
  }
  ProcessRank(const ProcessRank&) = delete;
  ProcessRank& operator=(const ProcessRank&) = delete;
  void join(const std::string& address) const {
    EXPECT_GT(::write(address_[1], address.data(), address.size()), 0);
  }

 private:
  int address_[2] = {-1, -1};
  pid_t child_ = 0;
};

TEST(GroupAgreement, ADeadRankEndsTheWatchesOfTheOthers) {
  for (std::uint32_t dying = 0; dying < kAll; ++dying) {
    const ProcessRank process(dying);
    const LocalNode node;
    process.join(node.address());
    on_each_rank(kAll, [&](std::uint32_t index) {
      if (index == dying) return;
      const Rank rank(node.address(), index, kAll);
      const auto agreement = agree(rank, index);
      gpu::Agreement::Agreed agreed;
      while (agreement->ended().empty()) {
        agreement->poll(agreed);
        std::this_thread::yield();
      }
      EXPECT_THAT(agreement->ended(), HasSubstr("peer lost"));
      EXPECT_EQ(agreement->culprit(), dying);
    });
  }
}

TEST_F(GroupFailures, RefusesMoreThanTheLimitOfOperations) {
  begin();
  on_each([&](GroupRank& rank, const gpu::GroupOperation& operation) {
    auto wanted = operation;
    wanted.count = 100;
    for (; wanted.tag < gpu::MachineGroup::kMostOperations; ++wanted.tag) {
      ASSERT_TRUE(rank.group().all_reduce(wanted));
    }
    EXPECT_EQ(rank.group().all_reduce(wanted).status(), Status::kNoCredit);
    for (std::uint32_t i = 0; i < gpu::MachineGroup::kMostOperations; ++i) {
      EXPECT_EQ(rank.wait().status, Status::kOk);
    }
    ASSERT_TRUE(rank.group().all_reduce(wanted));
    EXPECT_EQ(rank.wait().status, Status::kOk);
  });
}

}  // namespace
}  // namespace tally::testing
