// Two looks in, rows out.
#include "control/cli/top/view.h"

#include <gtest/gtest.h>

namespace tally::control::top {
namespace {

using nlohmann::json;

json times(std::uint64_t parts, std::uint64_t bytes, Nanos waiting, Nanos summing) {
  return {{"parts", parts},  {"bytes", bytes},        {"waiting_ns", waiting}, {"queueing_ns", 0},
          {"pulling_ns", 0}, {"summing_ns", summing}, {"pushing_ns", 0}};
}

json job(const json& job_times, const json& waiting = json::array()) {
  return {{"name", "bert"},     {"epoch", 2},        {"ranks", 4},
          {"joined", 3},        {"nodes", 2},        {"parts_outstanding", 5},
          {"times", job_times}, {"waiting", waiting}};
}

json rank(int number, int times_last, Nanos lateness, int waited_for = 0) {
  return {{"rank", number},
          {"times_last", times_last},
          {"lateness_ns", lateness},
          {"waited_for", waited_for}};
}

// A node that has moved so much, in a look at `time`.
NodeLook node(const std::string& name, Nanos time, std::uint64_t in, std::uint64_t out) {
  NodeLook look;
  look.name = name;
  look.address = "tcp:" + name + ":7733";
  look.member = {{"name", name}, {"role", "worker"}, {"host", "h" + name}};
  look.time = time;
  look.status = {{"pid", 7}, {"shards", 1}, {"sessions", 4}, {"jobs", 1}};
  const json counters = {{"index", 0}, {"bytes_in", in}, {"bytes_out", out}, {"tiles", in / 100}};
  look.stats = {{"shards", json::array({counters})}, {"totals", counters}};
  look.jobs = json::array();
  return look;
}

Look cluster(std::vector<NodeLook> nodes) {
  return {std::move(nodes), "tcp:a:7733", ""};
}

TEST(TopView, RatesAreOfEachNodesOwnInterval) {
  const Look before = cluster({node("a", 1 * kSecond, 1000, 100), node("b", 1 * kSecond, 0, 0)});
  const Look now = cluster({node("a", 2 * kSecond, 3000, 200), node("b", 3 * kSecond, 3000, 600)});
  const json view = top_view(before, now);
  EXPECT_EQ(view["seconds"], 2.0);
  EXPECT_EQ(view["nodes"][0]["in_per_s"], 2000.0);
  EXPECT_EQ(view["nodes"][0]["out_per_s"], 100.0);
  EXPECT_EQ(view["nodes"][1]["in_per_s"], 1500.0);
  EXPECT_EQ(view["nodes"][1]["state"], "member");
  EXPECT_EQ(view["shards"][0]["tiles_per_s"], 20.0);
  EXPECT_EQ(view["shards"][1]["node"], "b");
  EXPECT_EQ(view["shards"][1]["in_per_s"], 1500.0);
}

TEST(TopView, WithoutAnEarlierAnswerThereAreNoRates) {
  NodeLook silent = node("a", kSecond, 1000, 0);
  silent.failure = "nobody listens there";
  for (const Look& before : {Look{}, cluster({silent})}) {
    const json row = top_view(before, cluster({node("a", 2 * kSecond, 3000, 0)}))["nodes"][0];
    EXPECT_FALSE(row.contains("in_per_s")) << row;
    EXPECT_EQ(row["sessions"], 4.0);
  }
  NodeLook restarted = node("a", 2 * kSecond, 5000, 0);
  restarted.status["pid"] = 8;
  const Look earlier = cluster({node("a", kSecond, 1000, 0)});
  EXPECT_FALSE(top_view(earlier, cluster({restarted}))["nodes"][0].contains("in_per_s"));
}

TEST(TopView, ANodeThatDoesNotAnswerIsThereWithTheReason) {
  NodeLook silent = node("b", 2 * kSecond, 9000, 0);
  silent.failure = "no answer within 1 s";
  NodeLook gone = silent;
  gone.name = "c";
  gone.has_left = true;
  NodeLook stranger = node("d", 2 * kSecond, 0, 0);
  stranger.has_left = true;
  stranger.member = nullptr;
  const json rows =
      top_view({}, cluster({node("a", 2 * kSecond, 0, 0), silent, gone, stranger}))["nodes"];
  EXPECT_EQ(rows[0]["state"], "member");
  EXPECT_FALSE(rows[0].contains("reason"));
  EXPECT_EQ(rows[1]["state"], "no answer");
  EXPECT_EQ(rows[1]["reason"], "no answer within 1 s");
  EXPECT_FALSE(rows[1].contains("sessions")) << "its last answer is too old";
  EXPECT_EQ(rows[2]["state"], "left");
  EXPECT_EQ(rows[3]["state"], "left");
  EXPECT_EQ(rows[3]["reason"], "it answers, and is no member any more");
  NodeLook alone = node("x", kSecond, 0, 0);
  alone.member = nullptr;
  EXPECT_EQ(top_view({}, {{alone}, "", ""})["nodes"][0]["state"], "alone");
}

TEST(TopView, AJobIsTheSumOfItsNodes) {
  std::vector<NodeLook> before = {node("a", kSecond, 0, 0), node("b", kSecond, 0, 0)};
  std::vector<NodeLook> now = {node("a", 2 * kSecond, 0, 0), node("b", 3 * kSecond, 0, 0)};
  before[0].jobs = json::array({job(times(10, 4000, 100, 100))});
  before[1].jobs = json::array({job(times(10, 4000, 100, 100))});
  now[0].jobs = json::array({job(times(20, 12000, 3100, 7100))});  // 8000 bytes in a second
  now[1].jobs = json::array({job(times(30, 12000, 100, 20100))});  // 8000 in two
  const json rows = top_view(cluster(before), cluster(now))["jobs"];
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0]["in_per_s"], 12000.0);
  EXPECT_EQ(rows[0]["goodput_per_s"], 3000.0) << "each of 4 ranks gave a quarter";
  EXPECT_EQ(rows[0]["parts_per_s"], 20.0);
  EXPECT_EQ(rows[0]["us_per_part"], 1.0);
  EXPECT_EQ(rows[0]["wait_share"], 0.1);
  EXPECT_EQ(rows[0]["nodes_seen"], 2.0);
  EXPECT_EQ(rows[0]["outstanding"], 10.0);
  now[1].jobs[0]["epoch"] = 3;
  EXPECT_EQ(top_view(cluster(before), cluster(now))["jobs"].size(), 2U) << "another instance";
}

TEST(TopView, WhoIsWaitedForLongestComesFirst) {
  std::vector<NodeLook> now = {node("a", kSecond, 0, 0), node("b", kSecond, 0, 0)};
  const auto waits = [](int tag, double seconds) {
    return json::array({{{"tag", tag}, {"round", 5}, {"missing", {1, 3}}, {"seconds", seconds}}});
  };
  now[0].jobs = json::array({job(times(0, 0, 0, 0), waits(17, 0.2))});
  now[1].jobs = json::array({job(times(0, 0, 0, 0), waits(18, 3.5))});
  const json view = top_view({}, cluster(now));
  ASSERT_EQ(view["waiting"].size(), 2U);
  EXPECT_EQ(view["waiting"][0]["tag"], 18.0);
  EXPECT_EQ(view["waiting"][0]["node"], "b");
  EXPECT_EQ(view["waiting"][0]["missing"], json({1, 3}));
  EXPECT_EQ(view["jobs"][0]["waiting"], 2.0);
}

TEST(TopView, StragglersAreThoseThatCostMost) {
  std::vector<NodeLook> before = {node("a", kSecond, 0, 0), node("b", kSecond, 0, 0)};
  std::vector<NodeLook> now = {node("a", 2 * kSecond, 0, 0), node("b", 2 * kSecond, 0, 0)};
  const auto metrics = [](json ranks) {
    return json::array({{{"name", "bert"}, {"epoch", 2}, {"ranks", std::move(ranks)}}});
  };
  before[0].metrics = metrics({rank(0, 100, 5000), rank(1, 50, 1'000'000), rank(2, 0, 0)});
  now[0].metrics = metrics({rank(0, 130, 35'000), rank(1, 60, 101'000'000), rank(2, 0, 0)});
  before[1].metrics = metrics({rank(0, 0, 0), rank(1, 0, 0), rank(2, 0, 0)});
  now[1].metrics = metrics({rank(0, 0, 0), rank(1, 10, 100'000'000), rank(2, 0, 0)});
  json rows = top_view(cluster(before), cluster(now))["stragglers"];
  ASSERT_EQ(rows.size(), 2U) << "rank 2 never was last";
  EXPECT_EQ(rows[0]["rank"], 1);
  EXPECT_EQ(rows[0]["times_last"], 20.0);
  EXPECT_EQ(rows[0]["last_share"], 0.4);
  EXPECT_EQ(rows[0]["late_us"], 10'000.0);
  EXPECT_EQ(rows[0]["lost_share"], 0.2);
  EXPECT_EQ(rows[1]["late_us"], 1.0);
  now[1].metrics = metrics({rank(0, 0, 0), rank(1, 10, 0), rank(2, 0, 0, 2)});
  rows = top_view(cluster(before), cluster(now))["stragglers"];
  EXPECT_EQ(rows[0]["rank"], 2) << "it is waited for now";
}

TEST(TopView, AnswersOfAnyTypeAreTaken) {
  const json odd[] = {nullptr,
                      7,
                      "text",
                      json::array({1, nullptr}),
                      json::object(),
                      {{"totals", 3}, {"shards", {{"index", "x"}}}},
                      json::array({{{"name", 5}, {"epoch", -3}, {"times", 4}, {"ranks", "all"}}})};
  for (const json& value : odd) {
    NodeLook look = node("a", kSecond, 0, 0);
    look.member = look.status = look.stats = look.jobs = look.metrics = value;
    NodeLook later = look;
    later.time = 2 * kSecond;
    EXPECT_EQ(top_view(cluster({look}), cluster({later}))["nodes"].size(), 1U) << value;
  }
}

}  // namespace
}  // namespace tally::control::top
