// GPUs, TCP, the node.
#include "tests/support/control/fake_machine.h"

namespace tally::control::doctor {
namespace {

class GpuTest : public MachineTest {
 protected:
  void add_gpu() {
    write("sys/bus/pci/devices/0000:17:00.0/vendor", "0x10de");
    write("sys/bus/pci/devices/0000:17:00.0/class", "0x030200");
    write("sys/bus/pci/devices/0000:18:00.0/vendor", "0x10de");
    write("sys/bus/pci/devices/0000:18:00.0/class", "0x068000");  // a bridge
  }
};

TEST_F(GpuTest, WithoutBothThereIsNothingToCheck) {
  expect(about(check_gpu, "GPU"), Level::kOk, "no NVIDIA GPU");
  add_gpu();
  expect(about(check_gpu, "GPU"), Level::kOk, "1 of NVIDIA; no RDMA device");
}

TEST_F(GpuTest, PeerMemoryOrDmaBufWillDo) {
  add_gpu();
  add_roce_device();
  expect(about(check_gpu, "GPU memory"), Level::kWarning, "driver is not loaded",
         "modprobe nvidia");
  write("proc/driver/nvidia/version",
        "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64 560");
  write("proc/sys/kernel/osrelease", "6.1.0-amd64");
  expect(about(check_gpu, "GPU memory"), Level::kOk, "dma-buf (kernel 6.1.0-amd64");
  write("proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX x86_64 Kernel Module 560");
  expect(about(check_gpu, "GPU memory"), Level::kWarning, "closed ones", "modprobe nvidia_peermem");
  write("sys/module/nvidia_peermem/refcnt", "0");
  expect(about(check_gpu, "GPU memory"), Level::kOk, "nvidia_peermem is loaded");
}

TEST_F(GpuTest, OldKernelsHaveNoDmaBuf) {
  add_gpu();
  add_roce_device();
  write("proc/driver/nvidia/version", "NVIDIA UNIX Open Kernel Module");
  expect(about(check_gpu, "GPU memory"), Level::kNote, "unknown (/proc/sys/kernel/osrelease");
  write("proc/sys/kernel/osrelease", "5.4.0");
  expect(about(check_gpu, "GPU memory"), Level::kWarning, "5.4.0 is older than 5.12");
  write("proc/sys/kernel/osrelease", "5.12.1");
  expect(about(check_gpu, "GPU memory"), Level::kOk, "dma-buf");
  write("proc/sys/kernel/osrelease", "unversioned");
  expect(about(check_gpu, "GPU memory"), Level::kWarning, "older than 5.12");
}

using TcpTest = MachineTest;

TEST_F(TcpTest, SmallBuffersAreNoted) {
  expect(about(check_tcp, "tcp_rmem"), Level::kNote, "unknown (", "host");
  write("proc/sys/net/ipv4/tcp_rmem", "4096\t131072\t6291456");
  write("proc/sys/net/ipv4/tcp_wmem", "4096\t16384\t1048576");
  write("proc/sys/net/core/rmem_max", "212992");
  write("proc/sys/net/core/wmem_max", "65536");
  expect(about(check_tcp, "tcp_rmem"), Level::kOk, "6291456");
  expect(about(check_tcp, "tcp_wmem"), Level::kNote, "1048576",
         "sysctl -w net.ipv4.tcp_wmem=\"4096 16384 16777216\"");
  expect(about(check_tcp, "rmem_max"), Level::kOk, "212992");
  expect(about(check_tcp, "wmem_max"), Level::kNote, "65536", "sysctl -w net.core.wmem_max=");
  write("proc/sys/net/ipv4/tcp_rmem", "4096");
  expect(about(check_tcp, "tcp_rmem"), Level::kNote, "unknown (not 3 numbers)");
}

using NodeTest = MachineTest;

TEST_F(NodeTest, IsNotNeededUnlessItIsNamed) {
  expect(about(check_node, "unix:/n"), Level::kOk, "none is needed");
  Machine named = machine();
  named.address_was_given = true;
  const Findings findings = check_node(named);
  ASSERT_EQ(findings.size(), 1u);
  expect(findings[0], Level::kProblem, "nobody answers", "--address");
}

TEST_F(NodeTest, ItsAnswerIsLookedAt) {
  system_.node = nlohmann::json{{"version", TALLY_VERSION}, {"shards", 2}, {"hugepages", false}};
  expect(about(check_node, "unix:/n"), Level::kOk, "2 shards, hugepages false");
  system_.node = nlohmann::json{{"version", "0.0.1"}};
  expect(about(check_node, "unix:/n"), Level::kWarning, "and this is", "same version");
  system_.node = nlohmann::json::array();
  expect(about(check_node, "unix:/n"), Level::kProblem, "not a tallyd");
  system_.node = nlohmann::json{{"version", 7}};  // not a text
  const Examined examined = examine(*find_check("node"), machine());
  ASSERT_EQ(examined.findings.size(), 1u);
}

}  // namespace
}  // namespace tally::control::doctor
