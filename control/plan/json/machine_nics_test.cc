// NICs that share PCIe links, in files of networks.
#include "control/plan/json/machine_nics.h"

#include <gtest/gtest.h>

#include "control/plan/json/network_json.h"

namespace tally::plan {
namespace {

// A switch of 15 GB/s with two NICs, and a NIC with a link of its own.
PcieTree inside() {
  return {{{"pcie0", false, SIZE_MAX, {15e9, 14e9}},
           {"eth0", true, 0, {16e9, 16e9}},
           {"eth1", true, 0, {16e9, 16e9}},
           {"eth2", true, SIZE_MAX, {4e9, 4e9}}}};
}

Result<Network> network_with(const std::string& keys, const ReadPcie& read_pcie) {
  return read_network(R"({"fmt":"tally-network/1",
      "racks":[{"name":"r1"},{"name":"r2"}],
      "links":[{"between":["r1","r2"],"speed":1e11}],
      "machines":[{"name":"a","role":"worker")" +
                          keys + R"(},{"name":"b","role":"worker","rack":"r1","nic":1e10}]})",
                      read_pcie);
}

Result<Network> network_with(const std::string& keys) {
  return network_with(keys, [](const std::string& path) -> Result<PcieTree> {
    if (path == "a.xml") return inside();
    return invalid(path + ": cannot be read");
  });
}

std::string error_with(const std::string& keys) {
  const auto network = network_with(keys);
  EXPECT_FALSE(network.ok()) << keys;
  return network.ok() ? "" : network.error().message;
}

double speed(const Network& network, std::string_view from, std::string_view to) {
  for (const Link& link : network.links) {
    if (network.name_of(link.from) == from && network.name_of(link.to) == to) return link.capacity;
  }
  return 0;
}

TEST(MachineNics, NicsBelowOneSwitchShareItsLink) {
  const auto network = network_with(R"(,"rack":"r1","hwloc":"a.xml","nics":[
      {"name":"eth0","speed":12.5e9},{"name":"eth1","out":12.5e9,"in":1e9},{"name":"eth2","speed":12.5e9}])");
  ASSERT_TRUE(network.ok()) << network.error().message;
  EXPECT_EQ(speed(*network, "a", "r1"), 15e9 + 4e9);
  EXPECT_EQ(speed(*network, "r1", "a"), 13.5e9 + 4e9);
  EXPECT_EQ(network->vertices[0].out, 19e9);
  EXPECT_EQ(network->vertices[0].in, 17.5e9);
}

TEST(MachineNics, NicsAtSeveralSwitchesShareItToo) {
  const auto network = network_with(R"(,"rack":"r1","hwloc":"a.xml","nics":[
      {"name":"eth0","speed":12.5e9},{"name":"eth1","speed":12.5e9,"to":"r2"}])");
  ASSERT_TRUE(network.ok()) << network.error().message;
  EXPECT_EQ(speed(*network, "a", "r1"), 12.5e9);
  EXPECT_EQ(speed(*network, "a", "r2"), 12.5e9);
  EXPECT_EQ(network->vertices[0].out, 15e9) << "both together";
  EXPECT_EQ(network->vertices[0].in, 14e9);
}

TEST(MachineNics, WithoutAListAllNicsAreAtTheRack) {
  const auto network = network_with(R"(,"rack":"r2","hwloc":"a.xml")");
  ASSERT_TRUE(network.ok()) << network.error().message;
  EXPECT_EQ(speed(*network, "a", "r2"), 19e9);
  EXPECT_EQ(speed(*network, "r2", "a"), 18e9);
}

TEST(MachineNics, MeasuredSpeedsOfTheMachineTakePrecedence) {
  const auto network = network_with(R"(,"rack":"r1","hwloc":"a.xml","out":9e9,"in":8e9)");
  ASSERT_TRUE(network.ok()) << network.error().message;
  EXPECT_EQ(speed(*network, "a", "r1"), 9e9);
  EXPECT_EQ(network->vertices[0].in, 8e9);
}

TEST(MachineNics, WhatIsWrittenReadsAsTheSame) {
  const auto network = network_with(R"(,"rack":"r1","hwloc":"a.xml","nics":[
      {"name":"eth0"},{"name":"eth1","to":"r2"}])");
  ASSERT_TRUE(network.ok()) << network.error().message;
  const auto again = read_network(write_network(*network));
  ASSERT_TRUE(again.ok()) << again.error().message;
  EXPECT_EQ(write_network(*again), write_network(*network));
  EXPECT_EQ(again->vertices[0].out, network->vertices[0].out);
}

TEST(MachineNics, ErrorsNameThePlaceTheValueAndTheRemedy) {
  EXPECT_EQ(error_with(R"(,"rack":"r1","hwloc":"b.xml")"),
            "machines[0].hwloc = \"b.xml\": must be a file of hwloc's XML of this machine; b.xml: "
            "cannot be read");
  EXPECT_EQ(error_with(R"(,"rack":"r1","hwloc":"a.xml","nics":[{"name":"eth7"}])"),
            "machines[0].nics[0].name = \"eth7\": must be the name of a NIC of the XML: eth0, "
            "eth1, eth2");
  EXPECT_EQ(error_with(R"(,"rack":"r1","hwloc":"a.xml","nics":[{"name":"pcie0"}])").substr(0, 24),
            "machines[0].nics[0].name");
  EXPECT_EQ(error_with(R"(,"rack":"r1","hwloc":"a.xml","nics":[{"name":"eth1"},{"name":"eth1"}])"),
            "machines[0].nics[1].name = \"eth1\": must be a NIC that is not given before");
  EXPECT_EQ(error_with(R"(,"rack":"r1","hwloc":"a.xml","nics":[{"speed":1e9}])"),
            "machines[0].nics[0].name: missing; must be given");
  EXPECT_EQ(error_with(R"(,"hwloc":"a.xml")"),
            "machines[0] = \"a\": must be given the switches of its NICs: \"rack\", or \"nics\" "
            "with \"to\"");
  EXPECT_EQ(error_with(R"(,"rack":"r1","hwloc":"a.xml","nic":1e9)"),
            "machines[0] = \"a\": must be given either \"nic\" or \"hwloc\"");
  EXPECT_EQ(error_with(R"(,"rack":"r1","hwloc":7)").substr(0, 17), "machines[0].hwloc");
  EXPECT_EQ(error_with(R"(,"rack":"r1","nics":[{"name":"eth0","speed":1e9}])").substr(0, 26),
            "machines[0].nics[0].\"name\"");
}

TEST(MachineNics, ReadersWithoutHwlocRefuseTheKey) {
  const auto network = network_with(R"(,"rack":"r1","hwloc":"a.xml")", {});
  ASSERT_FALSE(network.ok());
  EXPECT_EQ(
      network.error().message,
      "machines[0].hwloc = \"a.xml\": must be left out: only tallyctl plan reads hwloc's XML; "
      "give it the network, and this program the plan");
}

}  // namespace
}  // namespace tally::plan
