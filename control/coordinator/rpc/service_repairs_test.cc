// Repairs in the coordinator's methods: what ranks report, what they are sent, and what no correct
// rank reports.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/control/service_fixture.h"

namespace tally::control {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

class ServiceRepairsTest : public ServiceTest {
 protected:
  static constexpr rpc::ConnectionId kA = 1, kB = 2, kRanks = 10;

  // Forms the job over the nodes a and b. Both ranks wait for a message.
  void run_job(const json& next = {{"repairs", true}}) {
    numbers_[kA] = ask(kA, "cluster.join", node("a"))->result()["node"];
    numbers_[kB] = ask(kB, "cluster.join", node("b"))->result()["node"];
    std::vector<std::shared_ptr<Answer>> opened;
    for (std::uint32_t one : {0, 1}) opened.push_back(ask(kRanks + one, "job.open", rank(one)));
    for (const auto node : {kA, kB}) serve(node);
    for (std::uint32_t one : {0, 1}) {
      EXPECT_EQ(opened[one]->result()["repairs"], true);
      waits_[one] = ask(kRanks + one, "job.next", next);
    }
  }
  void serve(rpc::ConnectionId node) {
    json done = json::array();
    const json news = ask(node, "cluster.next", {{"wait_ms", 0}})->result();
    for (const json& one : news["placements"]) done.push_back({{"placement", one["placement"]}});
    ask(node, "cluster.report", {{"node", numbers_[node]}, {"done", done}});
  }
  // The message that the rank has got; it asks for the next one.
  json message(std::uint32_t rank) {
    EXPECT_TRUE(waits_[rank]->has_come());
    if (!waits_[rank]->has_come()) return {};
    const json result = waits_[rank]->result();
    waits_[rank] = ask(kRanks + rank, "job.next", {{"repairs", true}});
    return result;
  }
  // fields: as text, because numbers of C++ have a sign in JSON.
  std::string report(std::uint32_t rank, const json& epoch, const char* what,
                     const char* fields = "{}") {
    json params = json::parse(fields);
    params["epoch"] = epoch;
    params["said"] = what;
    return ask(kRanks + rank, "job.report", std::move(params))->error();
  }
  std::string lose(std::uint32_t rank, const json& epoch) {
    return report(rank, epoch, "lost", R"({"why": "gone"})");
  }

  std::map<rpc::ConnectionId, json> numbers_;  // of nodes
  std::map<std::uint32_t, std::shared_ptr<Answer>> waits_;
};

TEST_F(ServiceRepairsTest, RepairsAJobByItsRanksReports) {
  run_job();
  service_.closed(kB);
  EXPECT_EQ(ask(9, "cluster.jobs")->result()[0]["stage"], "repairing");
  serve(kA);
  const json prepare = message(0);
  EXPECT_EQ(prepare["change"], "prepare");
  EXPECT_EQ(prepare["repair"], true);
  EXPECT_EQ(prepare["nodes"].size(), 1U);
  EXPECT_EQ(message(1)["epoch"], prepare["epoch"]);
  const json epoch = prepare["epoch"];
  EXPECT_EQ(report(0, epoch, "ready", R"({"more": true, "rounds": [[7, 3]], "kept": [7]})"), "");
  EXPECT_EQ(report(0, epoch, "ready", R"({"rounds": [[8, 5]], "failed": [[8, 4, 1, 4]]})"), "");
  EXPECT_FALSE(waits_[0]->has_come());
  EXPECT_EQ(report(1, epoch, "ready", R"({"rounds": [[7, 2], [8, 4]]})"), "");
  const json decided = message(0);
  EXPECT_EQ(decided["change"], "decided");
  EXPECT_EQ(decided["first"], json::parse("[[7, 2], [8, 5]]"));
  EXPECT_EQ(decided["failed"], json::parse("[[8, 4, 1, 4]]"));
  EXPECT_EQ(message(1), decided);
  for (const std::uint32_t rank : {0, 1}) EXPECT_EQ(report(rank, epoch, "knows"), "");
  EXPECT_EQ(message(0)["change"], "go");
  EXPECT_EQ(message(1)["change"], "go");
  const json job = ask(9, "cluster.jobs")->result().back();
  EXPECT_EQ(job["stage"], "running");
  EXPECT_EQ(job["epoch"], epoch);
}

TEST_F(ServiceRepairsTest, ALossThatARankReportsBeginsARepair) {
  run_job();
  EXPECT_EQ(lose(0, 1), "");
  const json job = ask(9, "cluster.jobs")->result()[0];
  EXPECT_EQ(job["stage"], "repairing");
  EXPECT_EQ(job["trouble"], "rank 0: gone");
  EXPECT_EQ(job["waits_for"], "waits for \"a\", \"b\" to take its trees");
}

TEST_F(ServiceRepairsTest, ARankThatLeavesMeanwhileEndsTheJobForTheOthers) {
  for (const bool leaves : {true, false}) {
    run_job();
    const json epoch = ask(9, "cluster.jobs")->result().back()["epoch"];
    lose(0, epoch);
    if (leaves) {
      ask(kRanks + 1, "job.leave");
    } else {
      service_.closed(kRanks + 1);
    }
    const json ended = message(0);
    EXPECT_EQ(ended["change"], "ended");
    EXPECT_EQ(ended["epoch"], epoch);
    EXPECT_EQ(ended["culprit"], 1);
    EXPECT_EQ(ended["why"],
              leaves ? "rank 1 has left" : "rank 1 died or lost its connection to the coordinator");
    for (const auto connection : {kRanks, kRanks + 1, kA, kB}) service_.closed(connection);
  }
}

TEST_F(ServiceRepairsTest, ARankThatDoesNotNameRepairsIsNotRepaired) {
  run_job(json::object());
  lose(0, 1);
  const json ended = message(0);
  EXPECT_EQ(ended["change"], "ended");
  EXPECT_EQ(ended["why"], "gone; not repaired: ranks 0, 1 not there, or of an older release");
  EXPECT_FALSE(ended.contains("culprit"));
}

TEST_F(ServiceRepairsTest, AReportThatCannotBeReadCallsTheAttemptOff) {
  const std::vector<const char*> wrong = {
      R"({"failed": 1})",
      R"({"failed": [[7, 0, 0, 0]]})",  // it has not failed
      R"({"failed": [[7, 20, 0, 0]]})",
      R"({"failed": [[7, 4, 65536, 0]]})",
      R"({"failed": [[7, 4, 0, -1]]})",
      R"({"failed": [[7, 4, 0]]})",
      R"({"kept": ["x"]})",
      R"({"kept": [[7]]})",
      R"({"kept": [4294967296]})",
      R"({"rounds": [[7, 1, 1]]})",
  };
  for (const char* lists : wrong) {
    run_job();
    const json lost = ask(9, "cluster.jobs")->result().back()["epoch"];
    lose(0, lost);
    for (const auto node : {kA, kB}) serve(node);
    const json epoch = message(0)["epoch"];
    EXPECT_THAT(report(0, epoch, "ready", lists),
                HasSubstr("\"kept\" of tags, at most 131072 each"))
        << lists;
    EXPECT_EQ(message(0)["change"], "called off");
    for (const auto connection : {kRanks, kRanks + 1, kA, kB}) service_.closed(connection);
  }
}

TEST_F(ServiceRepairsTest, KeepsAtMostAsManyTagsAsARankMayHave) {
  run_job();
  lose(0, 1);
  for (const auto node : {kA, kB}) serve(node);
  const json epoch = message(0)["epoch"];
  std::uint32_t tag = 0;
  for (const std::uint32_t count : {1 << 16, 1 << 16, 1}) {
    json some = {{"more", true}, {"kept", json::array()}};
    for (std::uint32_t i = 0; i < count; ++i) some["kept"].push_back(tag++);
    const std::string error = report(0, epoch, "ready", some.dump().c_str());
    EXPECT_EQ(error.empty(), count > 1) << error;
  }
}

TEST_F(ServiceRepairsTest, RefusesUnknownReports) {
  run_job();
  EXPECT_THAT(report(0, 1, "tired"), HasSubstr("\"cannot\" or \"lost\""));
  const json long_why = {{"why", std::string(2000, 'w')}};
  EXPECT_THAT(report(0, 1, "lost", long_why.dump().c_str()), HasSubstr("at most 1024"));
  EXPECT_THAT(ask(kRanks, "job.next", {{"repairs", 1}})->error(), HasSubstr("repairs"));
  EXPECT_THAT(ask(9, "job.report", {{"epoch", 1}, {"said", "lost"}})->error(),
              HasSubstr("job.open first"));
}

}  // namespace
}  // namespace tally::control
