// What the plan of a job promises, of answers as the coordinator and the nodes give them.
#include "perf/prediction/prediction.h"

#include <gtest/gtest.h>

namespace tally::perf {
namespace {

using nlohmann::json;

constexpr double kNic = 1e9;

json member(const char* name, const char* role, double speed, const char* host = nullptr) {
  return {
      {"name", name}, {"role", role}, {"host", host == nullptr ? name : host}, {"speed", speed}};
}

json job(json trees, json weights) {
  return json::array({{{"name", "bert"},
                       {"epoch", 3},
                       {"trees", std::move(trees)},
                       {"weights", std::move(weights)},
                       {"split_bytes", 262144}}});
}

// n workers, a node on each of their machines, two trees each, of equal weight.
PlanFacts even(std::size_t n, double speed = kNic) {
  PlanFacts facts;
  facts.job = "bert";
  facts.ranks = static_cast<std::uint32_t>(n);
  facts.members = json::array();
  json weights(2 * n, 65536 / (2 * n));
  weights[0] = 65536 / (2 * n) + 65536 % (2 * n);
  for (std::size_t i = 0; i < n; ++i) {
    const std::string name(1, static_cast<char>('a' + i));
    facts.members.push_back(member(name.c_str(), "worker", speed));
    facts.jobs.push_back(job({2 * i, 2 * i + 1}, weights));
    facts.rank_hosts.push_back(name);
  }
  return facts;
}

TEST(Prediction, IsTheClosedFormOfAllReduceWithoutHelpers) {
  const Prediction prediction = predict(even(4));
  ASSERT_EQ(prediction.why_none, "");
  EXPECT_EQ(prediction.nodes, 4U);
  EXPECT_EQ(prediction.trees, 8U);
  EXPECT_EQ(prediction.epoch, 3U);
  EXPECT_EQ(prediction.split_bytes, 262144U);
  EXPECT_NEAR(prediction.load.tau, 2 * 3 / (4 * kNic), 1e-18);  // 2 (n - 1) / (n B)
  ASSERT_EQ(prediction.links.size(), 8U);
  for (const LinkLoad& link : prediction.links) {
    EXPECT_NEAR(link.bytes, 1.5, 1e-9);
    EXPECT_NEAR(link.busy, 1, 1e-9);
  }
  EXPECT_NEAR(prediction.seconds(100'000'000), 0.15, 0.001);
}

TEST(Prediction, ReportsTheRateOfEachLinkInTheMeasuredTime) {
  const Prediction prediction = predict(even(4));
  const json links = links_in(prediction, 100'000'000, 0.3);  // twice as long as promised
  ASSERT_EQ(links.size(), 8U);
  for (const json& link : links) {
    EXPECT_NEAR(link["rate"].get<double>(), kNic / 2, 1);
    EXPECT_NEAR(link["busy"].get<double>(), 0.5, 1e-9);
  }
  const std::string text = render_links_in(prediction, 100'000'000, 0.3);
  EXPECT_NE(text.find("# links in 300 ms for 100000000 bytes:\n"), std::string::npos) << text;
  EXPECT_NE(text.find("out of a: 500 MB/s, busy 50% of predicted 100%\n"), std::string::npos)
      << text;
}

// Two racks of two below nodes of theirs, which one helper is above: a tree at each of two shards.
TEST(Prediction, FollowsTreesThatAreDeeper) {
  PlanFacts facts = even(4);
  facts.members = json::array();
  facts.jobs.clear();
  const auto place = [](json ranks, const char* above) {
    return json{{"height", 1}, {"ranks", std::move(ranks)}, {"above", above}};
  };
  const auto add = [&](const char* name, const json& there) {
    facts.members.push_back(member(name, "helper", kNic));
    json one = job(json::array({0U, 1U}), json::array({40000, 25536}));
    one[0]["vertices"] = json::array({there, there});
    facts.jobs.push_back(one);
  };
  add("x", place(json::array({json::array({0U, 2U})}), "top"));
  add("y", place(json::array({json::array({2U, 2U})}), "top"));
  add("top", place(json::array(), ""));
  for (const char* host : {"a", "b", "c", "d"}) {
    facts.file.speeds.machines.push_back({.name = host, .nic = kNic});
  }
  const Prediction prediction = predict(facts);
  ASSERT_EQ(prediction.why_none, "");
  EXPECT_EQ(prediction.nodes, 3U);
  for (const LinkLoad& link : prediction.links) {
    // A rack's node has two ranks below it and its parent above; the top has two racks.
    const char machine = link.what.back();  // "into top", "out of x"
    const double expected = machine == 'p' ? 2 : machine == 'x' || machine == 'y' ? 3 : 1;
    EXPECT_NEAR(link.bytes, expected, 1e-9) << link.what;
  }
  EXPECT_NEAR(prediction.load.tau * kNic, 3, 1e-9);
  facts.jobs[0][0]["vertices"][0]["above"] = "elsewhere";
  EXPECT_NE(predict(facts).why_none.find("do not form trees"), std::string::npos);
}

// n = 4, k = 1: D = 16 + 4 - 2; the helper has 2 (n - 1) / D, a worker (n - k) / D.
TEST(Prediction, IsTheClosedFormWithAHelper) {
  PlanFacts facts = even(4);
  const int helper = 65536 * 6 / 18, worker = (65536 - helper) / 4;
  const json weights = {worker, worker, worker, worker, helper + (65536 - helper) % 4};
  facts.members.push_back(member("s", "helper", kNic));
  facts.jobs.clear();
  for (unsigned i = 0; i < 5; ++i) facts.jobs.push_back(job(json::array({i}), weights));
  const Prediction prediction = predict(facts);
  ASSERT_EQ(prediction.why_none, "");
  EXPECT_NEAR(prediction.load.tau * kNic, 24.0 / 18, 5e-4) << "weights are rounded";
  EXPECT_EQ(prediction.links.size(), 10U);
}

TEST(Prediction, RanksOfOneMachineShareItsNic) {
  PlanFacts facts;
  facts.job = "bert";
  facts.ranks = 2;
  facts.rank_hosts = {"gpu", "gpu"};
  facts.members = {member("s", "helper", 2 * kNic), member("t", "worker", kNic, "gpu")};
  facts.jobs = {job(json::array({0U}), {32768, 32768}), job(json::array({1U}), {32768, 32768})};
  const Prediction prediction = predict(facts);
  ASSERT_EQ(prediction.why_none, "");
  // Half of each rank's gradient goes to the other machine; what stays is not on a NIC.
  EXPECT_EQ(prediction.binds, "out of gpu");
  EXPECT_NEAR(prediction.load.tau, 2 * 0.5 / kNic, 1e-18);
  facts.members[0]["host"] = "gpu";
  EXPECT_NE(predict(facts).why_none.find("all of it is on one machine"), std::string::npos);
}

TEST(Prediction, SpeedsOfAFileGoBeforeThoseThatNodesDeclare) {
  PlanFacts facts = even(3);
  facts.file.speeds.machines = {{.name = "b", .in = kNic / 4, .out = kNic}};
  const Prediction prediction = predict(facts);
  EXPECT_EQ(prediction.binds, "into b");
  EXPECT_NEAR(prediction.load.tau, 4 * 4 / (3 * kNic), 1e-12);
  facts.file.speeds.machines = {{.name = "c", .nic = kNic, .sum = kNic / 100}};
  EXPECT_EQ(predict(facts).binds, "sums of c");
}

TEST(Prediction, GivesTheReasonWhenThereIsNoPrediction) {
  PlanFacts facts = even(3, 0);
  facts.members[0]["speed"] = kNic;
  const Prediction prediction = predict(facts);
  EXPECT_NE(prediction.why_none.find("of the NIC of b, c is not known"), std::string::npos)
      << prediction.why_none;
  ASSERT_EQ(prediction.links.size(), 6U) << "what they carry is known all the same";
  EXPECT_NEAR(prediction.links[0].bytes, 4.0 / 3, 1e-3);
  EXPECT_NE(render(prediction).find("speed unknown"), std::string::npos);
  EXPECT_FALSE(to_json(prediction).contains("tau"));

  facts = even(3);
  facts.jobs[1] = nullptr;
  EXPECT_NE(predict(facts).why_none.find("of its nodes b gave no answer"), std::string::npos);
  facts.jobs[1] = json::array();
  EXPECT_NE(predict(facts).why_none.find("67 % of its plan (epoch 3, 2 nodes)"), std::string::npos)
      << predict(facts).why_none;
  facts = even(3);
  facts.members = json::array();
  facts.jobs.clear();
  EXPECT_NE(predict(facts).why_none.find("stands alone"), std::string::npos);
}

TEST(Prediction, PlacesRanksByTheRolesOfTheNodes) {
  PlanFacts facts = even(4);
  facts.rank_hosts.clear();
  EXPECT_EQ(predict(facts).why_none, "");
  facts.ranks = 5;
  EXPECT_NE(predict(facts).why_none.find("where the ranks are"), std::string::npos);
  facts = even(4);
  facts.rank_hosts[2] = "";  // one rank did not report it
  EXPECT_EQ(predict(facts).why_none, "");
}

TEST(Prediction, AnswersOfAnyTypeAreTaken) {
  const json odd[] = {nullptr,          7,
                      json::array({7}), json::array({{{"name", 3}}}),
                      job("x", 7),      job({-1, "y", 900}, {"z"}),
                      job({0}, {70000})};
  for (const json& value : odd) {
    PlanFacts facts = even(2);
    facts.jobs[0] = value;
    EXPECT_NE(predict(facts).why_none, "") << value;
    facts.members = value;
    EXPECT_NE(predict(facts).why_none, "") << value;
  }
}

}  // namespace
}  // namespace tally::perf
