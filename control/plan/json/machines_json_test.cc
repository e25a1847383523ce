// The file of machines, read and written.
#include "control/plan/json/machines_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/control/damaged_json.h"

namespace tally::plan {
namespace {

constexpr const char* kWhole = R"({"fmt":"tally-machines/1",
 "machines":[
  {"address":"tcp:10.0.0.1:7733","in":1200000000.0,"interface":"eth0","name":"a","nic":1250000000.0,"out":1100000000.0,"role":"worker","sum":40000000000.0},
  {"name":"b","nic":1250000000.0,"role":"helper"}
 ],
 "pairs":[
  {"from":"b","speed":900000000.0,"to":"a"}
 ]}
)";

std::string error_of(const std::string& text) {
  const auto file = read_machines(text);
  return file ? "" : file.error().message;
}

std::string with_machine(const std::string& machine) {
  return R"({"fmt":"tally-machines/1","machines":[)" + machine + "]}";
}

std::string with_racks(const std::string& racks) {
  return R"({"fmt":"tally-machines/1","racks":[)" + racks +
         R"(],"machines":[{"name":"a","role":"worker","rack":"r"}]})";
}

TEST(MachineFile, IsReadAsItWasWritten) {
  const auto file = read_machines(kWhole);
  ASSERT_TRUE(file.ok()) << file.error().message;
  ASSERT_EQ(file->machines.size(), 2U);
  EXPECT_EQ(file->machines[0].in, 1.2e9);
  EXPECT_EQ(file->machines[0].interface, "eth0");
  EXPECT_EQ(file->machines[1].role, Role::kHelper);
  EXPECT_EQ(file->machines[1].in, 0);
  ASSERT_EQ(file->pairs.size(), 1U);
  EXPECT_EQ(file->pairs[0].from, 1U);
  EXPECT_EQ(file->pairs[0].to, 0U);
  EXPECT_EQ(write_machines(*file), kWhole);
  EXPECT_EQ(error_of(write_machines({})), "");
}

TEST(MachineFile, RacksAndSwitchesAreReadAsTheyWereWritten) {
  const std::string text = R"({"fmt":"tally-machines/1",
 "racks":[
  {"down":4.0,"name":"r0","to":"s","up":5.0},
  {"down":6.0,"name":"r1","up":6.0}
 ],
 "switches":[
  {"down":7.0,"name":"s","to":"core","up":7.0},
  {"name":"core"}
 ],
 "machines":[
  {"name":"a","nic":1.0,"rack":"r1","role":"worker"},
  {"name":"b","nic":1.0,"role":"worker"}
 ],
 "pairs":[
 ]}
)";
  const auto file = read_machines(text);
  ASSERT_TRUE(file.ok()) << file.error().message;
  EXPECT_EQ(write_machines(*file), text);
  ASSERT_EQ(file->racks.size(), 2U);
  EXPECT_EQ(file->racks[0].to, "s");
  EXPECT_EQ(file->racks[0].up, 5);
  EXPECT_EQ(file->racks[0].down, 4);
  EXPECT_EQ(file->machines[0].rack, "r1");
  EXPECT_EQ(file->machines[1].rack, "");
}

TEST(MachineFile, MeasuredSpeedsOverrideDeclaredOnes) {
  const auto file = read_machines(kWhole);
  const auto a = vertex_of(file->machines[0]), b = vertex_of(file->machines[1]);
  EXPECT_EQ(a->in, 1.2e9);
  EXPECT_EQ(a->out, 1.1e9);
  EXPECT_EQ(a->sum, 40e9);
  EXPECT_EQ(b->in, 1.25e9);
  EXPECT_FALSE(b->sum.has_value());
  const auto unknown = vertex_of({.name = "c", .in = 1e9});
  ASSERT_FALSE(unknown.ok());
  EXPECT_NE(unknown.error().message.find("machine \"c\""), std::string::npos);
}

TEST(MachineFile, DamagedFilesAreRefusedAtTheirPlace) {
  const std::string whole = R"({"fmt":"tally-machines/1",
      "racks":[{"name":"r0","to":"s","up":5,"down":4},{"name":"r1","speed":6}],
      "switches":[{"name":"s","to":"core","speed":7}],
      "machines":[
       {"name":"a","role":"worker","address":"tcp:a:1","interface":"eth0","nic":5,"in":4,"out":3,"sum":9,"rack":"r0"},
       {"name":"b","role":"helper","nic":5}],
      "pairs":[{"from":"a","to":"b","speed":3}]})";
  ASSERT_EQ(error_of(whole), "");
  const auto copies = damaged_copies(whole);
  EXPECT_GT(copies.size(), 35u);
  for (const DamagedCopy& copy : copies) {
    EXPECT_THAT(error_of(copy.text), testing::HasSubstr(copy.place)) << copy.text;
    EXPECT_THAT(error_of(copy.text), testing::HasSubstr("must be")) << copy.text;
  }
  const auto torn = torn_copies(whole);
  EXPECT_GT(torn.size(), 100u);
  for (const std::string& copy : torn) {
    const auto file = read_machines(copy);
    if (file) {
      EXPECT_EQ(error_of(write_machines(*file)), "");
    } else {
      EXPECT_NE(file.error().message, "");
    }
  }
}

TEST(MachineFile, ErrorsNameTheKey) {
  const std::pair<std::string, std::string> cases[] = {
      {"", "is empty"},
      {"[]", "the file = []: must be an object"},
      {R"({"fmt":"gsplan/1","domains":[]})", "fmt = \"gsplan/1\""},
      {R"({"fmt":"tally-network/1","links":[]})",
       "fmt = \"tally-network/1\": must be \"tally-machines/1\"; make a plan of it: tallyctl plan "
       "make --network FILE"},
      {with_machine("7"), "machines[0] = 7"},
      {with_machine(R"({"role":"worker"})"), "machines[0].name"},
      {with_machine(R"({"name":"","role":"worker"})"), "machines[0].name"},
      {with_machine(R"({"name":"a","role":"switch"})"), "machines[0].role = \"switch\""},
      {with_machine(R"({"name":"a","role":"worker","in":0})"), "machines[0].in = 0"},
      {with_machine(R"({"name":"a","role":"worker","in":-1})"), "machines[0].in = -1"},
      {with_machine(R"({"name":"a","role":"worker","speed":1})"), "speed"},
      {with_machine(R"({"name":"a","role":"worker"},{"name":"a","role":"worker"})"),
       "machines[1].name = \"a\""},
      {R"({"fmt":"tally-machines/1","machines":[],"pairs":[{"from":"a","to":"b","speed":1}]})",
       "pairs[0].from = \"a\""},
      {R"({"fmt":"tally-machines/1","machines":[{"name":"a","role":"worker"}],
          "pairs":[{"from":"a","to":"a","speed":1}]})",
       "pairs[0]"},
      {with_racks(R"({"name":"r","speed":1,"up":1})"), "racks[0] = \"r\": must be given either"},
      {with_racks(R"({"name":"r","up":1})"), "racks[0].down: missing"},
      {with_racks(R"({"name":"r","speed":"100Gbit"})"),
       "racks[0].speed = \"100Gbit\": must be a number of bytes per second, like 12.5e9"},
      {with_racks(R"({"name":"r"})"), "racks[0].speed: missing"},
      {with_racks(R"({"name":"r","to":"s","speed":1})"),
       "racks[0].to = \"s\": must be the name of"},
      {with_racks(R"({"name":"r","to":"r","speed":1})"),
       "racks[0].to = \"r\": must be the name of"},
      {with_racks(R"({"name":"core","speed":1})"),
       "racks[0].name = \"core\": must be another name, because \"core\" is the switch above "
       "racks"},
      {with_racks(R"({"name":"r","speed":1},{"name":"r","speed":1})"), "racks[1].name = \"r\""},
      {with_racks(R"({"name":"a","speed":1})"), "machines[0].name = \"a\""},
      {with_racks(R"({"name":"s","speed":1})"), "machines[0].rack = \"r\""},
  };
  for (const auto& [text, part] : cases) {
    EXPECT_NE(error_of(text).find(part), std::string::npos) << text << ": " << error_of(text);
  }
}

}  // namespace
}  // namespace tally::plan
