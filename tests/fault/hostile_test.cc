// A hostile rank and a node, real processes: whatever it does, it harms its own job alone. Another
// job on the same shards runs on while it attacks, with right results; the rank's own fellow is
// line something in time; afterwards the node holds nothing of it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "base/clock.h"
#include "tests/fault/attacks.h"
#include "tests/fault/cluster.h"

namespace tally::testing {
using ::testing::Not;
using ::testing::StartsWith;

namespace {

class Hostile : public ::testing::TestWithParam<std::string>, protected Cluster {
 protected:
  // What a rank of another job says that comes in the middle of the attack. The limits of a node
  // that asks for no token are for all, so strangers' jobs may fill them for a moment: the rank
  // comes again, as a launcher does.
  std::string newcomers_line() const {
    // With a sanitizer each request of an attack takes the node tens of milliseconds.
    const Cluster::RankOptions patient{.elements = 50'000,
                                       .connect_ms = is_sanitized() ? 100'000U : 0U};
    const Nanos until = monotonic_now() + 60 * kSecond;
    for (;;) {
      const std::string line = rank(0, 1, "newcomer", patient)->line(120'000);
      const bool full = line.find("of limits.max_table_bytes") != std::string::npos;
      if (!full || monotonic_now() > until) return line;
    }
  }
};

TEST_P(Hostile, HarmsItsOwnJobAlone) {
  const int rounds = test_tier() == "soak" ? 5000 : test_tier() == "fast" ? 100 : 300;
  const Cluster::RankOptions small{.elements = 50'000};
  const auto healthy = job(2, "healthy", small);
  for (const auto& rank : healthy) EXPECT_EQ(ask(*rank, "sum 1 20000"), "posted");
  for (const auto& rank : healthy) EXPECT_EQ(ask(*rank, "wait"), "1 ok wrong 0");

  const auto fellow = rank(0, 2, "doomed", small);
  EXPECT_EQ(fellow->line(), "ready");
  // One in the fellow's job, one whose operations need nobody else: the node uses its memory.
  Process hostile({FAULT_HOSTILE, GetParam(), address, "doomed", "1", "2", "42"});
  Process lonely({FAULT_HOSTILE, GetParam(), address, "lonely", "0", "1", "43"});
  EXPECT_EQ(hostile.line(), "attacking");
  EXPECT_EQ(lonely.line(), "attacking");
  EXPECT_EQ(ask(*fellow, "deadline 500"), "deadline");
  const std::string posted = ask(*fellow, "sum 3 50000");
  if (posted == "posted") {
    EXPECT_THAT(ask(*fellow, "wait"), StartsWith("3 "));
  } else {
    EXPECT_THAT(posted, StartsWith("refused"));
  }

  // All of it while the attack goes on.
  for (const auto& rank : healthy) rank->send("loop 7 20000 " + std::to_string(rounds));
  for (const auto& rank : healthy) {
    EXPECT_EQ(rank->line(120'000), "looped " + std::to_string(rounds) + " wrong 0");
  }
  EXPECT_EQ(newcomers_line(), "ready") << "the node takes others meanwhile";

  for (Process* attacker : {&hostile, &lonely}) {
    attacker->close_input();
    const std::string line = attacker->line();
    EXPECT_THAT(line, StartsWith("attacked "));
    EXPECT_THAT(line, Not(StartsWith("attacked 0 "))) << "it never got to its first step";
    std::printf("%s\n", line.c_str());
    EXPECT_EQ(attacker->wait(), 0);
  }
  for (const auto& rank : healthy) rank->close_input();
  for (const auto& rank : healthy) EXPECT_EQ(rank->wait(), 0);
  fellow->close_input();
  EXPECT_EQ(fellow->wait(), 0);
  EXPECT_EQ(left_behind(), "");
}

class Storm : public ::testing::Test, protected Cluster {};

// Sessions that open, attach, register memory, post and go, as fast as four processes can: 800 in a
// second on two cores. Who works meanwhile works on.
TEST_F(Storm, OfSessionsDisturbsNobody) {
  const int seconds = test_tier() == "soak" ? 30 : test_tier() == "fast" ? 1 : 4;
  const auto healthy = job(2, "healthy", {.elements = 50'000});
  std::vector<std::unique_ptr<Process>> storm;
  for (const char* number : {"1", "2", "3", "4"}) {
    storm.push_back(std::make_unique<Process>(std::vector<std::string>{
        FAULT_HOSTILE, "sessions", address, std::string("storm") + number, "0", "1", number}));
  }
  for (const auto& attacker : storm) EXPECT_EQ(attacker->line(), "attacking");
  const Nanos begin = monotonic_now();
  const Nanos until = begin + seconds * kSecond;
  while (monotonic_now() < until) {
    for (const auto& rank : healthy) rank->send("loop 7 20000 20");
    for (const auto& rank : healthy) ASSERT_EQ(rank->line(120'000), "looped 20 wrong 0");
  }
  std::uint64_t sessions = 0;
  for (const auto& attacker : storm) attacker->close_input();
  for (const auto& attacker : storm) {
    std::string attacked;
    std::uint64_t steps = 0, opened = 0;
    std::istringstream(attacker->line()) >> attacked >> steps >> opened;
    EXPECT_GT(opened, 0u);  // how many a second depends on the machine
    sessions += opened;
    EXPECT_EQ(attacker->wait(), 0);
  }
  const auto took = static_cast<double>(monotonic_now() - begin) / kSecond;
  std::printf("%.0f sessions/s for %.1f s\n", static_cast<double>(sessions) / took, took);
  for (const auto& rank : healthy) rank->close_input();
  for (const auto& rank : healthy) EXPECT_EQ(rank->wait(), 0);
  EXPECT_EQ(left_behind(), "");
}

std::vector<std::string> names() {
  std::vector<std::string> names;
  for (const Attack& attack : attacks()) names.emplace_back(attack.name);
  return names;
}

std::string case_name(const ::testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Attacks, Hostile, ::testing::ValuesIn(names()), case_name);

}  // namespace
}  // namespace tally::testing
