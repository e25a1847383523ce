// The coordinator's methods, asked as a server would ask them, with what no correct peer sends too.
#include "control/coordinator/rpc/service.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/control/service_fixture.h"

namespace tally::control {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

TEST_F(ServiceTest, HoldsAnswersUntilThereIsNews) {
  const auto joined = ask(1, "cluster.join", node("a"));
  EXPECT_EQ(joined->error(), "");
  EXPECT_EQ(joined->result()["fault_ms"], 60'000);
  const auto news = ask(1, "cluster.next");
  EXPECT_FALSE(news->has_come());
  const auto opened = ask(2, "job.open", rank(0));
  EXPECT_FALSE(opened->has_come());
  ASSERT_TRUE(news->has_come());
  const json placement = news->result()["placements"][0];
  EXPECT_EQ(placement["job"], "train");
  EXPECT_EQ(placement["nodes"], 1);
  const auto later = ask(1, "cluster.next", {{"done", {{{"placement", placement["placement"]}}}}});
  EXPECT_FALSE(later->has_come());
  ASSERT_EQ(opened->error(), "");
  EXPECT_EQ(opened->result()["nodes"][0]["trees"], json::array({0, 1}));
  EXPECT_EQ(opened->result()["deadline_ms"], 60'000);
  EXPECT_EQ(opened->result()["fault_ms"], 60'000);
  EXPECT_EQ(ask(3, "cluster.nodes")->result()[0]["jobs"], 1);
  const json over = {{"node", 1}, {"over", {{{"placement", placement["placement"]}}}}};
  EXPECT_EQ(ask(4, "cluster.report", over)->error(), "");
  EXPECT_EQ(ask(3, "cluster.nodes")->result()[0]["jobs"], 0);
  // The same rank may ask again on its connection, and is given the next epoch.
  const auto again = ask(2, "job.open", rank(0));
  EXPECT_FALSE(again->has_come());
  EXPECT_EQ(later->result()["placements"][0]["epoch"], 2);
  EXPECT_EQ(ask(2, "job.open", rank(0))->error(), "job.open waits for its answer already");
  service_.closed(1);
  EXPECT_THAT(again->error(), HasSubstr("node \"a\" has left: its connection"));
}

TEST_F(ServiceTest, UsesTheLatestRailsOfANode) {
  json rails = {
      {{"address", "10.0.0.1"}, {"tcp", "tcp:10.0.0.1:7"}, {"speed", 300}, {"shards", 1}},
      {{"address", "10.0.1.1"}, {"tcp", "tcp:10.0.1.1:7"}, {"speed", 100}, {"shards", 1}}};
  EXPECT_EQ(ask(1, "cluster.join", changed(node("a"), "rails", rails))->error(), "");
  EXPECT_EQ(ask(9, "cluster.nodes")->result()[0]["speed"], 400);
  // Gives the job that forms then, which is over when its rank is gone.
  const auto formed = [this] {
    const auto news = ask(1, "cluster.next");
    const auto opened = ask(2, "job.open", rank(0));
    const json placement = news->result()["placements"][0];
    ask(4, "cluster.report", {{"node", 1}, {"done", {{{"placement", placement["placement"]}}}}});
    ask(4, "cluster.report", {{"node", 1}, {"over", {{{"placement", placement["placement"]}}}}});
    return json{{"rails", placement["rails"]},
                {"weights", opened->result()["weights"]},
                {"tcp", opened->result()["nodes"][0]["tcp"]}};
  };
  EXPECT_EQ(formed(),
            (json{{"rails", {0, 1}}, {"weights", {49152, 16384}}, {"tcp", "tcp:10.0.0.1:7"}}));
  rails[0]["up"] = false;
  const auto report = [&](const json& list) {
    return ask(3, "cluster.report", {{"node", 1}, {"rails", list}})->error();
  };
  EXPECT_EQ(report(rails), "");
  EXPECT_EQ(formed(), (json{{"rails", {1}}, {"weights", {65536}}, {"tcp", "tcp:10.0.1.1:7"}}));
  EXPECT_THAT(report({{{"address", "10.0.0.1"}}}), HasSubstr("\"rails\" is a list"));
  EXPECT_THAT(ask(5, "cluster.join", changed(node("b"), "rails", 5))->error(),
              HasSubstr("\"rails\" is a list"));
  EXPECT_THAT(ask(1, "cluster.next", {{"rails", rails}})->error(), HasSubstr("unknown"));
}

TEST_F(ServiceTest, AWaitForNewsEndsWithAnEmptyAnswer) {
  ask(1, "cluster.join", node("a"));
  const auto news = ask(1, "cluster.next", {{"wait_ms", 20}});
  EXPECT_THAT(ask(1, "cluster.next")->error(), HasSubstr("waits for its answer already"));
  EXPECT_FALSE(news->has_come());
  run_for(std::chrono::milliseconds(200));
  EXPECT_EQ(news->result(), (json{{"placements", json::array()}, {"withdraw", json::array()}}));
}

TEST_F(ServiceTest, AClosedConnectionEndsItsMembershipAndItsPlace) {
  ask(1, "cluster.join", node("a"));
  const auto news = ask(1, "cluster.next");
  const auto opened = ask(2, "job.open", rank(0));
  service_.closed(2);
  const auto later = ask(1, "cluster.next");
  ASSERT_TRUE(later->has_come());
  EXPECT_EQ(later->result()["withdraw"].size(), 1U);
  EXPECT_FALSE(opened->has_come() && opened->error().empty());
  service_.closed(1);
  service_.closed(7);
  EXPECT_TRUE(ask(3, "cluster.nodes")->result().empty());
  EXPECT_EQ(ask(2, "job.open", rank(0))->result(), (json{{"nodes", json::array()}}));
}

TEST_F(ServiceTest, RefusesWrongParameters) {
  const auto join = [&](const char* key, json value) {
    return ask(1, "cluster.join", changed(node("a"), key, std::move(value)))->error();
  };
  EXPECT_THAT(join("version", 2), HasSubstr("version 2"));
  EXPECT_THAT(join("name", ""), HasSubstr("needs a name"));
  EXPECT_THAT(join("name", std::string(200, 'n')), HasSubstr("at most 128"));
  EXPECT_THAT(join("role", "boss"), HasSubstr("\"worker\" or \"helper\""));
  EXPECT_THAT(join("tcp", ""), HasSubstr("needs an address"));
  EXPECT_THAT(join("shards", 0), HasSubstr("from 1 to 256"));
  EXPECT_THAT(join("speed", -1), HasSubstr("\"speed\" is -1"));
  EXPECT_THAT(join("colour", 1), HasSubstr("unknown"));
  EXPECT_THAT(ask(1, "cluster.next")->error(), HasSubstr("cluster.join first"));
  ask(1, "cluster.join", node("a"));
  for (const json& list :
       {json(1), json::array({1}), json::array({json::object()}), json::array({{{"placement", 0}}}),
        json::array({{{"placement", "1"}}}), json(std::vector<int>(2000, 1))}) {
    EXPECT_THAT(ask(1, "cluster.next", {{"done", list}})->error(), HasSubstr("are lists of"));
    EXPECT_THAT(ask(2, "cluster.report", {{"node", 1}, {"over", list}})->error(),
                HasSubstr("are lists of"));
  }
  const json unknown = {{"over", {{{"placement", 99}}}}};
  EXPECT_EQ(ask(2, "cluster.report", changed(unknown, "node", 1))->error(), "");
  EXPECT_THAT(ask(2, "cluster.report", changed(unknown, "node", 9))->error(),
              HasSubstr("there is no member 9"));
  EXPECT_THAT(ask(3, "job.open", changed(rank(0), "rank", 2))->error(),
              HasSubstr("rank 2: must be below ranks 2"));
  EXPECT_THAT(ask(3, "job.open", changed(rank(0), "version", 3))->error(), HasSubstr("version 3"));
  EXPECT_THAT(ask(3, "job.open", changed(rank(0), "host", 3))->error(), HasSubstr("\"host\""));
  EXPECT_THAT(ask(3, "job.dance")->error(), HasSubstr("no method \"job.dance\""));
}

TEST_F(ServiceTest, ANodeOutsideOfClustersRefusesMembers) {
  Access bare;
  CoordinatorService alone({.access = &bare}, store_, io_, [](auto, auto) {});
  auto answer = std::make_shared<Answer>();
  json params = node("a");
  alone.handle(1, {"cluster.join", params, {}}, {answer, 1, true});
  EXPECT_THAT(answer->error(), HasSubstr("this node stands alone"));
}

TEST_F(ServiceTest, ReportsTheCoordinatorThatItIsAMemberOf) {
  CoordinatorService member({.status =
                                 [] {
                                   return CoordinatorStatus{"77", "b", "tcp:boss:7733", true};
                                 },
                             .access = &access_},
                            store_, io_, [](auto, auto) {});
  const auto ask_it = [&](const char* method, json params) {
    auto answer = std::make_shared<Answer>();
    member.handle(1, {method, std::move(params), {}}, {answer, 1, true});
    return answer;
  };
  const json status = {{"instance", "77"},
                       {"name", "b"},
                       {"coordinator", "tcp:boss:7733"},
                       {"electing", true},
                       {"members", 0}};
  EXPECT_EQ(ask_it("cluster.coordinator", json::object())->result(), status);
  ask_it("cluster.join", node("a"));
  EXPECT_EQ(ask_it("cluster.coordinator", json::object())->result()["members"], 1);
  EXPECT_THAT(ask_it("cluster.coordinator", {{"why", 1}})->error(), HasSubstr("unknown"));
}

TEST_F(ServiceTest, ANodeOfAClusterNamesItsCoordinators) {
  CoordinatorService member({.coordinators = "tcp:boss:7733", .access = &access_}, store_, io_,
                            [](auto, auto) {});
  auto answer = std::make_shared<Answer>();
  member.handle(1, {"job.open", rank(0), {}}, {answer, 1, true});
  EXPECT_THAT(answer->error(), HasSubstr("ask its coordinator, tcp:boss:7733"));
}

}  // namespace
}  // namespace tally::control
