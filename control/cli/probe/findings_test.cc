// What is made of figures. Measuring itself is tested in tests/net/probe_test.py.
#include "control/cli/probe/findings.h"

#include <gtest/gtest.h>

namespace tally::control::probe {
namespace {

plan::Machine machine(const char* name, double speed) {
  return {.name = name, .in = speed, .out = speed};
}

TEST(NarrowPairs, PairsThatSomethingInBetweenLimitsAreNamed) {
  plan::MachineFile file;
  file.machines = {machine("a", 10e9), machine("b", 10e9), machine("c", 1e9)};
  file.pairs = {{0, 1, 9.5e9}, {1, 0, 4e9}, {0, 2, 0.95e9}, {2, 1, 0.1e9}};
  EXPECT_EQ(narrow_pairs(file),
            (std::vector<std::string>{"c -> b: 100 MB/s where both NICs carry 1 GB/s",
                                      "b -> a: 4 GB/s where both NICs carry 10 GB/s"}));
  file.machines[1].in = file.machines[1].out = 0;  // not measured: nothing to compare with
  EXPECT_TRUE(narrow_pairs(file).empty());
}

TEST(FoundRacks, HaveNamesThatNoMachineHas) {
  plan::MachineFile file;
  file.machines = {machine("a", 10e9), machine("rack1", 10e9), machine("c", 10e9)};
  add_racks(file, {{{0, 2}, 20e9, 5e9}, {{1}, 10e9, 10e9}});
  EXPECT_EQ(file.machines[2].rack, "rack-1");
  EXPECT_EQ(file.machines[1].rack, "rack-2");
  EXPECT_EQ(
      describe_racks(file),
      (std::vector<std::string>{"rack-1: a c; 20 GB/s to the other racks, 5 GB/s from them",
                                "rack-2: rack1; 10 GB/s to the other racks, 10 GB/s from them"}));
  const auto read = plan::read_machines(plan::write_machines(file));
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(read->racks[0].down, 5e9);
}

}  // namespace
}  // namespace tally::control::probe
