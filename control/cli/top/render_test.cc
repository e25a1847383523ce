// Rows and a width in, text out.
#include "control/cli/top/render.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace tally::control::top {
namespace {

using nlohmann::json;

json view_of_two() {
  return {{"seconds", 1.0},
          {"coordinator", "tcp:a:7733"},
          {"note", ""},
          {"nodes",
           {{{"node", "a"},
             {"role", "worker"},
             {"state", "member"},
             {"shards", 2.0},
             {"sessions", 4.0},
             {"jobs", 1.0},
             {"in_per_s", 2048.0},
             {"out_per_s", 1024.0},
             {"failures_per_s", 0.0},
             {"address", "tcp:a:7733"}},
            {{"node", "b"},
             {"role", "helper"},
             {"state", "no answer"},
             {"address", "tcp:b:7733"},
             {"reason", "connection refused"}}}},
          {"jobs",
           {{{"job", "bert"},
             {"epoch", 2},
             {"joined", 4.0},
             {"ranks", 4.0},
             {"nodes", 2.0},
             {"nodes_seen", 1.0},
             {"goodput_per_s", 512.0},
             {"parts_per_s", 3.0},
             {"us_per_part", 12.34},
             {"wait_share", 0.25},
             {"outstanding", 1.0},
             {"waiting", 1.0}}}},
          {"waiting",
           {{{"job", "bert"},
             {"tag", 1700.0},
             {"round", 3767.0},
             {"seconds", 3.21},
             {"missing", {1, 3}},
             {"node", "a"}}}},
          {"stragglers",
           {{{"job", "bert"},
             {"rank", 3},
             {"times_last", 20.0},
             {"last_share", 0.4},
             {"late_us", 10.0},
             {"lost_share", 0.2},
             {"waited_for", 1.0}}}},
          {"shards",
           {{{"node", "a"},
             {"shard", 0.0},
             {"in_per_s", 2048.0},
             {"out_per_s", 1024.0},
             {"tiles_per_s", 2.0},
             {"completions_per_s", 3.0},
             {"failures_per_s", 0.0}}}}};
}

constexpr const char* kWhole =
    "tally top: 2 nodes, 1 job, 1 node not as it should be; coordinator tcp:a:7733; rates over 1.0 "
    "s\n"
    "\n"
    "node  role    state      shards  sessions  jobs     in/s    out/s  failures/s  address\n"
    "a     worker  member          2         4     1  2.0 KiB  1.0 KiB           0  tcp:a:7733\n"
    "b     helper  no answer       -         -     -        -        -           -  tcp:b:7733\n"
    "b: connection refused\n"
    "\n"
    "jobs\n"
    "job   epoch  joined  nodes  goodput/s  parts/s  us/part   wait  parts  waiting\n"
    "bert      2  4/4     1/2        512 B        3     12.3  25.0%      1        1\n"
    "\n"
    "waiting for ranks that have not announced\n"
    "job    tag  round  waiting  for ranks  node\n"
    "bert  1700   3767    3.2 s  1, 3       a\n"
    "\n"
    "ranks that were last\n"
    "job   rank  last  of all  us late   lost  waited for\n"
    "bert     3    20   40.0%     10.0  20.0%           1\n"
    "\n"
    "shards\n"
    "node  shard     in/s    out/s  tiles/s  completions/s  failures/s\n"
    "a         0  2.0 KiB  1.0 KiB        2              3           0\n";

TEST(TopRender, ShowsWhatThereIs) {
  EXPECT_EQ(render_top(view_of_two(), {}), kWhole);
}

TEST(TopRender, ListsThatAreEmptyTakeNoRoom) {
  json view = view_of_two();
  view["jobs"] = view["waiting"] = view["stragglers"] = view["shards"] = json::array();
  view["nodes"].erase(1);
  view["seconds"] = 0;
  view["coordinator"] = "";
  const std::string text = render_top(view, {});
  EXPECT_TRUE(text.starts_with("tally top: 1 node, 0 jobs; no rates yet\n")) << text;
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 4) << text;
}

TEST(TopRender, FitsTheWindow) {
  for (const Screen screen : {Screen{40, 10}, Screen{1, 1}, Screen{7, 3}}) {
    const std::string text = render_top(view_of_two(), screen);
    std::size_t lines = 0, longest = 0, column = 0;
    for (const char c : text) {
      if (c != '\n') {
        longest = std::max(longest, ++column);
        continue;
      }
      ++lines;
      column = 0;
    }
    EXPECT_EQ(lines, screen.height) << text;
    EXPECT_LE(longest, screen.width) << text;
  }
  const std::string text = render_top(view_of_two(), {200, 10});
  EXPECT_NE(text.find("13 more lines"), std::string::npos) << text;
  EXPECT_EQ(render_top(view_of_two(), {200, 100}), kWhole);
}

TEST(TopRender, CutsBetweenCharacters) {
  json view = view_of_two();
  view["nodes"][0]["node"] = "\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4";  // four letters, two bytes each
  const std::string text = render_top(view, {3, 8});
  EXPECT_NE(text.find("\n\xc3\xa4\xc3\xa4\xc3\xa4\n"), std::string::npos) << text;
}

TEST(TopRender, NothingThatNodesSentSteersTheTerminal) {
  json view = view_of_two();
  view["nodes"][1]["reason"] = "\033[2Jx\ny";
  view["jobs"][0]["job"] = "\033]0;title\a";
  view["note"] = "a\nb";
  const std::string text = render_top(view, {});
  EXPECT_EQ(text.find('\033'), std::string::npos);
  EXPECT_NE(text.find("?[2Jx?y"), std::string::npos) << text;
  EXPECT_NE(text.find("\na?b\n"), std::string::npos) << text;
}

TEST(TopRender, ALongListOfRanksIsCut) {
  json view = view_of_two();
  view["waiting"][0]["missing"] = json::array();
  for (int rank = 0; rank < 100; ++rank) view["waiting"][0]["missing"].push_back(rank);
  EXPECT_NE(render_top(view, {}).find("10, 11 and 88 more"), std::string::npos);
}

}  // namespace
}  // namespace tally::control::top
