// What is made of figures. Measuring itself is tested in tests/net/probe_test.py.
#include "control/cli/probe/survey.h"

#include <gtest/gtest.h>

namespace tally::control::probe {
namespace {

plan::Machine machine(const char* name, double speed) {
  return {.name = name, .in = speed, .out = speed};
}

TEST(Survey, PairsThatSomethingInBetweenLimitsAreNamed) {
  plan::MachineFile file;
  file.machines = {machine("a", 10e9), machine("b", 10e9), machine("c", 1e9)};
  file.pairs = {{0, 1, 9.5e9}, {1, 0, 4e9}, {0, 2, 0.95e9}, {2, 1, 0.1e9}};
  EXPECT_EQ(narrow_pairs(file),
            (std::vector<std::string>{"c -> b: 100 MB/s where both NICs carry 1 GB/s",
                                      "b -> a: 4 GB/s where both NICs carry 10 GB/s"}));
  file.machines[1].in = file.machines[1].out = 0;  // not measured: nothing to compare with
  EXPECT_TRUE(narrow_pairs(file).empty());
}

}  // namespace
}  // namespace tally::control::probe
