// The coordinator's methods at a node that acts only during its terms.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

#include "tests/support/control/service_fixture.h"

namespace tally::control {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class TermsTest : public ServiceTest {
 protected:
  std::shared_ptr<Answer> call(rpc::ConnectionId connection, const char* method,
                               json params = json::object()) {
    auto answer = std::make_shared<Answer>();
    elected_.handle(connection, {method, std::move(params), {}}, {answer, 1, true});
    return answer;
  }

  HeldStore idle_, first_, second_;
  CoordinatorService elected_{
      {.coordinators = "tcp:h:1",
       .is_elected = true,
       .peer_of = [](auto) { return tally::testing::operator_peer(); },
       .access = &access_},
      idle_,
      io_,
      [this](rpc::ConnectionId connection, auto) { ended_.push_back(connection); }};
};

TEST_F(TermsTest, ActsOnlyDuringATermAndSendsItsNumber) {
  EXPECT_THAT(call(1, "cluster.join", node("a"))->error(), HasSubstr("not the coordinator now"));
  EXPECT_EQ(call(1, "cluster.coordinator")->result()["term"], 0);
  EXPECT_EQ(call(1, "cluster.coordinator")->result()["elected"], true);
  elected_.begin_term(first_, 7);
  EXPECT_EQ(call(1, "cluster.coordinator")->result()["term"], 7);
  EXPECT_EQ(call(1, "cluster.join", node("a"))->result()["term"], 7);
  const auto opens = call(2, "job.open", changed(rank(0), "ranks", 1));
  const auto news = call(1, "cluster.next");
  ASSERT_EQ(news->result()["placements"].size(), 1U);
  EXPECT_EQ(news->result()["term"], 7);
  const json placement = news->result()["placements"][0]["placement"];
  const json done = {{"done", json::array({{{"placement", placement}}})}};
  call(1, "cluster.next", done);
  EXPECT_EQ(opens->result()["term"], 7);
}

TEST_F(TermsTest, TheEndOfATermEndsTheConnectionsOfNodesAndRanks) {
  elected_.begin_term(first_, 7);
  call(1, "cluster.join", node("a"));
  const auto opens = call(2, "job.open", rank(0));
  elected_.end_term("another node acts");
  EXPECT_THAT(ended_, ::testing::UnorderedElementsAre(1, 2));
  EXPECT_THAT(call(3, "cluster.join", node("a"))->error(), HasSubstr("not the coordinator now"));
  elected_.closed(1);
  elected_.closed(2);
  elected_.begin_term(second_, 9);
  EXPECT_EQ(call(4, "cluster.join", node("a"))->result()["term"], 9);
}

TEST_F(TermsTest, ANodeJoinsAgainAlthoughItsOldConnectionSeemsToLast) {
  elected_.begin_term(first_, 7);
  const json number = call(1, "cluster.join", node("a"))->result()["node"];
  EXPECT_THAT(call(2, "cluster.join", node("a"))->error(), HasSubstr("is a member already"));
  const auto again = call(2, "cluster.join", changed(node("a"), "was", number));
  EXPECT_EQ(again->result()["node"], number);
  EXPECT_THAT(ended_, ElementsAre(1));
  elected_.closed(1);
  EXPECT_EQ(first_.members().size(), 1U);
}

TEST_F(TermsTest, ARankResumesItsJob) {
  const json resuming = changed(rank(0), "epochs", json::array({1U, 2U}));
  EXPECT_THAT(call(1, "job.resume", resuming)->error(), HasSubstr("no node has joined here"));
  elected_.begin_term(first_, 7);
  call(1, "cluster.join", node("a"));
  EXPECT_THAT(call(2, "job.resume", resuming)->error(),
              HasSubstr("the version that rank 0 has is over"));
  const auto opens = call(2, "job.open", changed(rank(0), "ranks", 1));
  const json placement = call(1, "cluster.next")->result()["placements"][0]["placement"];
  call(1, "cluster.next", {{"done", json::array({{{"placement", placement}}})}});
  ASSERT_EQ(opens->result()["epoch"], 1);
  elected_.end_term("another node acts");
  elected_.begin_term(first_, 8);
  const json join = changed(node("a"), "placements", json::array({placement}));
  call(3, "cluster.join", changed(join, "was", 1));
  const auto resumed = call(4, "job.resume", changed(resuming, "ranks", 1));
  EXPECT_EQ(resumed->result()["epoch"], 1);
  EXPECT_EQ(resumed->result()["term"], 8);
  EXPECT_FALSE(call(4, "job.next", {{"repairs", true}})->has_come()) << "it waits for news";
  EXPECT_THAT(call(5, "job.resume", changed(resuming, "ranks", 1))->error(),
              HasSubstr("has an earlier connection here"));
  for (const json& wrong : {json(), json(1), json::array(), json::array({-1}), json::array({"x"}),
                            json::array({1U, 2U, 3U, 4U, 5U})}) {
    EXPECT_THAT(call(6, "job.resume", changed(resuming, "epochs", wrong))->error(),
                HasSubstr("is a list of 1 to 4 versions"));
  }
}

TEST_F(TermsTest, ARequestForNewsWithALimitIsAnsweredWithoutNews) {
  elected_.begin_term(first_, 7);
  call(1, "cluster.join", node("a"));
  const auto opens = call(2, "job.open", changed(rank(0), "ranks", 1));
  const json placement = call(1, "cluster.next")->result()["placements"][0]["placement"];
  call(1, "cluster.next", {{"done", json::array({{{"placement", placement}}})}});
  ASSERT_TRUE(opens->has_come());
  const auto waits = call(2, "job.next", {{"wait_ms", 20U}});
  EXPECT_FALSE(waits->has_come());
  run_for(std::chrono::milliseconds(100));
  EXPECT_EQ(waits->result(), (json{{"term", 7}})) << "the coordinator still acts";
  const auto again = call(2, "job.next", {{"wait_ms", 10'000U}});
  run_for(std::chrono::milliseconds(50));
  EXPECT_FALSE(again->has_come()) << "each request has its own limit";
  EXPECT_THAT(call(2, "job.next", {{"wait_ms", 10'001U}})->error(), HasSubstr("wait_ms"));
}

TEST_F(TermsTest, TakesAndShowsNoPlanWithoutATerm) {
  for (const char* method : {"plan.set", "plan.show"}) {
    EXPECT_THAT(call(1, method)->error(), HasSubstr("not the coordinator now")) << method;
  }
  EXPECT_TRUE(idle_.plans().empty());
}

TEST_F(TermsTest, RefusesUnreadablePlacements) {
  elected_.begin_term(first_, 7);
  for (const json& wrong : {json(3), json::array({"x"}), json::array({-1})}) {
    EXPECT_THAT(call(1, "cluster.join", changed(node("a"), "placements", wrong))->error(),
                HasSubstr("\"placements\" is a list"));
  }
}

}  // namespace
}  // namespace tally::control
