// Machines with several GPUs, as threads of the test: the ranks of MachineGroup, with the CUDA and
// the NCCL of the process and one node for all hosts. Different hosts have different communicators,
// and their GPUs meet only in Tally.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <barrier>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "gpu_bridge/group/machine_group.h"
#include "gpu_bridge/machine/test_hosts.h"
#include "gpu_bridge/nccl_api/library.h"
#include "tests/e2e/cuda/device.h"
#include "tests/e2e/local_node.h"
#include "tests/e2e/ranks.h"
#include "tests/support/cuda/cuda_process.h"
#include "tests/support/nccl/nccl_process.h"

namespace tally::testing {

// The groups of all hosts.
using Groups = std::vector<host::Group>;

// `hosts` machines of this plan, each with the named strategy, or with "chosen". Empty: the machine
// does not have it.
inline Groups groups_of(const host::HostPlan& plan, const std::string& strategy,
                        std::size_t hosts) {
  const host::Strategy* found = strategy == "chosen" ? &plan.chosen : nullptr;
  for (const host::Strategy& one : plan.named) {
    if (one.name == strategy) found = &one;
  }
  Groups groups;
  for (std::size_t i = 0; i < hosts && found != nullptr; ++i) {
    groups.insert(groups.end(), found->groups.begin(), found->groups.end());
  }
  return groups;
}

inline Groups groups_of(const host::Host& host, const std::string& strategy, std::size_t hosts) {
  return groups_of(plan_of(host), strategy, hosts);
}

// What the devices of a cluster have.
struct ClusterOptions {
  test::cuda::Settings cuda = {.queues = 4, .memory_bytes = std::size_t{64} << 20};
  test::nccl::Settings nccl = {};
  gpu::GroupOptions group = {.chunk_bytes = 256 << 10};
};

// A rank, on its thread.
class GroupRank {
 public:
  GroupRank(const LocalNode& node, const gpu::Division& division, std::size_t group,
            std::uint32_t rank, const nccl::UniqueId& id, const ClusterOptions& options)
      : index_(division.rank_of(group, rank)),
        thread_(**cuda::system_driver(), static_cast<int>(index_)),
        stream_(thread_),
        all_(node.address(), index_, division.ranks(), "gpus") {
    gpu::GroupMember member;
    member.driver = &thread_.driver();
    member.context = thread_.context();
    member.library = *nccl::system_library();
    member.group = group;
    member.rank = rank;
    EXPECT_EQ(all_.opened(), TALLY_OK) << all_.open_error();
    member.all = all_.session();
    for (const std::size_t column : division.columns_of(group, rank)) {
      columns_.push_back(std::make_unique<Rank>(node.address(), static_cast<std::uint32_t>(group),
                                                static_cast<std::uint32_t>(division.groups()),
                                                gpu::Division::job_of("gpus", column).c_str()));
      EXPECT_EQ(columns_.back()->opened(), TALLY_OK) << columns_.back()->open_error();
      member.columns.push_back(columns_.back()->session());
    }
    const auto size = division.members(group).size();
    if (size > 1) {
      EXPECT_EQ(member.library->comm_init_rank(&comm_, static_cast<int>(size), id,
                                               static_cast<int>(rank)),
                nccl::Code::kSuccess);
      member.communicator = comm_;
    }
    auto made = gpu::MachineGroup::make(division, member, options.group);
    EXPECT_TRUE(made) << (made ? "" : made.error().message);
    if (made) group_ = std::move(made).value();
  }

  std::uint32_t index() const { return index_; }
  const DeviceThread& thread() const { return thread_; }
  const DeviceStream& stream() const { return stream_; }
  gpu::MachineGroup& group() const { return *group_; }
  nccl::Comm comm() const { return comm_; }
  // The rank leaves while the others may be in an operation.
  void leave() { group_ = nullptr; }
  void close() {
    stream_.finish();
    group_ = nullptr;
  }

  gpu::GroupCompletion wait() const {
    gpu::GroupCompletion completion;
    const auto waited = group_->wait(completion, 30'000);
    EXPECT_TRUE(waited) << (waited ? "" : waited.error().message);
    return completion;
  }
  gpu::GroupCompletion run(const gpu::GroupOperation& operation) const {
    const auto posted = group_->all_reduce(operation);
    EXPECT_TRUE(posted) << (posted ? "" : posted.error().message);
    return posted ? wait() : gpu::GroupCompletion{posted.error().status};
  }

 private:
  std::uint32_t index_;
  DeviceThread thread_;
  DeviceStream stream_;
  Rank all_;
  std::vector<std::unique_ptr<Rank>> columns_;
  nccl::Comm comm_ = nullptr;
  std::unique_ptr<gpu::MachineGroup> group_;
};

class Cluster {
 public:
  explicit Cluster(const Groups& groups, ClusterOptions options = {})
      : division_(gpu::Division::make(groups).value()), options_(std::move(options)) {
    options_.cuda.devices = static_cast<int>(division_.ranks());
    test::cuda::reset(options_.cuda);
    test::nccl::reset(options_.nccl);
    ids_.resize(groups.size());
    node_ = std::make_unique<LocalNode>();
    for (nccl::UniqueId& id : ids_) (**nccl::system_library()).get_unique_id(&id);
  }
  ~Cluster() {
    EXPECT_TRUE(test::cuda::wait_until_idle(test::cuda::Clock::now() + std::chrono::seconds(20)));
    for (const auto& waiting : test::cuda::waiting()) ADD_FAILURE() << "waits " << waiting.on;
    EXPECT_EQ(test::nccl::live_communicators(), 0U);
    EXPECT_THAT(test::nccl::misuses(), ::testing::IsEmpty());
    EXPECT_THAT(test::cuda::misuses(), ::testing::IsEmpty());
    test::cuda::reset();
    test::nccl::reset();
  }
  Cluster(const Cluster&) = delete;
  Cluster& operator=(const Cluster&) = delete;

  const gpu::Division& division() const { return division_; }

  const std::string& address() const { return node_->address(); }
  void stop_node() { node_ = nullptr; }

  // Runs `body` for each rank on a thread. The groups are closed when all bodies have returned.
  void on_each(const std::function<void(GroupRank&)>& body) {
    std::barrier all_ranks(static_cast<std::ptrdiff_t>(division_.ranks()));
    std::vector<std::thread> threads;
    for (std::size_t group = 0; group < division_.groups(); ++group) {
      for (std::uint32_t rank = 0; rank < division_.members(group).size(); ++rank) {
        threads.emplace_back([&, group, rank] {
          GroupRank one(*node_, division_, group, rank, ids_[group], options_);
          body(one);
          all_ranks.arrive_and_wait();
          one.close();
        });
      }
    }
    for (std::thread& thread : threads) thread.join();
  }

 private:
  gpu::Division division_;
  ClusterOptions options_;
  std::vector<nccl::UniqueId> ids_;
  std::unique_ptr<LocalNode> node_;
};

// Small values, whose sums are exact in f32.
inline std::vector<float> group_values(std::uint32_t rank, std::uint64_t count) {
  std::vector<float> values(count);
  for (std::uint64_t i = 0; i < count; ++i) {
    values[i] = static_cast<float>((i * 2654435761U >> 7) % 1000 + 3 * rank) - 500.0F;
  }
  return values;
}

inline std::vector<float> group_sum(std::uint32_t ranks, std::uint64_t count) {
  std::vector<float> sum = group_values(0, count);
  // Each rank's values are greater by 3 than those of the rank before it.
  const auto more = static_cast<float>(3 * (ranks * (ranks - 1) / 2));
  for (float& value : sum) value = static_cast<float>(ranks) * value + more;
  return sum;
}

inline gpu::GroupOperation group_operation(const DeviceArray<float>& array,
                                           const DeviceStream& stream, std::uint64_t count,
                                           std::uint32_t tag = 0) {
  gpu::GroupOperation operation;
  operation.data = array.data();
  operation.count = count;
  operation.tag = tag;
  operation.stream = stream.get();
  return operation;
}

}  // namespace tally::testing
