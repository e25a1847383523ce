// tallyctl plan make --network, from its command line to what it prints.
#include "control/cli/plan/packed_plan.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "base/lp/lp.h"
#include "control/cli/plan/plan_command.h"
#include "tests/support/control/plan_words.h"
#include "tests/support/net/rpc_test_support.h"

namespace tally::control {
namespace {

using nlohmann::json;
using rpc::TemporaryDirectory;

// Two racks of four workers and two helpers with NICs of 1 GB/s, and uplinks of 2 GB/s.
std::string two_racks() {
  json machines = json::array();
  for (int i = 0; i < 12; ++i) {
    machines.push_back({{"name", fmt::format("m{}", i)},
                        {"role", i % 6 < 4 ? "worker" : "helper"},
                        {"rack", i < 6 ? "r1" : "r2"},
                        {"nic", 1e9}});
  }
  const json racks = {{{"name", "r1"}, {"speed", 2e9}}, {{"name", "r2"}, {"speed", 2e9}}};
  return json{{"fmt", "tally-network/1"}, {"racks", racks}, {"machines", machines}}.dump();
}

class PackedPlan : public testing::Test {
 protected:
  std::string file(const std::string& name, const std::string& text) {
    std::string path = directory_ / name;
    std::ofstream(path) << text;
    return path;
  }

  PlanAnswer make(const std::string& network, std::vector<std::string> more = {},
                  bool as_json = false) {
    std::vector<std::string> words = {"make", "--network", network};
    words.insert(words.end(), more.begin(), more.end());
    PlanArguments arguments;
    if (auto refused = read_plan_words(std::move(words), arguments)) return *refused;
    return answer_plan(arguments, as_json);
  }

  TemporaryDirectory directory_;
};

// A machine of one core, with two NICs below a PCIe switch of 2 GB/s.
constexpr const char* kTwoNics =
    R"(<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE topology SYSTEM "hwloc2.dtd">
<topology version="2.0"><object type="Machine" os_index="0" cpuset="0x1" complete_cpuset="0x1" allowed_cpuset="0x1" nodeset="0x1" complete_nodeset="0x1" allowed_nodeset="0x1" gp_index="1"><object type="NUMANode" os_index="0" cpuset="0x1" complete_cpuset="0x1" nodeset="0x1" complete_nodeset="0x1" gp_index="2"/><object type="Core" os_index="0" cpuset="0x1" complete_cpuset="0x1" nodeset="0x1" complete_nodeset="0x1" gp_index="3"><object type="PU" os_index="0" cpuset="0x1" complete_cpuset="0x1" nodeset="0x1" complete_nodeset="0x1" gp_index="4"/></object><object type="Bridge" gp_index="5" bridge_type="0-1" depth="0" bridge_pci="0000:[00-09]"><object type="Bridge" gp_index="6" bridge_type="1-1" depth="1" bridge_pci="0000:[01-09]" pci_busid="0000:00:01.0" pci_type="0604 [10b5:8796] [10b5:8796] ab" pci_link_speed="2"><object type="PCIDev" gp_index="7" pci_busid="0000:01:00.0" pci_type="0200 [15b3:1019] [15b3:0008] 00" pci_link_speed="4"><object type="OSDev" gp_index="8" name="eth0" osdev_type="2"/></object><object type="PCIDev" gp_index="9" pci_busid="0000:02:00.0" pci_type="0200 [15b3:1019] [15b3:0008] 00" pci_link_speed="4"><object type="OSDev" gp_index="10" name="eth1" osdev_type="2"/></object></object></object></object></topology>)";

TEST_F(PackedPlan, KnowsFromHwlocsXmlWhichNicsShareAPcieSwitch) {
  const auto plan_with = [&](const std::string& xml) {
    file("inside.xml", xml);
    return make(
        file("network.json", R"({"fmt":"tally-network/1","racks":[{"name":"r1"}],"machines":[
        {"name":"a","role":"worker","rack":"r1","hwloc":"inside.xml",
         "nics":[{"name":"eth0","speed":1.25e9},{"name":"eth1","speed":1.25e9}]},
        {"name":"b","role":"worker","rack":"r1","nic":5e9}]})"));
  };
  const PlanAnswer made = plan_with(kTwoNics);
  if (made.err.find("this build has no hwloc") != std::string::npos) GTEST_SKIP() << made.err;
  ASSERT_EQ(made.status, 0) << made.err;
  const json nodes = json::parse(made.out)["nodes"];
  EXPECT_EQ(nodes[0]["out"], 2e9);
  EXPECT_EQ(nodes[0]["in"], 2e9);
  const PlanAnswer refused = plan_with("<topology>");
  EXPECT_EQ(refused.status, 2);
  EXPECT_NE(refused.err.find("network.json: machines[0].hwloc = \"inside.xml\": must be a file of "
                             "hwloc's XML of this machine; hwloc cannot read this XML; export it "
                             "again: lstopo --of xml"),
            std::string::npos)
      << refused.err;
}

TEST_F(PackedPlan, IsMadeForRacksAndAccepted) {
  const PlanAnswer made = make(file("network.json", two_racks()), {}, true);
  ASSERT_EQ(made.status, 0) << made.err;
  const json described = json::parse(made.err);
  EXPECT_EQ(described["workers"], 8U);
  EXPECT_EQ(described["helpers"], 4U);
  EXPECT_EQ(described["switches"], 3U);
  // The optimum is 9/7 of the time of a NIC.
  EXPECT_NEAR(described["lower_bound"].get<double>() * 1e9, 9.0 / 7, 0.002);
  EXPECT_LE(described["tau"].get<double>(), described["lower_bound"].get<double>() * 1.03);

  PlanArguments arguments;
  ASSERT_FALSE(read_plan_words({"check", file("plan.json", made.out)}, arguments));
  const PlanAnswer checked = answer_plan(arguments, false);
  EXPECT_EQ(checked.status, 0) << checked.err;
}

TEST_F(PackedPlan, ForReduceScattersAndAllGathersIsMadeAndAccepted) {
  if (!lp::is_available()) GTEST_SKIP() << "this build has no Clp";
  const PlanAnswer made =
      make(file("network.json", two_racks()), {"--objective", "rs-ag", "--epoch", "3"}, true);
  ASSERT_EQ(made.status, 0) << made.err;
  const json described = json::parse(made.err);
  EXPECT_EQ(described["method"], "rs-ag-cg");
  EXPECT_NEAR(described["lower_bound"].get<double>() * 1e9, 7.0 / 8, 0.001);
  EXPECT_LE(described["tau"].get<double>(), described["lower_bound"].get<double>() * 1.03);
  EXPECT_EQ(json::parse(made.out)["epoch"], 3);
  PlanArguments arguments;
  ASSERT_FALSE(read_plan_words({"check", file("plan.json", made.out)}, arguments));
  const PlanAnswer checked = answer_plan(arguments, false);
  EXPECT_EQ(checked.status, 0) << checked.err;
  EXPECT_TRUE(checked.out.starts_with("plan \"rs-ag-cg\", epoch 3, rs-ag: ")) << checked.out;
  EXPECT_NE(checked.out.find("\ntimes are those of one reduce-scatter or all-gather, "),
            std::string::npos);
  EXPECT_EQ(json::parse(made.out)["domains"][0]["classes"].size(), 2U);
  EXPECT_EQ(make(file("network.json", two_racks()), {"--objective", "fsdp"}).status, 2);
}

TEST_F(PackedPlan, HintsAtARingWhereRootsHaveFewTrees) {
  if (!lp::is_available()) GTEST_SKIP() << "this build has no Clp";
  const std::string network = file("network.json", two_racks());
  json described = json::parse(make(network, {"--objective", "rs-ag"}, true).err);
  constexpr const char* kHint = "a ring may be faster";
  EXPECT_EQ(render_packed(described).find(kHint), std::string::npos);
  described["tau"] = 1.2 * described["lower_bound"].get<double>();
  EXPECT_NE(render_packed(described).find(kHint), std::string::npos);
  described["objective"] = "allreduce";
  EXPECT_EQ(render_packed(described).find(kHint), std::string::npos);
}

// Stars at all three machines would take 2 ns per byte. The narrow pair carries 0.1 bytes per ns,
// and machine c sends what it does not carry: tau = 2 - tau / 10.
TEST_F(PackedPlan, GoesAroundAPairThatIsMeasuredSlow) {
  const PlanAnswer made = make(file("measured.json", R"({"fmt":"tally-machines/1",
    "machines":[{"name":"a","role":"worker","nic":1e9},{"name":"b","role":"worker","nic":1e9},
                {"name":"c","role":"worker","nic":1e9}],
    "pairs":[{"from":"a","to":"b","speed":1e8},{"from":"b","to":"a","speed":1e8},
             {"from":"a","to":"c","speed":9.5e8}]})"),
                               {}, true);
  ASSERT_EQ(made.status, 0) << made.err;
  EXPECT_NEAR(json::parse(made.err)["lower_bound"].get<double>() * 1e9, 2 / 1.1, 0.002);
  EXPECT_LE(json::parse(made.err)["tau"].get<double>() * 1e9, 2 / 1.1 * 1.03);
}

// Machine a sends half as fast as it receives, and the others receive half as fast as they send.
TEST_F(PackedPlan, MayHaveResultsThatGoAnotherWay) {
  if (!lp::is_available()) GTEST_SKIP() << "this build has no Clp";
  json machines = {{{"name", "a"}, {"role", "worker"}, {"out", 1e9}, {"in", 2e9}}};
  for (const char* name : {"b", "c", "d"}) {
    machines.push_back({{"name", name}, {"role", "worker"}, {"out", 2e9}, {"in", 1e9}});
  }
  for (json& machine : machines) machine["rack"] = "r";
  const std::string network = file("network.json", json{{"fmt", "tally-network/1"},
                                                        {"racks", {{{"name", "r"}}}},
                                                        {"machines", std::move(machines)}}
                                                       .dump());
  const auto tau_of = [](const PlanAnswer& made) {
    return json::parse(made.err)["tau"].get<double>() * 1e9;
  };
  const PlanAnswer same = make(network, {}, true), any = make(network, {"--any-way"}, true);
  ASSERT_EQ(same.status, 0) << same.err;
  ASSERT_EQ(any.status, 0) << any.err;
  EXPECT_LT(tau_of(any), 1.2 * 1.03);
  EXPECT_GT(tau_of(same), 1.3);
  EXPECT_EQ(same.out.find("\"down\""), std::string::npos);
  PlanArguments arguments;
  ASSERT_FALSE(read_plan_words({"check", file("plan.json", any.out)}, arguments));
  const PlanAnswer checked = answer_plan(arguments, false);
  EXPECT_EQ(checked.status, 0) << checked.err;
  EXPECT_NE(make(network).err.find("--any-way"), std::string::npos) << "what would be faster";
  EXPECT_EQ(make(network, {"--any-way"}).err.find("--any-way"), std::string::npos);
}

// As probe measures them. With one tree the plan is far above its bound.
TEST_F(PackedPlan, NeedsNoOtherWayWhereSumsAreFasterThanNics) {
  json network = json::parse(two_racks());
  for (json& machine : network["machines"]) machine["sum"] = 2e9;
  const std::vector<std::string> words = {"--one-class", "--max-trees", "1"};
  EXPECT_EQ(make(file("network.json", network.dump()), words).err.find("--any-way"),
            std::string::npos);
  for (json& machine : network["machines"]) machine["sum"] = 9e8;
  EXPECT_NE(make(file("network.json", network.dump()), words).err.find("--any-way"),
            std::string::npos);
}

TEST_F(PackedPlan, HasAsFewTreesAsTheUserWants) {
  if (!lp::is_available()) GTEST_SKIP() << "this build has no Clp";
  const std::string network = file("network.json", two_racks());
  const auto trees_of = [&](const std::vector<std::string>& words) {
    const PlanAnswer made = make(network, words, true);
    EXPECT_EQ(made.status, 0) << made.err;
    return json::parse(made.err)["trees"].get<std::size_t>();
  };
  EXPECT_GT(trees_of({}), 4U);
  EXPECT_EQ(trees_of({"--one-class", "--max-trees", "4"}), 4U);
  EXPECT_EQ(trees_of({"--max-trees", "4"}), 4U);
  EXPECT_EQ(trees_of({"--max-trees", "1"}), 1U);
  const PlanAnswer refused = make(network, {"--objective", "rs-ag", "--max-trees", "4"});
  EXPECT_NE(refused.err.find("--max-trees: not with --objective rs-ag"), std::string::npos);
  for (const char* wrong : {"0", "257", "x"}) {
    PlanArguments arguments;
    EXPECT_TRUE(read_plan_words({"make", "--network", network, "--max-trees", wrong}, arguments));
  }
}

TEST_F(PackedPlan, IsDescribedInWords) {
  const PlanAnswer made = make(file("network.json", two_racks()));
  ASSERT_EQ(made.status, 0) << made.err;
  EXPECT_TRUE(made.err.starts_with("workers: 8, helpers: 4, switches: 3\n")) << made.err;
  EXPECT_NE(made.err.find("\nlower bound 1.28"), std::string::npos) << made.err;
}

TEST_F(PackedPlan, ReportNamesTheMethod) {
  const std::string network = file("network.json", two_racks());
  json described = json::parse(make(network, {}, true).err);
  EXPECT_EQ(described["method"], lp::is_available() ? "tpp-cg" : "tpp-mwu");
  const std::string words = make(network).err;
  EXPECT_NE(words.find(fmt::format("trees ({}): ", described["method"].get<std::string>())),
            std::string::npos)
      << words;
  EXPECT_EQ(words.find("without Clp") != std::string::npos, !lp::is_available()) << words;
  described["method"] = "tpp-mwu";
  EXPECT_NE(render_packed(described).find("coinor-libclp-dev"), std::string::npos);
}

TEST_F(PackedPlan, HasAClassForEachRangeOfSizes) {
  const std::string network = file("network.json", two_racks());
  const json described = json::parse(make(network, {}, true).err);
  ASSERT_GE(described["classes"].size(), 2U);
  const json& first = described["classes"].front();
  EXPECT_EQ(first["levels"], 1U);
  EXPECT_GT(first["tau"].get<double>(), described["tau"].get<double>());
  EXPECT_TRUE(described["classes"].back()["max_bytes"].is_null());
  EXPECT_NE(make(network).err.find(" trees of 1 level, "), std::string::npos);
  const json slow = json::parse(make(network, {"--hop-us", "500"}, true).err);
  EXPECT_GT(slow["classes"].front()["max_bytes"], first["max_bytes"]);
  const PlanAnswer one = make(network, {"--one-class"}, true);
  EXPECT_EQ(json::parse(one.err)["classes"].size(), 1U);
  EXPECT_EQ(json::parse(one.out)["domains"][0]["classes"].size(), 1U);
}

TEST_F(PackedPlan, IsRefusedWithTheFileAndTheReason) {
  EXPECT_NE(make(directory_ / "none.json").err.find("none.json"), std::string::npos);
  const std::string helpers = R"({"fmt":"tally-network/1","racks":[{"name":"r"}],"machines":[
      {"name":"a","role":"helper","rack":"r","nic":1e9}]})";
  const PlanAnswer refused = make(file("helpers.json", helpers));
  EXPECT_EQ(refused.status, 2);
  EXPECT_NE(refused.err.find("no machine has the role \"worker\""), std::string::npos)
      << refused.err;
  EXPECT_EQ(make(file("network.json", two_racks()), {"--worker", "a=1GB"}).status, 2)
      << "the file has all machines";
}

}  // namespace
}  // namespace tally::control
