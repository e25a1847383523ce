// CPUs: near to the cards, fast, and their own.
#include "tests/support/control/fake_machine.h"

namespace tally::control::doctor {
namespace {

class NumaTest : public MachineTest {
 protected:
  // Two nodes with two CPUs each; the card is at the second.
  void add_nodes() {
    write("sys/devices/system/node/node0/cpulist", "0-1");
    write("sys/devices/system/node/node0/distance", "10 21");
    write("sys/devices/system/node/node1/cpulist", "2-3");
    write("sys/devices/system/node/node1/distance", "21 10");
    write("sys/devices/system/node/has_cpu", "0-1");
    add_roce_device();
    write("sys/class/infiniband/mlx5_0/device/numa_node", "1");
  }
};

TEST_F(NumaTest, OneNodeIsNearToAll) {
  expect(about(check_numa, "NUMA"), Level::kOk, "one node");
}

TEST_F(NumaTest, CpusAreCountedByTheirDistance) {
  add_nodes();
  expect(about(check_numa, "mlx5_0"), Level::kNote,
         "at node1, with 2 of 4 CPUs of this process; others at node0 (distance 21",
         "numactl --cpunodebind=1 --membind=1");
  system_.allowed_cpus = std::vector<int>{2, 3};
  expect(about(check_numa, "mlx5_0"), Level::kOk, "2 of 2 CPUs");
  system_.allowed_cpus = std::vector<int>{0, 1};
  expect(about(check_numa, "mlx5_0"), Level::kWarning, "0 of 2 CPUs", "CPUAffinity=2-3");
}

TEST_F(NumaTest, TheConfigurationsShardsAreWhatCounts) {
  add_nodes();
  configure("[shards]\ncount = 2\n");  // on CPUs 0 and 1
  expect(about(check_numa, "mlx5_0"), Level::kWarning, "0 of 2 CPUs of the shards");
  configure("[shards]\ncount = 1\n");  // floats over all
  expect(about(check_numa, "mlx5_0"), Level::kNote, "2 of 4 CPUs of the shards");
}

TEST_F(NumaTest, ACardWithoutANumaNodeIsOk) {
  add_nodes();
  write("sys/class/infiniband/mlx5_0/device/numa_node", "-1");
  expect(about(check_numa, "mlx5_0"), Level::kOk, "does not say");
  remove("sys/class/infiniband/mlx5_0/device/numa_node");
  expect(about(check_numa, "mlx5_0"), Level::kOk, "does not say");
}

TEST_F(NumaTest, WithoutRdmaTheNetworkCardsCount) {
  add_nodes();
  remove("sys/class/infiniband");
  write("sys/class/net/eth0/device/numa_node", "0");
  system_.allowed_cpus = std::vector<int>{2};
  expect(about(check_numa, "eth0"), Level::kWarning, "at node0, with 0 of 1 CPUs");
  system_.allowed_cpus = Error{Status::kInternal, "sched_getaffinity: no"};
  expect(about(check_numa, "NUMA"), Level::kNote, "unknown (sched_getaffinity: no)");
}

using CpuTest = MachineTest;

TEST_F(CpuTest, TheGovernorShouldBePerformance) {
  expect(about(check_cpu, "governor"), Level::kOk, "none here");
  for (const char* cpu : {"cpu0", "cpu1", "cpu2", "cpu3"}) {
    write(std::string("sys/devices/system/cpu/") + cpu + "/cpufreq/scaling_governor",
          "performance");
  }
  expect(about(check_cpu, "governor"), Level::kOk, "performance");
  write("sys/devices/system/cpu/cpu3/cpufreq/scaling_governor", "powersave");
  expect(about(check_cpu, "governor"), Level::kNote, "performance, powersave",
         "cpupower frequency-set -g performance");
  system_.allowed_cpus = std::vector<int>{0, 1};  // the others are none of our business
  expect(about(check_cpu, "governor"), Level::kOk, "performance");
}

TEST_F(CpuTest, BusyShardsWantCpusOfTheirOwn) {
  expect(about(check_cpu, "isolcpus"), Level::kOk, "only shards.poll = \"busy\"");
  configure("[shards]\npoll = \"busy\"\n");
  write("proc/cmdline", "quiet isolcpusx=1");
  expect(about(check_cpu, "isolcpus"), Level::kNote, "other work interrupts", "GRUB_CMDLINE_LINUX");
  write("proc/cmdline", "quiet isolcpus=2-3 nohz_full=2-3");
  expect(about(check_cpu, "isolcpus"), Level::kOk, "isolcpus=2-3 nohz_full=2-3");
}

TEST_F(CpuTest, TheIommuShouldPassRdmaThrough) {
  expect(about(check_cpu, "IOMMU"), Level::kOk, "RDMA devices alone");
  add_roce_device();
  expect(about(check_cpu, "IOMMU"), Level::kOk, "no RDMA device is translated");
  write("sys/class/infiniband/mlx5_0/device/iommu_group/type", "DMA-FQ");
  expect(about(check_cpu, "IOMMU"), Level::kNote, "mlx5_0: translated", "iommu=pt");
  write("sys/class/infiniband/mlx5_0/device/iommu_group/type", "identity");
  expect(about(check_cpu, "IOMMU"), Level::kOk, "no RDMA device is translated");
}

}  // namespace
}  // namespace tally::control::doctor
