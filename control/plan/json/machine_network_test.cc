#include "control/plan/json/machine_network.h"

#include <gtest/gtest.h>

#include <tuple>

#include "control/plan/model/validate.h"

namespace tally::plan {
namespace {

using LinkList = std::vector<std::tuple<std::string, std::string, double>>;

LinkList link_list(const Network& network) {
  LinkList links;
  for (const Link& link : network.links) {
    links.emplace_back(network.name_of(link.from), network.name_of(link.to), link.capacity);
  }
  return links;
}

Machine worker(const char* name, double speed, const char* rack = "") {
  return {.name = name, .nic = speed, .rack = rack};
}

TEST(MachineNetwork, IsAStarWithoutRacks) {
  const auto network = network_of({.machines = {worker("a", 1), worker("b", 2)}});
  ASSERT_TRUE(network.ok()) << network.error().message;
  EXPECT_EQ(
      link_list(*network),
      (LinkList{
          {"a", "switch 2", 1}, {"switch 2", "a", 1}, {"b", "switch 2", 2}, {"switch 2", "b", 2}}));
}

TEST(MachineNetwork, HasTheRacksAndSwitchesOfTheFile) {
  MachineFile file{.machines = {worker("a", 1, "r1"), worker("b", 2, "r2"), worker("c", 3)}};
  file.racks = {{.name = "r1", .up = 4, .down = 5}, {.name = "r2", .to = "s", .up = 6, .down = 6}};
  file.switches = {{.name = "s", .up = 7, .down = 7}};
  const auto network = network_of(file);
  ASSERT_TRUE(network.ok()) << network.error().message;
  EXPECT_EQ(link_list(*network), (LinkList{{"r1", "core", 4},
                                           {"core", "r1", 5},
                                           {"r2", "s", 6},
                                           {"s", "r2", 6},
                                           {"s", "core", 7},
                                           {"core", "s", 7},
                                           {"a", "r1", 1},
                                           {"r1", "a", 1},
                                           {"b", "r2", 2},
                                           {"r2", "b", 2},
                                           {"c", "core", 3},
                                           {"core", "c", 3}}));
  EXPECT_EQ(network->vertices[0].rack, 0U);
  EXPECT_EQ(network->vertices[1].rack, 1U);
  EXPECT_FALSE(network->vertices[2].rack.has_value());
  EXPECT_EQ(network->machines(), 3U);
  EXPECT_TRUE(validate(*network).ok());
}

TEST(MachineNetwork, NamesTheMachineThatOthersDoNotReach) {
  MachineFile file{.machines = {worker("a", 1, "r"), worker("b", 1)}};
  file.racks = {{.name = "r", .to = "s", .up = 1, .down = 1}};
  file.switches = {{.name = "s"}};
  const auto network = network_of(file);
  ASSERT_FALSE(network.ok());
  EXPECT_EQ(network.error().message,
            "machine \"b\": no links lead to it from machine \"a\"; give the racks and switches "
            "between them \"to\" and \"speed\", or \"up\" and \"down\"");
  file.machines[1].nic = 0;
  EXPECT_NE(network_of(file).error().message.find("machine \"b\": its speed is not known"),
            std::string::npos);
  EXPECT_FALSE(network_of({}).ok());
}

TEST(MachineNetwork, IsReadFromEitherFile) {
  const auto by_hand = read_network_or_machines(R"({"fmt":"tally-network/1","machines":[
    {"name":"a","role":"worker","rack":"r","nic":1}],"racks":[{"name":"r","speed":4}]})");
  ASSERT_TRUE(by_hand.ok()) << by_hand.error().message;
  const auto probed = read_network_or_machines(R"({"fmt":"tally-machines/1","machines":[
    {"name":"a","role":"worker","rack":"r","nic":1}],"racks":[{"name":"r","speed":4}]})");
  ASSERT_TRUE(probed.ok()) << probed.error().message;
  EXPECT_EQ(by_hand->vertices.size(), 3U);
  EXPECT_EQ(probed->vertices.size(), 3U);
  EXPECT_EQ(read_network_or_machines(R"({"fmt":"other"})").error().message,
            "fmt = \"other\": must be one of \"tally-network/1\", \"tally-machines/1\"");
  EXPECT_FALSE(read_network_or_machines(R"({"fmt":"tally-machines/1"})").ok());
  EXPECT_FALSE(read_network_or_machines("[]").ok());
  EXPECT_FALSE(read_network_or_machines("").ok());
}

// Between these two something is slower than their NICs.
TEST(MachineNetwork, HasLinksBothWaysForANarrowPair) {
  MachineFile file{.machines = {worker("a", 5), worker("b", 5), worker("c", 3)}};
  file.machines[0].out = 4;
  file.pairs = {{1, 0, 2}, {0, 1, 3.7}, {0, 2, 1}, {2, 1, 2.6}};
  const auto network = network_of(file);
  ASSERT_TRUE(network.ok()) << network.error().message;
  ASSERT_EQ(network->links.size(), 12U);
  LinkList links = link_list(*network);
  links.erase(links.begin(), links.begin() + 6);
  EXPECT_EQ(links, (LinkList{{"a", "b", 3.7},
                             {"a", "c", 1},
                             {"b", "a", 2},
                             {"b", "c", 3},
                             {"c", "a", 3},
                             {"c", "b", 2.6}}));
}

}  // namespace
}  // namespace tally::plan
