#include "client/plan_news.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <atomic>

#include "client/scripted_node.h"

namespace tally::client {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

class PlanNewsTest : public ::testing::Test {
 protected:
  static std::string path() { return "/tmp/tally-news-" + std::to_string(::getpid()); }
  static PlanNews open(const ScriptedNode& node) {
    return PlanNews::open(
               RpcChannel::connect(node.address(), monotonic_now() + 5 * kSecond).value())
        .value();
  }
  // Until something has come.
  static Result<std::optional<PlanWord>> wait(PlanNews& news) {
    for (;;) {
      auto heard = news.hear();
      if (!heard || *heard) return heard;
      pollfd source{news.fd(), POLLIN, 0};
      if (::poll(&source, 1, 10'000) != 1) return Error{Status::kDeadline, "nothing comes"};
    }
  }
};

TEST_F(PlanNewsTest, HearsOneWordAfterTheOther) {
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
  auto word = wait(news);
  ASSERT_TRUE(word.ok());
  EXPECT_EQ((*word)->kind, PlanWord::Kind::kPrepare);
  EXPECT_EQ((*word)->epoch, 5U);
  EXPECT_TRUE((*word)->version.contains("nodes"));
  EXPECT_TRUE(news.say_ready(5, {{7, 3}}).ok());  // its answer is none to the question
  word = wait(news);
  ASSERT_TRUE(word.ok());
  EXPECT_EQ((*word)->kind, PlanWord::Kind::kDecided);
  EXPECT_EQ((*word)->first.at(7), 3U);
  word = wait(news);
  ASSERT_TRUE(word.ok());
  EXPECT_EQ((*word)->why, "no room");
  EXPECT_FALSE(news.hear()->has_value()) << "it is held";
}

TEST_F(PlanNewsTest, ManyTagsComeInPieces) {
  ScriptedNode node(path(), [](const auto&, const auto&) { return json(); });
  PlanNews news = open(node);
  std::map<std::uint32_t, std::uint32_t> rounds;
  for (std::uint32_t tag = 0; tag < 5000; ++tag) rounds[UINT32_MAX - tag] = UINT32_MAX;
  ASSERT_TRUE(news.say_ready(5, rounds).ok());
  std::size_t said = 0, pieces = 0;
  for (const Nanos until = monotonic_now() + 20 * kSecond;
       said < rounds.size() && monotonic_now() < until; ::usleep(1000)) {
    said = pieces = 0;
    for (const auto& [method, params] : node.requests()) {
      if (method != "job.report") continue;
      ++pieces;
      said += params.at("rounds").size();
      EXPECT_EQ(params.value("more", false), said < rounds.size());
    }
  }
  EXPECT_EQ(said, 5000U);
  EXPECT_EQ(pieces, 3U);
}

TEST_F(PlanNewsTest, AnOlderCoordinatorAndNonsenseEndIt) {
  for (const char* answer :
       {R"({"error": {"code": -32601, "message": "no such method"}})",
        R"({"result": {"change": "something else", "epoch": 5}})",
        R"({"result": {"change": "go"}})",
        R"({"result": {"change": "decided", "epoch": 5, "first": [[7]]}})", R"({"result": 3})"}) {
    ScriptedNode node(path(), [&](const auto&, const auto&) { return json::parse(answer); });
    PlanNews news = open(node);
    const auto heard = wait(news);
    ASSERT_FALSE(heard.ok()) << answer;
    const bool unsupported = heard.status() == Status::kUnsupported;
    EXPECT_EQ(unsupported, std::string(answer).find("method") != std::string::npos);
  }
}

}  // namespace
}  // namespace tally::client
