// Shards near their NICs, on machines that hwloc describes.
#include "control/machine/cpu_assignment.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "control/machine/topology.h"

namespace tally::control {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

std::vector<int> up_to(int count) {
  std::vector<int> cpus(static_cast<std::size_t>(count));
  std::iota(cpus.begin(), cpus.end(), 0);
  return cpus;
}

// Packages of cores with so many hardware threads each, and below each package of `nics` a network
// card, as hwloc exports them. The lines end where its own parser of XML wants them to: the one of
// libxml is a plugin, which not every machine has.
std::string machine(int packages, int cores, int threads, const std::vector<std::string>& nics) {
  int id = 1, cpu = 0;
  const auto mask = [](int from, int count) {
    return fmt::format("0x{:08x}", ((1ULL << count) - 1) << from);
  };
  const int each = cores * threads;
  const auto sets = [&](int from, int count, const std::string& nodes) {
    return fmt::format(
        "cpuset=\"{0}\" complete_cpuset=\"{0}\" nodeset=\"{1}\" "
        "complete_nodeset=\"{1}\" gp_index=\"{2}\"",
        mask(from, count), nodes, id++);
  };
  std::string text = fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<!DOCTYPE topology SYSTEM \"hwloc2.dtd\">\n"
      "<topology version=\"2.0\"><object type=\"Machine\" os_index=\"0\" allowed_cpuset=\"{}\" "
      "allowed_nodeset=\"{}\" {}>",
      mask(0, packages * each), mask(0, packages), sets(0, packages * each, mask(0, packages)));
  for (int package = 0; package < packages; ++package) {
    const std::string node = mask(package, 1);
    text += fmt::format(
        "<object type=\"Package\" os_index=\"{0}\" {1}>"
        "<object type=\"NUMANode\" os_index=\"{0}\" {2}/>",
        package, sets(package * each, each, node), sets(package * each, each, node));
    for (int core = 0; core < cores; ++core, cpu += threads) {
      text +=
          fmt::format("<object type=\"Core\" os_index=\"{}\" {}>", core, sets(cpu, threads, node));
      for (int thread = 0; thread < threads; ++thread) {
        text += fmt::format("<object type=\"PU\" os_index=\"{}\" {}/>", cpu + thread,
                            sets(cpu + thread, 1, node));
      }
      text += "</object>";
    }
    if (package < static_cast<int>(nics.size()) &&
        !nics[static_cast<std::size_t>(package)].empty()) {
      text += fmt::format(
          "<object type=\"Bridge\" gp_index=\"{}\" bridge_type=\"0-1\" depth=\"0\" "
          "bridge_pci=\"000{}:[00-02]\"><object type=\"PCIDev\" gp_index=\"{}\" "
          "pci_busid=\"000{}:01:00.0\" pci_type=\"0200 [8086:1234] [8086:1234] 01\" "
          "pci_link_speed=\"0.0\"><object type=\"OSDev\" gp_index=\"{}\" name=\"{}\" "
          "osdev_type=\"2\"/></object></object>",
          id, package, id + 1, package, id + 2, nics[static_cast<std::size_t>(package)]);
      id += 3;
    }
    text += "</object>";
  }
  return text + "</object></topology>";
}

Hardware hardware(const std::string& xml, const std::vector<int>& cpus) {
  const auto topology = Topology::of(xml, cpus);
  EXPECT_NE(topology, nullptr);
  return topology != nullptr ? topology->hardware() : Hardware{};
}

std::vector<int> cpus_of(const std::vector<CpuAssignment>& places) {
  std::vector<int> cpus;
  for (const CpuAssignment& place : places) cpus.push_back(place.cpu);
  return cpus;
}

using Nics = std::vector<std::string>;

class ShardPlaces : public ::testing::Test {
 protected:
  void SetUp() override {
    if (Topology::of_this_machine() == nullptr) GTEST_SKIP() << "built without hwloc";
  }
};

TEST_F(ShardPlaces, HwlocListsWhichCpusBelongTogether) {
  const Hardware two = hardware(machine(2, 8, 1, {"eth0", "eth1"}), up_to(16));
  EXPECT_EQ(two.cores.size(), 16u);
  EXPECT_EQ(two.cores[7].node, 0);
  EXPECT_EQ(two.cores[8].node, 1);
  EXPECT_EQ(node_of_nic(two, "eth0"), 0);
  EXPECT_EQ(node_of_nic(two, "eth1"), 1);
  EXPECT_EQ(node_of_nic(two, "eth2"), kNoNode);
}

TEST_F(ShardPlaces, AreNearTheirNics) {
  const Hardware two = hardware(machine(2, 8, 1, {"eth0", "eth1"}), up_to(16));
  const auto places = place_shards(two, Nics{"eth0", "eth1", "eth0", "eth1"});
  EXPECT_THAT(cpus_of(places), ElementsAre(0, 8, 1, 9));
  EXPECT_EQ(places[1].node, 1);
}

// The cores that are near are fewer than the shards: the others have cores, too.
TEST_F(ShardPlaces, GoElsewhereBeforeTheyShareACore) {
  const Hardware one = hardware(machine(2, 8, 2, {"", "eth1"}), up_to(32));
  const auto places = place_shards(one, Nics(10, "eth1"));
  EXPECT_THAT(cpus_of(places), ElementsAre(16, 18, 20, 22, 24, 26, 28, 30, 0, 2));
}

TEST_F(ShardPlaces, ShareCoresThatAreNearFirst) {
  const Hardware small = hardware(machine(2, 1, 2, {"eth0", "eth1"}), up_to(4));
  const auto places = place_shards(small, Nics{"eth1", "eth0", "eth1"});
  EXPECT_THAT(cpus_of(places), ElementsAre(2, 0, 3));
}

// A container's, or a taskset's.
TEST_F(ShardPlaces, StayWithinWhatIsAllowed) {
  const std::vector<int> allowed = {6, 7, 12, 13};
  const Hardware part = hardware(machine(2, 8, 1, {"eth0", "eth1"}), allowed);
  EXPECT_THAT(cpus_of(place_shards(part, Nics{"eth1", "eth0", "eth1"})), ElementsAre(12, 6, 13));
  EXPECT_THAT(cpus_of(place_shards(part, Nics(4, "eth0"))), UnorderedElementsAre(6, 7, 12, 13));
  const std::vector<int> few = {6, 12};
  EXPECT_THAT(place_shards(hardware(machine(2, 8, 1, {"eth0", "eth1"}), few), Nics(3, "eth0")),
              IsEmpty());
  const std::vector<int> near = {0, 1, 2};
  EXPECT_THAT(place_shards(hardware(machine(2, 8, 1, {"eth0", "eth1"}), near), Nics(2, "eth1")),
              IsEmpty())
      << "one node is left, and nothing to choose";
}

TEST_F(ShardPlaces, WhoHasNoPreferenceChoosesLast) {
  const Hardware two = hardware(machine(2, 2, 1, {"eth0", "eth1"}), up_to(4));
  EXPECT_THAT(cpus_of(place_shards(two, Nics{"tunnel", "eth0", "eth0"})), ElementsAre(2, 0, 1));
}

TEST_F(ShardPlaces, LeaveOtherNodesTheirs) {
  const Hardware one = hardware(machine(2, 2, 2, {"eth0", "eth1"}), up_to(8));
  const std::vector<int> taken = {0, 4, 6};
  EXPECT_THAT(cpus_of(place_shards(one, Nics{"eth0", "eth1", "eth1"}, taken)),
              ElementsAre(2, 5, 7));
  EXPECT_THAT(cpus_of(place_shards(one, Nics(6, "eth0"), taken)), ElementsAre(0, 2, 4, 6, 1, 3))
      << "all alike where the rest are not enough";
}

TEST_F(ShardPlaces, WithoutNodesOrNicsAreTheKernels) {
  EXPECT_THAT(place_shards(hardware(machine(1, 8, 1, {"eth0"}), up_to(8)), Nics(2, "eth0")),
              IsEmpty());
  EXPECT_THAT(place_shards(hardware(machine(2, 8, 1, {}), up_to(16)), Nics(2, "eth0")), IsEmpty());
}

TEST_F(ShardPlaces, ThisMachineHasCores) {
  const auto topology = Topology::of_this_machine();
  ASSERT_NE(topology, nullptr);
  EXPECT_THAT(topology->hardware().cores,
              Each(Field(&Hardware::Core::cpus, AllOf(::testing::Not(IsEmpty())))));
  EXPECT_GE(topology->hardware().cpus(), 1u);
  std::vector<std::byte> memory(1 << 20);
  topology->bind(memory, topology->hardware().cores.front().node);  // allowed or not: no harm
  Topology::Near near(topology.get());
  near.at(topology->hardware().cores.front().node);
  std::vector<std::byte> more(1 << 20, std::byte{1});
}

TEST_F(ShardPlaces, WhatIsNoDescriptionIsNone) {
  EXPECT_EQ(Topology::of("<topology", up_to(2)), nullptr);
}

}  // namespace
}  // namespace tally::control
