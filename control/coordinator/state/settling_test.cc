// What follows from a write is sent when the store has settled it, and not before.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "control/plan/json/machines_json.h"
#include "control/plan/json/plan_json.h"
#include "tests/support/control/service_fixture.h"
#include "tests/support/control/set_plans.h"

namespace tally::control {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

class SettlingTest : public ServiceTest {
 protected:
  SettlingTest() { store_.hold(); }
  // The connection stays.
  std::shared_ptr<Answer> ask(rpc::ConnectionId connection, const char* method,
                              json params = json::object()) {
    return answers_.emplace_back(ServiceTest::ask(connection, method, std::move(params)));
  }
  // One that has nothing to do with what is asked next.
  void write() { store_.observe_epoch(0); }
  // The answers since the last call; none are sent before the store settles.
  std::vector<std::string> answers() {
    EXPECT_THAT(order_, IsEmpty());
    store_.settle();
    return std::exchange(order_, {});
  }
  void join(rpc::ConnectionId connection, const char* name) {
    ask(connection, "cluster.join", node(name));
    EXPECT_EQ(answers().size(), 1U);
  }
  // That the node has taken what the news ask of it.
  std::shared_ptr<Answer> report(std::uint32_t node, const Answer& news) {
    const json placements = news.result()["placements"];
    json done = json::array();
    for (const json& one : placements) {
      done.push_back({{"placement", one["placement"]}});
    }
    return ask(5, "cluster.report", {{"node", node}, {"done", done}});
  }

  std::vector<std::shared_ptr<Answer>> answers_;
};

TEST_F(SettlingTest, AChangeIsAnsweredAfterItHasSettled) {
  join(1, "a");
  join(2, "b");
  plan::MachineFile measured;
  measured.machines.emplace_back().name = "a";
  measured.machines[0].in = measured.machines[0].out = measured.machines[0].sum = 1e9;
  const json plan = plan::write_plan(stars().file), machines = plan::write_machines(measured);
  const json rails =
      json::array({{{"address", "10.0.0.1"}, {"tcp", ""}, {"speed", 1}, {"shards", 1}}});
  const std::vector<std::pair<const char*, json>> requests = {
      {"cluster.join", node("c")},
      {"plan.set", {{"text", plan}}},
      {"plan.set", {{"text", machines}, {"closed_form", true}}},
      {"plan.set", {{"closed_form", true}}},
      {"cluster.drain", {{"node", "a"}}},
      {"cluster.drain", {{"node", "a"}, {"undo", true}}},
      {"cluster.report", {{"node", 1}, {"rails", rails}}},
  };
  for (const auto& [method, params] : requests) {
    const auto answer = ask(9, method, params);
    EXPECT_THAT(answers(), ElementsAre(std::string(method) + " of 9"));
    EXPECT_EQ(answer->error(), "") << method;
  }
}

TEST_F(SettlingTest, AReadWaitsForEarlierWrites) {
  for (const char* method : {"cluster.nodes", "cluster.jobs", "cluster.coordinator", "plan.show",
                             "cluster.next", "job.open", "job.next", "job.dance"}) {
    write();
    ask(9, method);
    EXPECT_THAT(answers(), ElementsAre(std::string(method) + " of 9"));
    ask(9, method);
    EXPECT_EQ(std::exchange(order_, {}).size(), 1U) << "nothing is on its way";
  }
}

TEST_F(SettlingTest, NewsAnswersAndNotificationsArriveInOrder) {
  join(1, "a");
  join(2, "b");
  auto news_a = ask(1, "cluster.next");
  const auto news_b = ask(2, "cluster.next");
  const auto opened = ask(3, "job.open", rank(0));
  ask(4, "job.open", rank(1));
  EXPECT_THAT(answers(), ElementsAre("cluster.next of 1", "cluster.next of 2"));
  write();
  report(1, *news_a);
  report(2, *news_b);
  EXPECT_THAT(answers(), ElementsAre("cluster.report of 5", "cluster.report of 5", "job.open of 3",
                                     "job.open of 4"));
  EXPECT_EQ(opened->result()["epoch"], 1);

  const auto word = ask(3, "job.next");
  ask(4, "job.next");
  news_a = ask(1, "cluster.next");
  const auto drained = ask(9, "cluster.drain", {{"node", "b"}});
  EXPECT_THAT(answers(), ElementsAre("cluster.drain of 9", "cluster.next of 1"));
  EXPECT_EQ(drained->result()["draining"], true);
  write();
  report(1, *news_a);
  EXPECT_THAT(answers(), ElementsAre("cluster.report of 5", "job.next of 3", "job.next of 4"));
  EXPECT_EQ(word->result()["change"], "prepare");
  store_.settle();
  EXPECT_THAT(order_, IsEmpty()) << "once";
}

TEST_F(SettlingTest, AnAnswerDoesNotWaitForLaterWrites) {
  const auto first = ask(1, "cluster.join", node("a"));
  const std::uint64_t writes = store_.written();
  ask(2, "cluster.join", node("b"));
  EXPECT_EQ(ask(3, "cluster.nodes")->error(), "(held)");
  EXPECT_EQ(store_.members().size(), 2U) << "reading does not wait";
  store_.settle(writes);
  EXPECT_THAT(order_, ElementsAre("cluster.join of 1"));
  EXPECT_EQ(first->result()["node"], 1);
}

TEST_F(SettlingTest, AConnectionThatEndsMeanwhileGetsNoAnswer) {
  ServiceTest::ask(1, "cluster.join", node("a")).reset();
  service_.closed(1);
  const auto nodes = ask(2, "cluster.nodes");
  EXPECT_THAT(answers(), ElementsAre("cluster.nodes of 2"));
  EXPECT_EQ(nodes->result(), json::array());
}

TEST_F(SettlingTest, NoAnswerIsSentAfterTheStoreIsLost) {
  join(1, "a");
  ask(1, "cluster.next");
  ask(2, "cluster.join", node("b"));
  ask(3, "job.open", rank(0));
  store_.lose("another coordinator has taken over");
  EXPECT_THAT(ended_, ElementsAre(2, 1)) << "they are to ask the other";
  ask(4, "cluster.coordinator");
  EXPECT_THAT(ended_, ElementsAre(2, 1, 4));
  service_.closed(3);
  EXPECT_THAT(order_, IsEmpty());
}

}  // namespace
}  // namespace tally::control
