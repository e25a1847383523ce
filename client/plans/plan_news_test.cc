#include "client/plans/plan_news.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <atomic>

#include "tests/support/client/scripted_node.h"

namespace tally::client {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

class PlanNewsTest : public ::testing::Test {
 protected:
  static std::string path() { return "/tmp/tally-news-" + std::to_string(::getpid()); }
  PlanNews open(const ScriptedNode& node, bool repairs = false) {
    return PlanNews::open(
               rpc::RpcChannel::connect(node.address(), monotonic_now() + 5 * kSecond).value(),
               term_, repairs)
        .value();
  }
  // Until something has come.
  static Result<std::optional<PlanUpdate>> wait(PlanNews& news) {
    for (;;) {
      auto update = news.poll();
      if (!update || *update) return update;
      pollfd source{news.fd(), POLLIN, 0};
      if (::poll(&source, 1, 10'000) != 1) return Error{Status::kDeadline, "nothing comes"};
    }
  }

  rpc::HighestTerm term_;
};

TEST_F(PlanNewsTest, ReturnsUpdatesInTheirOrder) {
  std::atomic<int> asked{0};
  ScriptedNode node(path(), [&](const std::string& method, const json&) -> json {
    if (method != "job.next") return {{"result", json::object()}};
    switch (++asked) {
      case 1:
        return {{"result", {{"change", "prepare"}, {"epoch", 5}, {"nodes", json::array()}}}};
      case 2:
        return {
            {"result",
             {{"change", "decided"}, {"epoch", 5}, {"first", json::parse("[[7, 3], [9, 1]]")}}}};
      case 3:
        return {{"result", {{"change", "called off"}, {"epoch", 5}, {"why", "no room"}}}};
      default:
        return {};
    }
  });
  PlanNews news = open(node);
  auto update = wait(news);
  ASSERT_TRUE(update.ok());
  EXPECT_EQ((*update)->kind, PlanUpdate::Kind::kPrepare);
  EXPECT_EQ((*update)->epoch, 5U);
  EXPECT_TRUE((*update)->version.contains("nodes"));
  EXPECT_TRUE(news.report_ready(5, {{7, {3, {}, false}}}, false)
                  .ok());  // its answer is none to the question
  update = wait(news);
  ASSERT_TRUE(update.ok());
  EXPECT_EQ((*update)->kind, PlanUpdate::Kind::kDecided);
  EXPECT_EQ((*update)->rounds.first.at(7), 3U);
  update = wait(news);
  ASSERT_TRUE(update.ok());
  EXPECT_EQ((*update)->why, "no room");
  EXPECT_FALSE(news.poll()->has_value()) << "it is held";
}

TEST_F(PlanNewsTest, ManyTagsComeInPieces) {
  ScriptedNode node(path(), [](const auto&, const auto&) { return json(); });
  PlanNews news = open(node);
  RoundsByTag rounds;
  for (std::uint32_t tag = 0; tag < 5000; ++tag) rounds[UINT32_MAX - tag].next = UINT32_MAX;
  ASSERT_TRUE(news.report_ready(5, rounds, false).ok());
  std::size_t reported = 0, pieces = 0;
  for (const Nanos until = monotonic_now() + 20 * kSecond;
       reported < rounds.size() && monotonic_now() < until; ::usleep(1000)) {
    reported = pieces = 0;
    for (const auto& [method, params] : node.requests()) {
      if (method != "job.report") continue;
      ++pieces;
      reported += params.at("rounds").size();
      EXPECT_EQ(params.value("more", false), reported < rounds.size());
    }
  }
  EXPECT_EQ(reported, 5000U);
  EXPECT_EQ(pieces, 7U);
}

TEST_F(PlanNewsTest, AnElectedCoordinatorAnswersWithoutAMessageToo) {
  std::atomic<int> asked{0};
  ScriptedNode node(path(), [&](const std::string&, const json& params) -> json {
    EXPECT_EQ(params.value("wait_ms", 0), 1000);
    if (++asked < 3) return {{"result", {{"term", 9}}}};
    return {{"result", {{"change", "go"}, {"epoch", 5}, {"term", 9}}}};
  });
  ASSERT_TRUE(term_.accept({{"term", 9U}}).ok());
  PlanNews news = open(node);
  EXPECT_GT(news.silent_at(), monotonic_now());
  const auto update = wait(news);
  ASSERT_TRUE(update.ok());
  EXPECT_EQ((*update)->epoch, 5U);
}

TEST_F(PlanNewsTest, AnotherCoordinatorMayBeSilent) {
  ScriptedNode node(path(), [](const std::string&, const json& params) -> json {
    EXPECT_FALSE(params.contains("wait_ms")) << "an older one does not know it";
    return nullptr;
  });
  EXPECT_EQ(open(node).silent_at(), kForever);
}

// A coordinator that was stopped goes on, and the rank reaches it again.
TEST_F(PlanNewsTest, AnotherConnectionKeepsTheHighestTerm) {
  std::atomic<int> asked{0};
  ScriptedNode node(path(), [&](const std::string&, const json&) -> json {
    const int term = ++asked <= 2 ? 9 : 8;
    return {{"result", {{"change", "go"}, {"epoch", 5}, {"term", term}}}};
  });
  PlanNews first = open(node);
  EXPECT_TRUE(wait(first).ok());
  PlanNews second = open(node);
  auto update = wait(second);
  while (update) update = wait(second);
  EXPECT_EQ(update.status(), Status::kUnavailable);
  EXPECT_THAT(update.error().message, HasSubstr("term 8 has ended"));
}

TEST_F(PlanNewsTest, ARepairHasMoreToReport) {
  ScriptedNode node(path(), [](const std::string& method, const json& params) -> json {
    if (method != "job.next") return {{"result", json::object()}};
    EXPECT_TRUE(params.value("repairs", false));
    return {{"result",
             {{"change", "ended"}, {"epoch", 5}, {"why", "rank 1 has left"}, {"culprit", 1}}}};
  });
  PlanNews news = open(node, true);
  const auto update = wait(news);
  ASSERT_TRUE(update.ok());
  EXPECT_EQ((*update)->kind, PlanUpdate::Kind::kEnded);
  EXPECT_EQ((*update)->why, "rank 1 has left");
  EXPECT_EQ((*update)->culprit, 1);
  ASSERT_TRUE(news.report_loss(5, {"gone"}).ok());
  ASSERT_TRUE(news.report_loss(5, {"both", 1, 2}).ok());
  const RoundsByTag rounds = {{7, {3, RoundFailure{Status::kDeadline, 2, 1}, false}},
                              {9, {1, {}, true}}};
  ASSERT_TRUE(news.report_ready(6, rounds, true).ok());
  const json expected = json::parse(R"({"epoch": 6, "said": "ready", "rounds": [[7, 3], [9, 1]],
                                        "failed": [[7, 4, 2, 1]], "kept": [9]})");
  const json plain = json::parse(R"({"epoch": 5, "said": "lost", "why": "gone"})");
  const json both =
      json::parse(R"({"epoch": 5, "said": "lost", "why": "both", "lost_rank": 1, "late_rank": 2})");
  bool lost = false, named = false, ready = false;
  for (const Nanos until = monotonic_now() + 20 * kSecond;
       !(lost && named && ready) && monotonic_now() < until; ::usleep(1000)) {
    for (const auto& [method, params] : node.requests()) {
      lost |= method == "job.report" && params == plain;
      named |= method == "job.report" && params == both;
      ready |= params == expected;
    }
  }
  EXPECT_TRUE(lost);
  EXPECT_TRUE(named);
  EXPECT_TRUE(ready);
}

TEST_F(PlanNewsTest, AnOlderCoordinatorAndNonsenseEndIt) {
  for (const char* answer :
       {R"({"error": {"code": -32601, "message": "no such method"}})",
        R"({"result": {"change": "something else", "epoch": 5}})",
        R"({"result": {"change": "go"}})",
        R"({"result": {"change": "decided", "epoch": 5, "first": [[7]]}})",
        R"({"result": {"change": "decided", "epoch": 5, "failed": [[7, 0, 1, 2]]}})",
        R"({"result": {"change": "decided", "epoch": 5, "failed": [[7, 99, 1, 2]]}})",
        R"({"result": 3})"}) {
    ScriptedNode node(path(), [&](const auto&, const auto&) { return json::parse(answer); });
    PlanNews news = open(node);
    const auto update = wait(news);
    ASSERT_FALSE(update.ok()) << answer;
    const bool unsupported = update.status() == Status::kUnsupported;
    EXPECT_EQ(unsupported, std::string(answer).find("method") != std::string::npos);
  }
}

}  // namespace
}  // namespace tally::client
