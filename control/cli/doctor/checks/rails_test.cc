// Several NICs.
#include "tests/support/control/fake_machine.h"

namespace tally::control::doctor {
namespace {

class RailsTest : public MachineTest {
 protected:
  RailsTest() {
    system_.addresses = {{"eth0", "10.0.0.1", true, 24}, {"eth1", "10.0.1.1", true, 24}};
    write("sys/class/net/eth0/speed", "100000");
  }
  void name(const std::string& rails, const std::string& more = "") {
    configure("listen_tcp = \"tcp:*:7733\"\n[shards]\ncount = 4\n[network]\nrails = \"" + rails +
              "\"\n" + more);
  }
  // Two nodes with so many cores; the NICs are at one each.
  void add_hardware(int cores) {
    system_.machine_hardware.emplace();
    for (int cpu = 0; cpu < 2 * cores; ++cpu) {
      system_.machine_hardware->cores.push_back({{cpu}, cpu / cores});
    }
    system_.machine_hardware->nics = {{"eth0", 0}, {"eth1", 1}};
  }
};

TEST_F(RailsTest, WithoutAConfigurationThereAreNone) {
  expect(about(check_rails, "rails"), Level::kOk, "only a configuration");
  configure("");
  expect(about(check_rails, "rails"), Level::kOk, "names none");
}

TEST_F(RailsTest, EachIsShown) {
  name("10.0.0.1,10.0.1.1");
  expect(about(check_rails, "rail 0, 10.0.0.1"), Level::kOk, "eth0, 12.5 GB/s");
  expect(about(check_rails, "rail 1, 10.0.1.1"), Level::kOk, "eth1");
}

TEST_F(RailsTest, WhatIsNotThereOrDownIsLeftOut) {
  system_.addresses[1].up = false;
  name("10.0.0.1,10.0.1.1,10.0.2.1");
  expect(about(check_rails, "rail 1"), Level::kWarning, "eth1 is down", "ip link set eth1 up");
  expect(about(check_rails, "rail 2"), Level::kProblem, "no interface", "ip address");
}

TEST_F(RailsTest, SpeedsThatAreTooHighAreNoted) {
  name("10.0.0.1,10.0.1.1", "speeds = \"200Gbit,200Gbit\"\n");
  expect(about(check_rails, "rail 0"), Level::kNote, "network.speeds says 25 GB/s", "carries");
  expect(about(check_rails, "rail 1"), Level::kOk, "eth1");  // it reports no speed
}

TEST_F(RailsTest, OneNetworkIsOneWay) {
  system_.addresses[1] = {"eth1", "10.0.0.2", true, 24};
  name("10.0.0.1,10.0.0.2");
  expect(about(check_rails, "rails 0 and 1"), Level::kWarning, "eth0 and eth1 are on one network",
         "subnet");
}

TEST_F(RailsTest, ShardsAreNearTheirNics) {
  add_hardware(4);
  name("10.0.0.1,10.0.1.1");
  expect(about(check_rails, "rail 0"), Level::kOk, "shards 0, 2 on CPUs 0, 1");
  expect(about(check_rails, "rail 1"), Level::kOk, "shards 1, 3 on CPUs 4, 5");
  EXPECT_EQ(*shard_cpus(machine()), (std::vector<int>{0, 4, 1, 5}));
}

TEST_F(RailsTest, ShardsThatAreFarAreCounted) {
  add_hardware(4);
  auto& cores = system_.machine_hardware->cores;
  cores.erase(cores.begin() + 5, cores.end());  // one core of node1 is left
  name("10.0.0.1,10.0.1.1");
  expect(about(check_rails, "rail 1"), Level::kWarning, "it is at node1, and 1 of its shards",
         "more cores of node1");
}

}  // namespace
}  // namespace tally::control::doctor
