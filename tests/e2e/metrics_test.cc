// What a node says of a job that runs there: counters, times, who is waited for, traces.
#include <gtest/gtest.h>
#include <signal.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "net/rpc/rpc_channel.h"
#include "tests/e2e/local_node.h"
#include "tests/e2e/ranks.h"
#include "tests/support/temporary_directory.h"

namespace tally::testing {
namespace {

using nlohmann::json;

constexpr std::uint32_t kJobRanks = 3;
constexpr std::uint64_t kSmall = 1000;
constexpr std::uint64_t kLarge = 200'000;  // divided over the shards

// A job whose ranks keep their sessions from one run to the next.
class MetricsTest : public ::testing::Test {
 protected:
  struct Member {
    std::unique_ptr<Rank> rank;
    tally_region* region = nullptr;
  };

  void SetUp() override {
    members_.resize(kJobRanks);
    on_each_rank(kJobRanks, [&](std::uint32_t r) {
      members_[r].rank = std::make_unique<Rank>(node_.address(), r, kJobRanks, "bert");
      ASSERT_EQ(members_[r].rank->opened(), TALLY_OK) << members_[r].rank->open_error();
      members_[r].rank->alloc<float>(2 * kLarge, &members_[r].region);
    });
  }

  static tally_operation all_reduce(const Member& member, std::uint64_t count) {
    return operation(TALLY_ALL_REDUCE, TALLY_F32, 7, count, {member.region, 0},
                     {member.region, kLarge * sizeof(float)});
  }

  void run(std::uint64_t count, int rounds) {
    on_each_rank(kJobRanks, [&](std::uint32_t r) {
      for (int i = 0; i < rounds; ++i) {
        EXPECT_EQ(members_[r].rank->run(all_reduce(members_[r], count)).status, TALLY_OK);
      }
    });
  }

  rpc::RpcChannel connect() {
    return rpc::RpcChannel::connect(node_.address(), monotonic_now() + 5 * kSecond).value();
  }

  static Result<json> ask(rpc::RpcChannel& channel, const char* method, json params) {
    return channel.call(method, std::move(params), {}, monotonic_now() + 20 * kSecond);
  }
  json ask(const char* method, json params = json::object()) {
    auto channel = connect();
    auto answer = ask(channel, method, std::move(params));
    EXPECT_TRUE(answer.ok()) << (answer.ok() ? "" : answer.error().message);
    return answer.ok() ? *answer : json();
  }

  LocalNode node_;
  std::vector<Member> members_;
};

TEST_F(MetricsTest, CountersOfRanksAndTimesOfTheJob) {
  run(kSmall, 5);
  run(kLarge, 2);  // two parts each
  const json metrics = ask("node.metrics", {{"job", "bert"}});
  EXPECT_EQ(metrics["epoch"], 1);
  EXPECT_GT(metrics["cycles_per_ns"], 0);
  const json& times = metrics["times"];
  EXPECT_EQ(times["parts"], 5 + 2 * 2);
  EXPECT_EQ(times["bytes"], (5 * kSmall + 2 * kLarge) * sizeof(float) * kJobRanks);
  EXPECT_GT(times["summing_ns"], 0);
  std::uint64_t times_last = 0;
  ASSERT_EQ(metrics["ranks"].size(), kJobRanks);
  for (const json& rank : metrics["ranks"]) {
    EXPECT_EQ(rank["notices"], 9);
    EXPECT_EQ(rank["completions"], 9);
    EXPECT_EQ(rank["failures"], 0);
    EXPECT_EQ(rank["bytes_in"], (5 * kSmall + 2 * kLarge) * sizeof(float));
    EXPECT_EQ(rank["bytes_out"], rank["bytes_in"]);
    EXPECT_EQ(rank["waited_for"], 0);
    times_last += rank["times_last"].get<std::uint64_t>();
  }
  EXPECT_EQ(times_last, 7u) << "of each operation one rank was last";
  const json jobs = ask("node.jobs");
  ASSERT_EQ(jobs.size(), 1u);
  EXPECT_EQ(jobs[0]["times"], times);
}

TEST_F(MetricsTest, WhoIsWaitedForAndWhoWasLate) {
  const auto post = [&](std::uint32_t r) {
    const auto wanted = all_reduce(members_[r], kSmall);
    ASSERT_EQ(tally_post(members_[r].rank->session(), &wanted), TALLY_OK);
  };
  post(0);
  post(2);
  const auto waited_for = [&](const json& metrics) {
    const json& ranks = metrics["ranks"];
    return ranks[0]["waited_for"] == 0 && ranks[1]["waited_for"] == 1 &&
           ranks[2]["waited_for"] == 0;
  };
  const Nanos timeout = monotonic_now() + 20 * kSecond;
  while (!waited_for(ask("node.metrics", {{"job", "bert"}})) && monotonic_now() < timeout) {
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  post(1);
  for (const Member& member : members_) EXPECT_EQ(member.rank->wait().status, TALLY_OK);
  const json metrics = ask("node.metrics", {{"job", "bert"}});
  const json& late = metrics["ranks"][1];
  EXPECT_EQ(late["times_last"], 1);
  // Over a network the notices before took a while themselves.
  EXPECT_GE(late["lateness_ns"], 15 * kMillisecond);
  EXPECT_GE(metrics["times"]["waiting_ns"], 2 * 15 * kMillisecond / 3) << "two of three ranks";
}

// Every stamp is there and in order, and the stages fit between them.
void check_record(const json& record) {
  Nanos last = 0;
  for (const char* stamp :
       {"notice_ns", "ready_ns", "started_ns", "pulled_ns", "summed_ns", "completed_ns"}) {
    EXPECT_GE(record[stamp], last) << record;
    last = record[stamp].get<Nanos>();
    EXPECT_GT(last, 0) << stamp;
  }
  const Nanos stages = record["pulling_ns"].get<Nanos>() + record["summing_ns"].get<Nanos>() +
                       record["pushing_ns"].get<Nanos>();
  EXPECT_LE(stages, record["completed_ns"].get<Nanos>() - record["started_ns"].get<Nanos>());
}

TEST_F(MetricsTest, ATraceHasEveryOperationWhileItIsOn) {
  auto channel = connect();
  run(kSmall, 1);
  ASSERT_TRUE(ask(channel, "node.trace", {{"job", "bert"}, {"on", true}}).ok());
  run(kSmall, 10);
  run(kLarge, 1);
  std::set<std::pair<json, json>> seen;
  for (const std::uint32_t shard : {0, 1}) {
    const auto taken = ask(channel, "node.trace_take", {{"job", "bert"}, {"shard", shard}});
    ASSERT_TRUE(taken.ok());
    EXPECT_EQ((*taken).at("dropped"), 0);
    for (const json& record : taken->at("records")) {
      check_record(record);
      EXPECT_EQ(record["status"], "ok");
      EXPECT_TRUE(seen.emplace(record["round"], record["part"]).second);
    }
  }
  EXPECT_EQ(seen.size(), 10u + 2u);
  ASSERT_TRUE(ask(channel, "node.trace", {{"job", "bert"}, {"on", false}}).ok());
  run(kSmall, 1);
  ASSERT_TRUE(ask(channel, "node.trace", {{"job", "bert"}, {"on", true}}).ok());
  const auto after = ask(channel, "node.trace_take", {{"job", "bert"}, {"shard", 0}});
  EXPECT_TRUE(after->at("records").empty());
}

TEST_F(MetricsTest, ATraceBelongsToOneConnectionAndEndsWithIt) {
  auto other = connect();
  {
    auto channel = connect();
    ASSERT_TRUE(ask(channel, "node.trace", {{"job", "bert"}}).ok());
    const auto refused = ask(other, "node.trace", {{"job", "bert"}});
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().message, "job \"bert\" is being traced by another connection");
    const auto stolen = ask(other, "node.trace_take", {{"job", "bert"}, {"shard", 0}});
    ASSERT_FALSE(stolen.ok()) << "what the owner has not taken yet would be lost to it";
    EXPECT_EQ(stolen.error().message,
              "this connection does not trace job \"bert\": it has to call node.trace first");
  }
  const Nanos timeout = monotonic_now() + 20 * kSecond;
  while (!ask(other, "node.trace", {{"job", "bert"}}).ok()) ASSERT_LT(monotonic_now(), timeout);
}

TEST_F(MetricsTest, AJobThatDoesNotRunIsNamed) {
  auto channel = connect();
  for (const char* method : {"node.metrics", "node.trace"}) {
    const auto answer = ask(channel, method, {{"job", "bret"}});
    ASSERT_FALSE(answer.ok());
    EXPECT_EQ(answer.error().message,
              "no job \"bret\" runs here: tallyctl jobs lists those that do");
  }
}

// The whole way: the program, a job at work, and the file.
class TraceCommandTest : public MetricsTest {
 protected:
  void SetUp() override {
    if (std::getenv("TALLYCTL") == nullptr) GTEST_SKIP() << "TALLYCTL does not name the program";
    MetricsTest::SetUp();
  }

  // The command traces while the job works. interrupt ends it early.
  void check_trace(const char* seconds, bool interrupt) {
    const test::TemporaryDirectory directory;
    const std::string file = directory / "trace", pid = directory / "pid";
    // By std::system(), because after fork() a child lacks the pages of memory that an adapter
    // uses.
    const std::string command = "echo $$ > " + pid + "; exec " + std::getenv("TALLYCTL") +
                                " --address " + node_.address() + " trace bert --out " + file +
                                " --seconds " + seconds;
    std::atomic<bool> done{false};
    std::thread waiter([&] {
      EXPECT_EQ(std::system(command.c_str()), 0) << command;
      done = true;
    });
    wait_for_the_trace();
    // Small operations, because one must end within the command's time on a busy machine too.
    run(kSmall, 5);
    if (pid_t process = 0; interrupt && std::ifstream(pid) >> process) ::kill(process, SIGINT);
    while (!done) run(kSmall, 5);
    waiter.join();
    const json document = json::parse(std::ifstream(file), nullptr, false);
    ASSERT_TRUE(document.contains("traceEvents"));
    check_events(document["traceEvents"]);
  }

  // Another connection cannot end the trace while the command has it.
  void wait_for_the_trace() {
    auto channel = connect();
    const Nanos timeout = monotonic_now() + 20 * kSecond;
    while (ask(channel, "node.trace", {{"job", "bert"}, {"on", false}}).ok()) {
      ASSERT_LT(monotonic_now(), timeout);
    }
  }

  static void check_events(const json& events) {
    std::map<std::pair<json, json>, int> open;
    std::set<json> ids;
    for (const json& event : events) {
      if (event["ph"] == "M") continue;
      open[{event["id"], event["name"]}] += event["ph"] == "b" ? 1 : -1;
      if (event.contains("args") && event["args"].contains("notice_ns")) {
        check_record(event["args"]);
        ids.insert(event["id"]);
      }
    }
    EXPECT_FALSE(ids.empty());
    EXPECT_EQ(open.size(), 4 * ids.size()) << "an operation and its three stages";
    for (const auto& [slice, count] : open) EXPECT_EQ(count, 0) << slice.second;
  }
};

TEST_F(TraceCommandTest, WritesATraceThatViewersOpen) {
  check_trace("2", false);
}

TEST_F(TraceCommandTest, WritesWhatItHasWhenItIsInterrupted) {
  check_trace("600", true);
}

}  // namespace
}  // namespace tally::testing
