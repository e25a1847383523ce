// Devices, libraries, ports, GIDs, MTU: what the kernel and libibverbs show of RDMA.
#include "control/cli/doctor/rdma.h"

#include "tests/support/control/fake_machine.h"

namespace tally::control::doctor {
namespace {

using DevicesTest = MachineTest;

TEST_F(DevicesTest, WithoutHardwareReportsThatTcpServes) {
  write("sys/class/net/eth0/device/vendor", "0x1af4");
  expect(about(check_devices, "RDMA devices"), Level::kNote, "served over TCP (transport fabric)",
         "netdev eth0");
}

TEST_F(DevicesTest, ACardWithoutItsModuleIsNamed) {
  write("sys/bus/pci/devices/0000:3b:00.0/vendor", "0x15b3");
  write("sys/bus/pci/devices/0000:3b:00.0/device", "0x1017");
  write("sys/bus/pci/devices/0000:3b:00.0/class", "0x020000");
  expect(about(check_devices, "RDMA devices"), Level::kWarning, "Mellanox/NVIDIA at 0000:3b:00.0",
         "modprobe mlx5_ib");
  write("sys/module/mlx5_ib/refcnt", "0");
  expect(about(check_devices, "RDMA devices"), Level::kWarning, "served over TCP",
         "dmesg | grep mlx5");
}

TEST_F(DevicesTest, EachDeviceNeedsAFileThatThisUserMayOpen) {
  add_roce_device();
  expect(about(check_devices, "RDMA devices"), Level::kOk, "1: mlx5_0");
  expect(about(check_devices, "mlx5_0"), Level::kOk, "/dev/infiniband/uverbs0 can be opened");
  system_.may_use_files = false;
  expect(about(check_devices, "mlx5_0"), Level::kProblem, "may not open /dev/infiniband/uverbs0",
         "chmod 0666 /dev/infiniband/uverbs0");
  remove("dev/infiniband/uverbs0");
  expect(about(check_devices, "mlx5_0"), Level::kProblem, "not there",
         "docker run --device=/dev/infiniband");
  remove("sys/class/infiniband_verbs");
  expect(about(check_devices, "mlx5_0"), Level::kProblem, "ib_uverbs", "modprobe ib_uverbs");
}

TEST_F(DevicesTest, LibrariesAreOpenedAndFindWhatTheKernelHas) {
  add_roce_device();
  expect(about(check_libraries, "libfabric"), Level::kOk, "1.17");
  expect(about(check_libraries, "libibverbs"), Level::kOk, "1.14.44.0");
  expect(about(check_libraries, "mlx5_0"), Level::kOk, "can open it");
  system_.verbs = VerbsLibrary{
      "1.14.44.0", {{"mlx5_0", "Operation not permitted", {}}}, "", "no RDMA device to use"};
  expect(about(check_libraries, "mlx5_0"), Level::kProblem, "Operation not permitted",
         "ibv_devinfo -d mlx5_0");
  system_.verbs = VerbsLibrary{"1.14.44.0", {}, "", "no RDMA device to use"};
  expect(about(check_libraries, "mlx5_0"), Level::kProblem, "its driver in user space is missing",
         "apt install ibverbs-providers");
}

TEST_F(DevicesTest, MissingLibrariesMatterWhereTheyAreNeeded) {
  system_.libfabric = Error{Status::kUnsupported, "libfabric cannot be opened"};
  expect(about(check_libraries, "libfabric"), Level::kProblem, "no worker on another machine",
         "apt install libfabric1");
  expect(about(check_libraries, "libibverbs"), Level::kNote, "cannot be opened");
  add_roce_device();
  expect(about(check_libraries, "libfabric"), Level::kWarning, "RDMA alone");
  system_.verbs = Error{Status::kUnsupported, "cannot be opened"};
  expect(about(check_libraries, "libibverbs"), Level::kProblem, "cannot be opened",
         "apt install libibverbs1");
}

using PortsTest = MachineTest;

TEST_F(PortsTest, AnActivePortIsShownWithItsRate) {
  EXPECT_EQ(check_ports(machine()).front().level, Level::kOk);
  add_roce_device();
  expect(about(check_ports, "mlx5_0/1"), Level::kOk,
         "ACTIVE, LinkUp, Ethernet, 100 Gb/sec (4X EDR)");
}

TEST_F(PortsTest, TheRemedyDependsOnWhatIsDown) {
  add_roce_device();
  const std::string port = "sys/class/infiniband/mlx5_0/ports/1/";
  write(port + "state", "1: DOWN");
  write(port + "phys_state", "3: Disabled");
  expect(about(check_ports, "mlx5_0/1"), Level::kProblem, "DOWN, Disabled",
         "ip link set dev eth2 up");
  write(port + "phys_state", "2: Polling");
  expect(about(check_ports, "mlx5_0/1"), Level::kProblem, "Polling", "ethtool eth2");
  write(port + "link_layer", "InfiniBand");
  write(port + "state", "2: INIT");
  expect(about(check_ports, "mlx5_0/1"), Level::kProblem, "INIT", "opensm");
}

TEST_F(PortsTest, ASpareOneThatIsDownIsAWarning) {
  add_roce_device();
  write("sys/class/infiniband/mlx5_1/ports/1/link_layer", "Ethernet");
  write("sys/class/infiniband/mlx5_1/ports/1/state", "1: DOWN");
  write("sys/class/infiniband/mlx5_1/device/net/eth3/mtu", "1500");
  expect(about(check_ports, "mlx5_1/1"), Level::kWarning, "DOWN, unknown, Ethernet, unknown rate",
         "eth3");
  // There is no other finding about it.
  EXPECT_EQ(check_gids(machine()).size(), 2u);  // and what the transport would take
  EXPECT_EQ(check_mtu(machine()).size(), 1u);
}

TEST_F(PortsTest, WhatCannotBeReadIsUnknown) {
  add_roce_device();
  remove("sys/class/infiniband/mlx5_0/ports/1/state");
  expect(about(check_ports, "mlx5_0/1"), Level::kNote, "unknown (/sys/class/infiniband", "host");
}

using GidsTest = MachineTest;

TEST_F(GidsTest, TheIpv4AddressOfRoceV2IsPicked) {
  add_roce_device();
  expect(about(check_gids, "mlx5_0/1"), Level::kOk,
         "RoCE v2, 10.0.0.1 on eth2; index 3 would be picked, of 4 in use");
}

TEST_F(GidsTest, ARoutableIpv6AddressWillDo) {
  add_roce_device();
  remove_gids();
  add_gid(0, "fe80:0000:0000:0000:0202:c9ff:fe0d:1234", "RoCE v2");
  add_gid(10, "fd00:0000:0000:0000:0000:0000:0000:0002", "RoCE v2");
  add_gid(2, "fd00:0000:0000:0000:0000:0000:0000:0001", "RoCE v2");
  expect(about(check_gids, "mlx5_0/1"), Level::kOk, "fd00::1 on eth2; index 2");
}

TEST_F(GidsTest, AddressesThatNobodyReachesAreNamed) {
  add_roce_device();
  remove_gids();
  expect(about(check_gids, "mlx5_0/1"), Level::kProblem, "no GID", "ip address add");
  add_gid(0, "0000:0000:0000:0000:0000:ffff:0a00:0001", "IB/RoCE v1");
  expect(about(check_gids, "mlx5_0/1"), Level::kProblem, "RoCE v1 alone",
         "cma_roce_mode -d mlx5_0 -p 1 -m 2");
  add_gid(1, "fe80:0000:0000:0000:0202:c9ff:fe0d:1234", "RoCE v2");
  expect(about(check_gids, "mlx5_0/1"), Level::kWarning, "link-local", "dev eth2");
}

TEST_F(GidsTest, OfInfinibandTheFirstOneIsRight) {
  add_roce_device();
  write("sys/class/infiniband/mlx5_0/ports/1/link_layer", "InfiniBand");
  expect(about(check_gids, "mlx5_0/1"), Level::kOk, "InfiniBand");
  remove_gids();
  expect(about(check_gids, "mlx5_0/1"), Level::kProblem, "no GID", "opensm");
}

TEST_F(GidsTest, GarbageIsNotAnEntry) {
  add_roce_device();
  remove_gids();
  add_gid(0, "not a gid", "RoCE v2");
  add_gid(1, std::string(5000, 'f'), "RoCE v2");
  expect(about(check_gids, "mlx5_0/1"), Level::kProblem, "no GID", "ip address add");
}

TEST_F(GidsTest, WhatTheTransportWouldTakeIsAskedOfIt) {
  add_roce_device();
  expect(about(check_gids, "transport verbs"), Level::kOk, "mlx5_0 port 1, GID 3");
  EXPECT_EQ(system_.verbs_wish.device, "");
  configure("listen_tcp = \"tcp:127.0.0.1:7733\"\n[network]\ndevice = \"mlx5_9\"\n");
  system_.verbs = VerbsLibrary{"1", {}, "", "there is no mlx5_9, but mlx5_0"};
  expect(about(check_gids, "transport verbs"), Level::kProblem, "there is no mlx5_9",
         "network.device");
  EXPECT_EQ(system_.verbs_wish.device, "mlx5_9");
  EXPECT_EQ(system_.verbs_wish.host, "127.0.0.1");
  configure("[network]\nverbs = \"off\"\n");
  expect(about(check_gids, "transport verbs"), Level::kOk, "switched off");
  config_.reset();
  system_.verbs = Error{Status::kUnsupported, "cannot be opened"};
  expect(about(check_gids, "transport verbs"), Level::kNote, "unknown (cannot be opened)");
}

using MtuTest = MachineTest;

TEST_F(MtuTest, ThePayloadOfAPacketAndItsHeadersMustFit) {
  add_roce_device();
  expect(about(check_mtu, "mlx5_0/1 on eth2"), Level::kOk, "9000 bytes, payload of a packet 4096");
  write("sys/class/net/eth2/mtu", "4096");
  expect(about(check_mtu, "eth2"), Level::kProblem, "with 80 of headers it does not fit",
         "ip link set dev eth2 mtu 9000");
  write("sys/class/net/eth2/mtu", "1500");
  system_.verbs = VerbsLibrary{"1", {{"mlx5_0", "", {1024}}}, "", "no RDMA device to use"};
  expect(about(check_mtu, "eth2"), Level::kWarning, "1500 bytes, payload of a packet 1024, of 4096",
         "at least 4200");
}

TEST_F(MtuTest, ReportsWhatIsNotKnown) {
  add_roce_device();
  system_.verbs = Error{Status::kUnsupported, "cannot be opened"};
  expect(about(check_mtu, "eth2"), Level::kOk, "the port's own is unknown");
  remove("sys/class/net/eth2/mtu");
  expect(about(check_mtu, "eth2"), Level::kNote, "unknown (/sys/class/net/eth2/mtu: No such file");
  write("sys/class/net/eth2/mtu", "many");
  expect(about(check_mtu, "eth2"), Level::kNote, "\"many\" is not a number");
}

TEST_F(MtuTest, ReportsTheConfiguredMtu) {
  add_roce_device();
  configure("listen_tcp = \"tcp:127.0.0.1:7733\"\n[network]\nmtu = 1024\n");
  expect(about(check_mtu, "network.mtu, on mlx5_0/1"), Level::kNote,
         "1024, of 4096 that the port has", "network.mtu = 0");
  configure("listen_tcp = \"tcp:127.0.0.1:7733\"\n[network]\nmtu = 4096\n");
  expect(about(check_mtu, "network.mtu"), Level::kOk, "4096");
  system_.verbs = VerbsLibrary{"1", {{"mlx5_0", "", {1024}}}, "", "no RDMA device to use"};
  expect(about(check_mtu, "network.mtu"), Level::kWarning, "4096, and the port has 1024: that is");
}

TEST_F(MtuTest, OfInfinibandThePortsAloneCounts) {
  add_roce_device();
  write("sys/class/infiniband/mlx5_0/ports/1/link_layer", "InfiniBand");
  expect(about(check_mtu, "mlx5_0/1"), Level::kOk, "payload of a packet 4096");
  system_.verbs = VerbsLibrary{"1", {{"mlx5_0", "", {2048}}}, "", "no RDMA device to use"};
  expect(about(check_mtu, "mlx5_0/1"), Level::kNote, "2048", "ibv_devinfo");
}

TEST_F(MtuTest, WithoutRdmaTheCardsOfTcpAreLookedAt) {
  write("sys/class/net/lo/mtu", "65536");
  write("sys/class/net/eth0/mtu", "1500");
  write("sys/class/net/eth0/device/vendor", "0x1af4");
  write("sys/class/net/eth1/mtu", "1500");
  write("sys/class/net/eth1/device/vendor", "0x1af4");
  write("sys/class/net/eth1/operstate", "down");
  EXPECT_EQ(check_mtu(machine()).size(), 1u);
  expect(about(check_mtu, "eth0"), Level::kNote, "1500 bytes: jumbo frames", "mtu 9000");
  write("sys/class/net/eth0/mtu", "9000");
  expect(about(check_mtu, "eth0"), Level::kOk, "9000 bytes");
}

}  // namespace
}  // namespace tally::control::doctor
