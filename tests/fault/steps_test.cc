// A process killed or stopped at every step of an operation (base/debug_steps.h), one case for each
// step and fault. A step without a row in the tables here, or one that is never reached, fails.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/syscall.h>

#include <algorithm>
#include <atomic>
#include <optional>
#include <thread>

#include "base/debug_steps.h"
#include "tests/fault/cluster.h"

namespace tally::testing {
using ::testing::AnyOf;
using ::testing::StartsWith;

namespace {

enum class Fault {
  kKill,
  kPause,  // stopped, and continued before anybody's deadline: nobody notices
  kStop,   // stopped until all have given it up, then continued
};
constexpr const char* kFaultNames[] = {"kill", "pause", "stop"};

// What a rank of the job does when the step comes.
enum class During { kOpening, kSumming, kFreeing, kClosing };

struct Row {
  DebugStep step;
  During during;
  // What the operation's other ranks may be told after a kill and after a stop, besides success.
  bool ok_after_kill = false;
  bool lost_after_kill = true;
  bool ok_after_stop = false;
  bool slow = false;  // a stopped node is given up after libtally's 30 s for control
};

constexpr Row kNodeRows[] = {
    {.step = DebugStep::kNodeSessionOpened, .during = During::kOpening},
    {.step = DebugStep::kNodeAttached, .during = During::kOpening},
    {.step = DebugStep::kNodeRegionAdded, .during = During::kOpening, .slow = true},
    {.step = DebugStep::kNodeNoticeTaken, .during = During::kSumming},
    {.step = DebugStep::kNodeReady, .during = During::kSumming},
    {.step = DebugStep::kNodePulled, .during = During::kSumming},
    {.step = DebugStep::kNodeStoring, .during = During::kSumming},
    {.step = DebugStep::kNodeSummed, .during = During::kSumming},
    {.step = DebugStep::kNodePlaced, .during = During::kSumming},
    {.step = DebugStep::kNodeCompletionQueued, .during = During::kSumming},
    {.step = DebugStep::kNodeCompletionSent,
     .during = During::kSumming,
     .ok_after_kill = true,
     .lost_after_kill = false,
     .ok_after_stop = true},
    {.step = DebugStep::kNodeRegionRemoved, .during = During::kFreeing, .slow = true},
    {.step = DebugStep::kNodeSessionClosed, .during = During::kClosing, .slow = true},
};

constexpr Row kClientRows[] = {
    {.step = DebugStep::kClientConnected, .during = During::kOpening},
    {.step = DebugStep::kClientAttached, .during = During::kOpening},
    {.step = DebugStep::kClientRegionAdded, .during = During::kOpening},
    {.step = DebugStep::kClientBeforeNotice, .during = During::kSumming},
    // The node takes the notice or sees the death first.
    {.step = DebugStep::kClientNoticeSent,
     .during = During::kSumming,
     .ok_after_kill = true,
     .ok_after_stop = true},
    {.step = DebugStep::kClientWoken,
     .during = During::kSumming,
     .ok_after_kill = true,
     .ok_after_stop = true},
    {.step = DebugStep::kClientCompletionTaken,
     .during = During::kSumming,
     .ok_after_kill = true,
     .lost_after_kill = false,
     .ok_after_stop = true},
    {.step = DebugStep::kClientBeforeClose, .during = During::kClosing},
};

constexpr std::uint64_t kElements = 50'000;  // one tile of one part

std::string sum(std::uint32_t tag) {
  return "sum " + std::to_string(tag) + " " + std::to_string(kElements) + " out";
}

std::string setting(const Row& row, Fault fault, int times) {
  return std::string(kDebugSteps[static_cast<std::size_t>(row.step)].name) +
         (fault == Fault::kKill ? ":kill:" : ":stop:") + std::to_string(times);
}

using Ranks = std::vector<std::unique_ptr<Process>>;

void send(const Ranks& ranks, const std::string& command) {
  for (const auto& rank : ranks) rank->send(command);
}

void expect_lines(const Ranks& ranks, const ::testing::Matcher<const std::string&>& expected) {
  for (const auto& rank : ranks) EXPECT_THAT(rank->line(), expected);
}

// All ranks sum once more, right, however long it takes.
void expect_sums(const Ranks& ranks, std::uint32_t tag) {
  send(ranks, "deadline 0");
  expect_lines(ranks, "deadline");
  send(ranks, sum(tag));
  expect_lines(ranks, StartsWith("posted"));
  send(ranks, "wait");
  expect_lines(ranks, StartsWith(std::to_string(tag) + " ok wrong 0"));
}

bool faulted(Process& process, Fault fault) {
  return fault == Fault::kKill ? process.wait() == 128 + SIGKILL : process.stopped();
}

// Runs `one` on every step of a side that suits, a few at a time: most of a case is waiting. In
// tier fast, which is the sanitizers', stops are tried at every third step.
template <std::size_t N, typename Case>
void each_step(const Row (&rows)[N], std::string_view side, Fault fault, Case one) {
  constexpr unsigned kAtOnce = 10;
  std::vector<const Row*> suitable;
  int stops = 0;
  for (const DebugStepInfo& info : kDebugSteps) {
    if (!info.name.starts_with(side)) continue;
    const Row* row =
        std::find_if(rows, rows + N, [&](const Row& r) { return r.step == info.step; });
    ASSERT_NE(row, rows + N) << info.name << " has no row";
    if (fault == Fault::kStop && row->slow && test_tier() != "soak") continue;
    if (fault != Fault::kKill && test_tier() == "fast" && ++stops % 3 != 1) continue;
    suitable.push_back(row);
  }
  std::atomic<std::size_t> next{0};
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < kAtOnce; ++t) {
    threads.emplace_back([&] {
      for (std::size_t i = next++; i < suitable.size(); i = next++) {
        SCOPED_TRACE(setting(*suitable[i], fault, 1) + " " + kFaultNames[static_cast<int>(fault)]);
        try {
          one(*suitable[i]);
        } catch (const std::exception& error) {
          ADD_FAILURE() << error.what();
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// -- the node ------------------------------------------------------------------------------------

constexpr int kRanks = 3;

// Brings a job to the step, at which the node is killed or stopped. The last rank is the one whose
// call the node is in, where there is a call.
Ranks reach_node_step(Cluster& cluster, const Row& row, Fault fault) {
  const Cluster::RankOptions options{.elements = kElements, .connect_ms = 1500};
  Ranks ranks;
  for (int r = 0; r < kRanks; ++r) {
    ranks.push_back(cluster.rank(r, kRanks, "train", options));
    if (r + 1 == kRanks && row.during == During::kOpening) return ranks;
    EXPECT_EQ(ranks.back()->line(), "ready");
    if (fault == Fault::kStop) {
      EXPECT_EQ(Cluster::ask(*ranks.back(), "deadline 1000"), "deadline");
    }
  }
  if (row.during == During::kFreeing) ranks.back()->send("free");
  if (row.during == During::kClosing) ranks.back()->send("close");
  if (row.during != During::kSumming) return ranks;
  send(ranks, sum(17));
  expect_lines(ranks, "posted");
  send(ranks, "wait");
  return ranks;
}

// The node's pause is over: everything goes on as if nothing had been.
void expect_nothing_happened(const Ranks& ranks, const Row& row) {
  switch (row.during) {
    case During::kOpening:
      EXPECT_EQ(ranks.back()->line(), "ready");
      return expect_sums(ranks, 17);
    case During::kSumming:
      expect_lines(ranks, "17 ok wrong 0");
      return expect_sums(ranks, 17);
    case During::kFreeing:
      EXPECT_EQ(ranks.back()->line(), "freed");
      return;
    case During::kClosing:
      EXPECT_EQ(ranks.back()->line(), "closed");
      return;
  }
}

// The node is gone or silent: every rank is told so, and has its memory to itself.
void expect_node_lost(const Ranks& ranks, const Row& row, Fault fault) {
  const bool ok = fault == Fault::kKill ? row.ok_after_kill : row.ok_after_stop;
  if (row.during == During::kSumming) {
    for (const auto& rank : ranks) {
      EXPECT_THAT(rank->line(), StartsWith(ok ? "17 ok wrong 0" : "17 node lost -1 0"));
      EXPECT_EQ(Cluster::ask(*rank, "inputs"), "inputs wrong 0");
    }
  } else {
    for (int r = 0; r + 1 < kRanks; ++r) {
      const std::string posted = Cluster::ask(*ranks[static_cast<std::size_t>(r)], sum(17));
      if (posted == "posted") ranks[static_cast<std::size_t>(r)]->send("wait");
      const std::string result =
          posted == "posted" ? ranks[static_cast<std::size_t>(r)]->line() : "";
      EXPECT_THAT(posted + result, AnyOf(StartsWith("posted17 node lost"), StartsWith("refused")));
    }
    // Its own call has ended too, well or with words.
    EXPECT_THAT(ranks.back()->line(40'000),
                AnyOf(StartsWith("refused"), StartsWith("not freed"), "freed", "closed"));
  }
}

void node_case(const Row& row, Fault fault) {
  const int times = row.during == During::kOpening ? kRanks : 1;
  Cluster cluster(setting(row, fault, times));
  Ranks ranks = reach_node_step(cluster, row, fault);
  ASSERT_TRUE(faulted(*cluster.node, fault)) << "the step was never reached";
  if (fault == Fault::kPause) {
    ::poll(nullptr, 0, 50);
    cluster.node->signal(SIGCONT);
    expect_nothing_happened(ranks, row);
  } else {
    expect_node_lost(ranks, row, fault);
    const bool have_memory = row.during == During::kSumming;
    if (have_memory) {
      send(ranks, "mark");
      expect_lines(ranks, "marked");
    }
    if (fault == Fault::kKill)
      cluster.start_node();
    else
      cluster.node->signal(SIGCONT);
    if (have_memory) {
      ::poll(nullptr, 0, 100);  // what a node that was stopped in the middle of a tile does now
      send(ranks, "marks");
      expect_lines(ranks, "marks wrong 0");
    }
    send(ranks, "open");
    expect_lines(ranks, "ready");
    expect_sums(ranks, 17);
  }
  for (const auto& rank : ranks) rank->close_input();
  for (const auto& rank : ranks) EXPECT_EQ(rank->wait(), 0);
  EXPECT_EQ(cluster.left_behind(), "");
}

TEST(NodeSteps, Killed) {
  each_step(kNodeRows, "node.", Fault::kKill, [](const Row& row) { node_case(row, Fault::kKill); });
}
TEST(NodeSteps, StoppedForAMoment) {
  each_step(kNodeRows, "node.", Fault::kPause,
            [](const Row& row) { node_case(row, Fault::kPause); });
}
TEST(NodeSteps, StoppedPastAllDeadlines) {
  each_step(kNodeRows, "node.", Fault::kStop, [](const Row& row) { node_case(row, Fault::kStop); });
}

// -- a rank --------------------------------------------------------------------------------------

// What the other ranks print of an operation that all were to take part in.
void expect_results(const Ranks& others, const Row& row, Fault fault, std::uint32_t tag) {
  const std::string name = std::to_string(tag);
  for (const auto& other : others) {
    const std::string line = other->line();
    if (fault == Fault::kKill) {
      const bool lost = line.starts_with(name + " peer lost 1 0");
      const bool never_joined = line.starts_with(name + " deadline 1 0");
      const bool ok = line == name + " ok wrong 0";
      const bool joined = row.step != DebugStep::kClientConnected;
      EXPECT_TRUE((ok && row.ok_after_kill) || (lost && row.lost_after_kill && joined) ||
                  (never_joined && !joined))
          << line;
    } else {
      EXPECT_THAT(line, StartsWith(name + (row.ok_after_stop ? " ok wrong 0" : " deadline 1 0")));
    }
    EXPECT_EQ(Cluster::ask(*other, "inputs"), "inputs wrong 0");
  }
}

// Continued, the rank learns what the others know since long ago, and all go on.
void expect_goes_on(Process& victim, const Row& row) {
  const char* expected = row.ok_after_stop ? "17 ok wrong 0" : "17 deadline 1 0";
  switch (row.during) {
    case During::kOpening:
      EXPECT_EQ(victim.line(), "ready");
      EXPECT_EQ(Cluster::ask(victim, sum(17)), "posted");
      victim.send("wait");
      break;
    case During::kSumming:
      EXPECT_EQ(victim.line(), "posted");
      break;
    case During::kFreeing:
    case During::kClosing:
      EXPECT_EQ(victim.line(), "closed");
      return;
  }
  EXPECT_THAT(victim.line(), StartsWith(expected));
}

// The victim is gone: its job forms again, with another in its place.
std::unique_ptr<Process> form_again(const Cluster& cluster, const Ranks& others, const Row& row) {
  const bool never_joined = row.step == DebugStep::kClientConnected;
  if (!never_joined) {
    send(others, sum(18));
    expect_lines(others, "posted");
    send(others, "wait");
    expect_lines(others, AnyOf(StartsWith("18 peer lost 1"), StartsWith("18 peer left 1")));
    send(others, "open");
    expect_lines(others, "ready");
  }
  auto successor = cluster.rank(1, kRanks, "train", {.elements = kElements});
  EXPECT_EQ(successor->line(), "ready");
  if (never_joined) {  // the verdict was kept for this rank
    EXPECT_EQ(Cluster::ask(*successor, sum(17)), "posted");
    EXPECT_THAT(Cluster::ask(*successor, "wait"), StartsWith("17 deadline 1 0"));
  }
  return successor;
}

// A rank that comes to its step by itself, or by what it is told to do.
std::unique_ptr<Process> start_victim(const Cluster& cluster, const Row& row, Fault fault) {
  auto victim =
      cluster.rank(1, kRanks, "train", {.step = setting(row, fault, 1), .elements = kElements});
  if (row.during == During::kOpening) return victim;
  EXPECT_EQ(victim->line(), "ready");
  if (row.during == During::kClosing) victim->send("close");
  // In one piece, because the first may be its end.
  if (row.during == During::kSumming) victim->send(sum(17) + "\nwait");
  return victim;
}

void client_case(const Row& row, Fault fault) {
  Cluster cluster;
  const Cluster::RankOptions options{.elements = kElements};
  Ranks healthy = cluster.job(2, "healthy", options);
  send(healthy, "loop 7 20000 100");
  Ranks ranks;
  for (int r : {0, 2}) ranks.push_back(cluster.rank(r, kRanks, "train", options));
  expect_lines(ranks, "ready");
  const bool silent =
      fault == Fault::kStop ? !row.ok_after_stop : row.step == DebugStep::kClientConnected;
  if (silent) {
    send(ranks, "deadline 400");
    expect_lines(ranks, "deadline");
  }
  auto victim = start_victim(cluster, row, fault);
  const bool after_the_others =
      row.step == DebugStep::kClientWoken || row.step == DebugStep::kClientCompletionTaken;
  if (after_the_others) {
    ASSERT_TRUE(victim->sleeps_in(SYS_ppoll)) << "it does not fall asleep";
  } else {
    ASSERT_TRUE(faulted(*victim, fault)) << "the step was never reached";
  }
  send(ranks, sum(17));
  expect_lines(ranks, "posted");
  if (after_the_others) {
    ASSERT_TRUE(faulted(*victim, fault)) << "the step was never reached";
  }
  send(ranks, "wait");
  expect_results(ranks, row, fault, 17);
  if (fault == Fault::kStop) {
    victim->signal(SIGCONT);
    expect_goes_on(*victim, row);
  }
  const bool gone = fault == Fault::kKill || row.during == During::kClosing;
  if (gone) victim = form_again(cluster, ranks, row);
  ranks.push_back(std::move(victim));
  expect_sums(ranks, 17);
  expect_lines(healthy, "looped 100 wrong 0");
  for (const auto* all : {&ranks, &healthy}) {
    for (const auto& rank : *all) rank->close_input();
    for (const auto& rank : *all) EXPECT_EQ(rank->wait(), 0);
  }
  EXPECT_EQ(cluster.left_behind(), "");
}

TEST(ClientSteps, Killed) {
  each_step(kClientRows, "client.", Fault::kKill,
            [](const Row& row) { client_case(row, Fault::kKill); });
}
TEST(ClientSteps, StoppedPastTheDeadline) {
  each_step(kClientRows, "client.", Fault::kStop,
            [](const Row& row) { client_case(row, Fault::kStop); });
}

// By an error, and not by a signal that ends the test.
TEST(Steps, ATestLearnsThatAProcessHasEnded) {
  Process ended({"/bin/true"});
  EXPECT_EQ(ended.wait(), 0);
  EXPECT_THROW(ended.send("wait"), std::runtime_error);
}

TEST(Steps, ABadSettingIsRefusedByBothSides) {
  Process node({TALLYD, "--check-config"}, {"TALLY_DEBUG_STEP=node.plaecd:stop"});
  EXPECT_EQ(node.wait(), 2);
  const Cluster cluster;
  const auto rank = cluster.rank(0, 1, "train", {.step = "client.woken:doze"});
  EXPECT_THAT(rank->line(), StartsWith("refused TALLY_DEBUG_STEP=\"client.woken:doze\""));
}

}  // namespace
}  // namespace tally::testing
