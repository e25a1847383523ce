// Locked memory, hugepages, the cgroup.
#include "base/units.h"
#include "tests/support/control/fake_machine.h"

namespace tally::control::doctor {
namespace {

using MemlockTest = MachineTest;

TEST_F(MemlockTest, WithoutALimitAllIsWell) {
  expect(about(check_memlock, "locked"), Level::kOk, "unlimited");
}

TEST_F(MemlockTest, ALimitMattersToRdma) {
  system_.lock_limit = 64 << 10;
  expect(about(check_memlock, "locked"), Level::kNote, "64.0 KiB: enough without RDMA");
  add_roce_device();
  expect(about(check_memlock, "locked"), Level::kProblem, "64.0 KiB", "LimitMEMLOCK=infinity");
  expect(about(check_memlock, "locked"), Level::kProblem, "", "/etc/security/limits.d/");
  expect(about(check_memlock, "locked"), Level::kProblem, "", "--ulimit memlock=-1:-1");
  system_.lock_limit = 16 * kGib;
  expect(about(check_memlock, "locked"), Level::kWarning, "16.0 GiB: all gradients");
}

TEST_F(MemlockTest, WhoMayExceedItIsNotLimited) {
  add_roce_device();
  system_.lock_limit = 8 << 20;
  write("proc/self/status", "Name:\tx\nCapEff:\t0000000000004000\nSeccomp:\t0");
  expect(about(check_memlock, "locked"), Level::kOk, "CAP_IPC_LOCK");
  write("proc/self/status", "Name:\tx\nCapEff:\t0000000000000000");
  expect(about(check_memlock, "locked"), Level::kProblem, "8.0 MiB");
  write("proc/self/status", "CapEff:\tnonsense");
  expect(about(check_memlock, "locked"), Level::kProblem, "8.0 MiB");
}

class HugepagesTest : public MachineTest {
 protected:
  void reserve(const std::string& folder, int all, int free) const {
    write(folder + "/hugepages/hugepages-2048kB/nr_hugepages", std::to_string(all));
    write(folder + "/hugepages/hugepages-2048kB/free_hugepages", std::to_string(free));
  }
  void choose(std::string_view text) const {
    write("sys/kernel/mm/transparent_hugepage/shmem_enabled", text);
  }
};

TEST_F(HugepagesTest, AreCountedByNode) {
  reserve("sys/kernel/mm", 128, 100);
  reserve("sys/devices/system/node/node0", 128, 100);
  reserve("sys/devices/system/node/node1", 0, 0);
  expect(about(check_hugepages, "2 MiB"), Level::kOk,
         "100 of 128 free (node0 100 of 128, node1 0 of 0)");
}

TEST_F(HugepagesTest, TheConfigurationSetsTheirNumber) {
  reserve("sys/kernel/mm", 10, 4);
  configure("[memory]\nengine_mib = 64\n");
  expect(about(check_hugepages, "2 MiB"), Level::kNote, "the engine wants 32: the engine takes",
         "vm.nr_hugepages=38");
  configure("[memory]\nengine_mib = 64\nhugepages = \"on\"\n");
  expect(about(check_hugepages, "2 MiB"), Level::kProblem, "memory.hugepages = \"on\"",
         "vm.nr_hugepages=38");
  configure("[memory]\nhugepages = \"off\"\n");
  expect(about(check_hugepages, "2 MiB"), Level::kOk, "the engine wants 0");
}

TEST_F(HugepagesTest, NoneIsANoteAndNotKnowingToo) {
  expect(about(check_hugepages, "2 MiB"), Level::kNote, "unknown (/sys/kernel/mm", "host");
  reserve("sys/kernel/mm", 0, 0);
  expect(about(check_hugepages, "2 MiB"), Level::kNote, "0 of 0 free", "vm.nr_hugepages=128");
}

TEST_F(HugepagesTest, SharedMemoryShouldHaveThemOnlyWhenItAsks) {
  choose("always within_size advise [never] deny force");
  expect(about(check_hugepages, "shmem_enabled"), Level::kOk, "never");
  choose("always within_size [advise] never deny force");
  expect(about(check_hugepages, "shmem_enabled"), Level::kOk, "advise");
  choose("[always] within_size advise never deny force");
  expect(about(check_hugepages, "shmem_enabled"), Level::kNote, "always", "echo advise >/sys");
  choose("nothing in brackets ]");
  expect(about(check_hugepages, "shmem_enabled"), Level::kNote, "unknown (");
}

class MemoryTest : public MachineTest {
 protected:
  void limit_to(std::string_view bytes) const {
    write("proc/meminfo", "MemTotal:       33554432 kB\nMemFree:  1 kB");
    write("proc/self/cgroup", "0::/a");
    write("sys/fs/cgroup/a/memory.max", bytes);
  }
};

TEST_F(MemoryTest, TheCgroupsLimitIsShown) {
  expect(about(check_memory, "cgroup"), Level::kOk, "no limit");
  limit_to("max");
  expect(about(check_memory, "cgroup"), Level::kOk, "no limit");
  limit_to("9223372036854771712");
  expect(about(check_memory, "cgroup"), Level::kOk, "no limit");
  limit_to("17179869184");
  expect(about(check_memory, "cgroup"), Level::kOk, "16.0 GiB, 15.8 GiB of it for regions");
}

TEST_F(MemoryTest, LittleOfItOrTooMuchPromisedIsAWarning) {
  limit_to("536870912");
  expect(about(check_memory, "cgroup"), Level::kWarning, "512.0 MiB: 256.0 MiB of it",
         "MemoryMax=");
  limit_to("17179869184");
  configure("[limits]\nnode_region_bytes = \"16GiB\"\n");
  expect(about(check_memory, "cgroup"), Level::kWarning, "limits.node_region_bytes is 16GiB",
         "leave limits.node_region_bytes out");
}

}  // namespace
}  // namespace tally::control::doctor
