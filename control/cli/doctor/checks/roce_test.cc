// The port of network.roce.
#include "tests/support/control/fake_machine.h"

namespace tally::control::doctor {
namespace {

class RocePortTest : public MachineTest {
 protected:
  static constexpr const char* kAddress = "0000:3b:00.0";

  void set_up_nic(const std::string& vendor = "0x8086") {
    write("sys/bus/pci/devices/0000:3b:00.0/class", "0x020000");
    write("sys/bus/pci/devices/0000:3b:00.0/vendor", vendor);
    write("sys/bus/pci/devices/0000:3b:00.0/iommu_group/type", "DMA-FQ");
    write("sys/bus/pci/drivers/vfio-pci/0000:3b:00.0", "");
  }
  void use(const std::string& device, const std::string& more = {},
           const std::string& address = "10.9.0.2/24") {
    configure("listen_tcp = \"tcp:127.0.0.1:0\"\n" + more + "[network]\nroce = \"" + device +
              "\"\nroce_address = \"" + address + "\"\n");
  }
};

TEST_F(RocePortTest, IsUnknownWithoutAConfiguration) {
  expect(about(check_roce, "network.roce"), Level::kOk, "without --config");
  configure("");
  expect(about(check_roce, "network.roce"), Level::kOk, "not set");
}

TEST_F(RocePortTest, ANicNeedsVfioAnIommuAndHugepages) {
  set_up_nic();
  use(kAddress);
  expect(about(check_roce, "network.roce"), Level::kOk, "an Ethernet NIC");
  expect(about(check_roce, "driver of"), Level::kOk, "vfio-pci");
  expect(about(check_roce, "IOMMU of"), Level::kOk, "translates");
  expect(about(check_roce, "hugepages for"), Level::kOk, "memory.hugepages allows them");
  remove("sys/bus/pci/drivers/vfio-pci/0000:3b:00.0");
  remove("sys/bus/pci/devices/0000:3b:00.0/iommu_group");
  use(kAddress, "[memory]\nhugepages = \"off\"\n");
  expect(about(check_roce, "driver of"), Level::kProblem, "not vfio-pci",
         "dpdk-devbind.py --bind vfio-pci 0000:3b:00.0");
  expect(about(check_roce, "IOMMU of"), Level::kProblem, "off", "VT-d");
  expect(about(check_roce, "hugepages for"), Level::kProblem, "memory.hugepages", "\"on\"");
}

TEST_F(RocePortTest, ANicMustBeThereAndHaveADriverInTallyd) {
  use(kAddress);
  expect(about(check_roce, "network.roce"), Level::kProblem, "no such device", "lspci");
  set_up_nic("0x15b3");
  expect(about(check_roce, "network.roce"), Level::kNote, "an NVIDIA NIC", "start tallyd-nics");
  write("sys/bus/pci/devices/0000:3b:00.0/class", "0x010802");
  expect(about(check_roce, "network.roce"), Level::kProblem, "no Ethernet NIC", "lspci");
}

TEST_F(RocePortTest, AnInterfaceIsUpAndHasNoAddressOfTheKernel) {
  use("net_af_packet0,iface=eth1,qpairs=2");
  expect(about(check_roce, "network.roce"), Level::kProblem, "no such interface", "ip link");
  write("sys/class/net/eth1/mtu", "1500");
  write("sys/class/net/eth1/operstate", "down");
  system_.addresses = {{"eth1", "fe80::1", true, 64}, {"eth2", "10.9.0.2", true, 24}};
  expect(about(check_roce, "network.roce"), Level::kProblem, "the interface is down",
         "ip link set eth1 up");
  expect(about(check_roce, "MTU of"), Level::kNote, "1500: packets carry less", "mtu 9000");
  write("sys/class/net/eth1/operstate", "up");
  write("sys/class/net/eth1/mtu", "9000");
  system_.addresses = {{"eth1", "10.9.0.2", true, 24}};
  expect(about(check_roce, "address of eth1"), Level::kWarning,
         "the kernel has 10.9.0.2 on eth1, and receives a copy of each packet",
         "ip address flush dev eth1");
  expect(about(check_roce, "MTU of"), Level::kOk, "9000");
}

TEST_F(RocePortTest, OtherVirtualDevicesHaveOnlyAnAddress) {
  use("net_memif0,role=server");
  expect(about(check_roce, "network.roce"), Level::kOk, "net_memif0");
  expect(about(check_roce, "address of net_memif0"), Level::kOk, "10.9.0.2, which only the port");
}

TEST_F(RocePortTest, AnyPortNeedsAnAddressByTheRulesOfTallyd) {
  set_up_nic();
  for (const char* port : {kAddress, "net_memif0,role=server"}) {
    use(port, "", "10.9.0.2");
    expect(about(check_roce, "address of"), Level::kProblem, "network.roce_address is \"10.9.0.2\"",
           "\"10.9.0.2/24\"");
  }
  use(kAddress);
  expect(about(check_roce, "address of"), Level::kOk, "10.9.0.2, which only the port has");
}

TEST_F(RocePortTest, AnInterfaceForAfXdpNeedsAnotherProgram) {
  use("net_af_xdp0,iface=eth1");
  expect(about(check_roce, "network.roce"), Level::kProblem, "no such interface", "ip link");
  write("sys/class/net/eth1/mtu", "2500");
  expect(about(check_roce, "driver of"), Level::kNote, "only tallyd-nics", "in place of tallyd");
  expect(about(check_roce, "MTU of"), Level::kOk, "2500");
  expect(about(check_roce, "address of eth1"), Level::kOk, "10.9.0.2, which only the port has");
  system_.addresses = {{"eth1", "fe80::1", true, 64}, {"eth1", "10.9.0.7", true, 24}};
  expect(about(check_roce, "address of eth1"), Level::kWarning,
         "the kernel has 10.9.0.7 on eth1, where it receives nothing",
         "network.roce_address without a prefix");
}

TEST_F(RocePortTest, AfXdpBesideTheKernelNeedsAnAddressOfTheKernelAndItsSockets) {
  write("sys/class/net/eth1/mtu", "2500");
  write("proc/net/protocols", "protocol  size\nTCPv6     2240\nXDP       1088\n");
  system_.addresses = {{"eth1", "fe80::1", true, 64}, {"eth2", "10.9.0.2", true, 24}};
  use("net_af_xdp0,iface=eth1", "", "");
  expect(about(check_roce, "address of eth1"), Level::kProblem, "has no address of the kernel",
         "ip address add 10.9.0.2/24 dev eth1");
  expect(about(check_roce, "AF_XDP"), Level::kOk, "the kernel has it");
  system_.addresses.push_back({"eth1", "10.9.0.7", true, 24});
  expect(about(check_roce, "address of eth1"), Level::kOk,
         "10.9.0.7, which the port shares with the kernel");
  use("net_af_xdp0,iface=eth1", "", "10.9.0.2");
  expect(about(check_roce, "address of eth1"), Level::kProblem,
         "network.roce_address is \"10.9.0.2\", and the kernel has 10.9.0.7 on interface eth1",
         "write one of these");
  write("proc/net/protocols", "protocol  size\nTCPv6     2240\n");
  expect(about(check_roce, "AF_XDP"), Level::kProblem, "CONFIG_XDP_SOCKETS", "net_af_packet0");
}

}  // namespace
}  // namespace tally::control::doctor
