// The tables of tallyctl, of answers as a node gives them.
#include "control/cli/views.h"

#include <gtest/gtest.h>

namespace tally::control {
namespace {

using nlohmann::json;

json job(std::uint64_t parts, Nanos unit) {
  return {{"name", "bert"},
          {"epoch", 2},
          {"ranks", 4},
          {"joined", 4},
          {"weight", 1},
          {"trees", {2, 3}},
          {"trees_of_plan", 6},
          {"height", 1},
          {"nodes", 3},
          {"plan_epoch", 11},
          {"regions", 8},
          {"region_bytes", 4096},
          {"parts_outstanding", 1},
          {"times",
           {{"parts", parts},
            {"bytes", parts * 1024},
            {"waiting_ns", 5 * unit},
            {"queueing_ns", 1 * unit},
            {"pulling_ns", 0},
            {"summing_ns", 3 * unit},
            {"pushing_ns", 1 * unit}}},
          {"waiting",
           json::array({{{"tag", 17}, {"round", 5}, {"missing", {1, 3}}, {"seconds", 3.21}}})}};
}

TEST(Views, JobsShowWhereTheirTimeGoesAndWhomTheyWaitFor) {
  Sample last;
  EXPECT_EQ(
      render_jobs(json::array({job(10, 20'000)}), kSecond, last),
      "job   epoch  joined  ranks  weight  trees  height  nodes  plan  regions  registered  parts  "
      "done        in  us/part   wait  queue  pull    sum   push\n"
      "bert      2       4      4       1  2/6         1      3    11        8     4.0 KiB      1  "
      "  10  10.0 KiB     20.0  50.0%  10.0%  0.0%  30.0%  10.0%\n"
      "\n"
      "waiting for ranks that have not announced:\n"
      "job   tag  round  waiting  for ranks\n"
      "bert   17      5    3.2 s  1, 3\n");
}

TEST(Views, JobsShowWhichOperationIsStuckAndWhy) {
  Sample last;
  json one = job(10, 20'000);
  one["waiting"] = json::array();
  one["stuck"] = {{{"kind", "in compute"},
                   {"who", "rank 3"},
                   {"since_ms", 3210},
                   {"text", "tag 17 round 5: waiting for rank 3 (has announced nothing yet)"}}};
  EXPECT_NE(render_jobs(json::array({one}), kSecond, last)
                .find("\nstuck or failed:\n"
                      "job   kind        who     since  operation\n"
                      "bert  in compute  rank 3  3.2 s  tag 17 round 5: waiting for rank 3 (has "
                      "announced nothing yet)\n"),
            std::string::npos);
}

TEST(Views, JobsOfAClusterShowHowTheyStand) {
  const json running = {{"name", "bert"},     {"epoch", 7},
                        {"stage", "running"}, {"ranks", 4},
                        {"come", 4},          {"nodes", {"a", "b"}},
                        {"source", "file"},   {"plan_epoch", 11},
                        {"waits_for", ""},    {"trouble", "rank 1: no memory"}};
  const json gathering = {{"name", "gpt"},
                          {"epoch", 9},
                          {"stage", "gathering"},
                          {"ranks", 8},
                          {"come", 6},
                          {"nodes", json::array()},
                          {"source", "closed form"},
                          {"plan_epoch", 0},
                          {"waits_for", "ranks 3, 5"},
                          {"trouble", ""}};
  EXPECT_EQ(render_cluster_jobs(json::array({running, gathering})),
            "job   epoch  stage      ranks  nodes  plan            waits for\n"
            "bert      7  running    4/4        2  file, epoch 11  -\n"
            "gpt       9  gathering  6/8        0  -               ranks 3, 5\n"
            "\n"
            "could not change their plan:\n"
            "bert: rank 1: no memory\n");
  json without = gathering;
  without["left_out"] = {2U, 3U};
  EXPECT_NE(render_cluster_jobs(json::array({without}))
                .find("\nranks that are lost, and without which the jobs go on:\ngpt: 2, 3\n"),
            std::string::npos);
  EXPECT_EQ(render_cluster_jobs(json::array()), "no jobs that this node coordinates\n");
}

TEST(Views, OfRanksBelowOtherNodesSomeAreMissing) {
  Sample last;
  json one = job(10, 20'000);
  one["waiting"][0]["missing_below"] = {4, 5};
  EXPECT_NE(render_jobs(json::array({one}), kSecond, last).find("3.2 s  1, 3, some of 4, 5\n"),
            std::string::npos);
  one["waiting"][0]["missing"] = json::array();
  EXPECT_NE(render_jobs(json::array({one}), kSecond, last).find("3.2 s  some of 4, 5\n"),
            std::string::npos);
}

TEST(Views, ReportsWhichNodesReplaceWhich) {
  Sample last;
  json one = job(10, 20'000);
  one["stands_in_for"] = {"a", "b"};
  EXPECT_NE(render_jobs(json::array({one}), kSecond, last)
                .find("\nthis node stands in for a, b in job bert, epoch 2\n"),
            std::string::npos);
  const json node = {{"name", "c"}, {"role", "helper"}, {"stands_in_for", {"a", "b"}}};
  EXPECT_NE(render_nodes(json::array({node})).find("c     helper, stands in for a, b  "),
            std::string::npos);
}

TEST(Views, WatchedJobsShowTheInterval) {
  Sample last;
  render_jobs(json::array({job(10, 20'000)}), kSecond, last);
  json later = job(30, 20'000);
  later["times"]["summing_ns"] = 3 * 20'000 + 90'000;
  later["times"]["pulling_ns"] = 10'000;
  later["waiting"] = json::array();
  // Another job comes before it: rows are found by name.
  json other = job(1, 1000);
  other["name"] = "a";
  const std::string text = render_jobs(json::array({other, later}), 3 * kSecond, last);
  EXPECT_TRUE(text.starts_with("per second:\n")) << text;
  EXPECT_NE(text.find("bert      2       4      4       1  2/6         1      3    11        8     "
                      "4.0 KiB      1    10"
                      "  10.0 KiB      5.0   0.0%   0.0%  10.0%  90.0%   0.0%\n"),
            std::string::npos)
      << text;
}

json metrics(std::uint64_t times_last, Nanos lateness) {
  return json::array({{{"name", "bert"},
                       {"epoch", 1},
                       {"ranks", json::array({{{"rank", 0},
                                               {"notices", 12},
                                               {"completions", 11},
                                               {"failures", 0},
                                               {"bytes_in", 2048},
                                               {"bytes_out", 1024},
                                               {"damaged", 0},
                                               {"times_last", times_last},
                                               {"lateness_ns", lateness},
                                               {"waited_for", 1}}})}}});
}

TEST(Views, RanksShowHowLateTheyWere) {
  Sample last;
  EXPECT_EQ(render_ranks(metrics(4, 10'000), kSecond, last),
            "job   rank  notices  completions  failures       in      out  damaged  last  us late"
            "  waited for\n"
            "bert     0       12           11         0  2.0 KiB  1.0 KiB        0     4      2.5"
            "           1\n");
  EXPECT_EQ(render_ranks(metrics(6, 70'000), 3 * kSecond, last),
            "per second:\n"
            "job   rank  notices  completions  failures   in  out  damaged  last  us late"
            "  waited for\n"
            "bert     0        0            0         0  0 B  0 B        0     1     30.0"
            "           1\n");
  EXPECT_EQ(render_ranks(json::array(), 4 * kSecond, last), "no jobs\n");
}

TEST(Views, StatsHaveATotalWhereThereAreSeveralShards) {
  Sample last;
  const json shard = {{"index", 0}, {"notices", 1500}};
  const json one = {{"shards", json::array({shard})}, {"totals", {{"notices", 1500}}}};
  EXPECT_EQ(render_stats(one, 1, last).find("all"), std::string::npos);
  json two = one;
  two["shards"].push_back({{"index", 1}, {"notices", 0}});
  Sample fresh;
  EXPECT_NE(render_stats(two, 1, fresh).find("\nall       1.5k"), std::string::npos);
  json with_port = one;
  with_port["shards"][0]["roce"] = {{"received", 1234}, {"wrong_icrc", 5}};
  const std::string shown = render_stats(with_port, 1, fresh);
  EXPECT_NE(shown.find("wrong ICRC"), std::string::npos);
  EXPECT_NE(shown.find("1.2k"), std::string::npos);
}

TEST(Views, StatusShowsTheTimeoutsInSeconds) {
  const json status = {
      {"timeouts", {{"fault_ms", 60'000}, {"heartbeat_ms", 1200}, {"deadline_ms", 90'000}}}};
  EXPECT_NE(
      render_status(status).find("\ntime-outs   fault 60 s, deadline 90 s, heartbeat 1.2 s\n"),
      std::string::npos)
      << render_status(status);
  for (const json& other : {json::object(), json(7), json({{"timeouts", 7}}),
                            json({{"timeouts", {{"fault_ms", "60"}}}})}) {
    EXPECT_NE(render_status(other).find("\ntime-outs   -\n"), std::string::npos) << other;
  }
}

TEST(Views, NodesShowWhatTheyAre) {
  const json node = {{"name", "n1"},         {"role", "worker"},  {"host", "gpu7"},
                     {"tcp", "tcp:n1:7733"}, {"unix", "unix:/a"}, {"shards", 4},
                     {"speed", 1 << 30},     {"jobs", 2},         {"trees", 12}};
  json local = node;
  local["name"] = "n2";
  local["tcp"] = "";
  local["speed"] = 0;
  json rails = node;
  rails["name"] = "n3";
  rails["rails"] = {{{"address", "10.0.0.3"}, {"up", true}},
                    {{"address", "10.0.1.3"}, {"up", true}}};
  json lost = rails;
  lost["name"] = "n4";
  lost["rails"][1]["up"] = false;
  EXPECT_EQ(render_nodes(json::array({node, local, rails, lost})),
            "node  role    host  address      shards  rails                NIC/s  jobs  trees\n"
            "n1    worker  gpu7  tcp:n1:7733       4  -                  1.0 GiB     2     12\n"
            "n2    worker  gpu7  unix:/a           4  -                        -     2     12\n"
            "n3    worker  gpu7  tcp:n1:7733       4  2                  1.0 GiB     2     12\n"
            "n4    worker  gpu7  tcp:n1:7733       4  1/2, not 10.0.1.3  1.0 GiB     2     12\n");
  json racked = node;
  racked["rack"] = "r1";
  EXPECT_NE(render_nodes(json::array({racked})).find("worker, rack r1  "), std::string::npos);
  EXPECT_EQ(render_nodes(json::array()).substr(0, 10), "no members");
}

}  // namespace
}  // namespace tally::control
