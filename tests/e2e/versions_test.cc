// A client and a node of different versions: what is new is offered and asked for by name, what
// both have goes on as before, and what only one has is refused in words.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "net/rpc/rpc_channel.h"
#include "tests/e2e/local_node.h"
#include "tests/e2e/ranks.h"

namespace tally::testing {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

// What the first version sends, and what it reads of the answer.
json first_hello() {
  return {{"version", 1}, {"job", "old"}, {"token", ""}, {"rank", 0}, {"ranks", 1}};
}

constexpr std::array kFirstAnswer = {"session",     "epoch",  "transport",  "weights",
                                     "split_bytes", "credit", "deadline_ms"};

Result<json> open(const LocalNode& node, const json& hello) {
  auto channel = rpc::RpcChannel::connect(node.address(), monotonic_now() + 5 * kSecond);
  if (!channel) return channel.error();
  return channel->call("session.open", hello, {}, monotonic_now() + 5 * kSecond);
}

TEST(Versions, AClientOfTheFirstOneIsAnsweredAsBefore) {
  LocalNode node({.shards = 6, .checksums = true});
  const auto answer = open(node, first_hello());
  ASSERT_TRUE(answer.ok()) << answer.error().message;
  for (const char* field : kFirstAnswer) EXPECT_TRUE(answer.value().contains(field)) << field;
  EXPECT_EQ(answer.value()["transport"], "shm");
  // It takes as many rings and doorbells as there are weights, whatever shards are behind them.
  EXPECT_EQ(answer.value()["weights"].size(), 4U);
  EXPECT_EQ(answer.value()["lanes"], 4U);
  EXPECT_EQ(answer.value()["plan"]["trees"], 4U) << "what later ones read says the same";
}

TEST(Versions, RefusesAClientOfALaterVersion) {
  LocalNode node;
  json hello = first_hello();
  hello["version"] = 2;
  const auto answer = open(node, hello);
  EXPECT_EQ(answer.status(), Status::kUnsupported);
  EXPECT_THAT(answer.error().message,
              HasSubstr("version 2 of the control protocol, this node version 1"));
}

// As the first version's nodes: one host, no checksums.
TEST(Versions, ANodeOfTheFirstOneServesAndIsNotAskedForMore) {
  if (LocalNode::over_network()) GTEST_SKIP() << "the first version had none";
  LocalNode node({.checksums = false});
  const auto opened = [&](const char* transport, tally_checksums checksums) -> std::string {
    tally_session_options options{};
    options.size = sizeof options;
    options.address = node.address().c_str();
    options.job = transport;
    options.ranks = 1;
    options.transport = transport;
    options.checksums = checksums;
    tally_session* session = nullptr;
    const bool fine = tally_open(&options, &session) == TALLY_OK;
    tally_close(session);
    return fine ? "" : tally_last_error(nullptr);
  };
  EXPECT_EQ(opened("shm", TALLY_CHECKSUMS_OFF), "");
  EXPECT_THAT(opened("shm", TALLY_CHECKSUMS_ON), HasSubstr("does not check checksums"));
  EXPECT_THAT(opened("fabric", TALLY_CHECKSUMS_OFF), HasSubstr("does not offer transport fabric"));
  EXPECT_THAT(opened("verbs", TALLY_CHECKSUMS_OFF), HasSubstr("does not offer transport verbs"));
}

// A node without a coordinator ends a job that loses a rank, as nodes of earlier versions do.
TEST(Versions, ANodeAloneDoesNotGoOnWithoutARank) {
  LocalNode node;
  tally_session_options options{};
  options.size = sizeof options;
  options.address = node.address().c_str();
  options.ranks = 2;
  options.on_rank_loss = TALLY_RANK_LOSS_FINISH;
  options.quorum = 2;
  tally_session* session = nullptr;
  EXPECT_EQ(tally_open(&options, &session), TALLY_UNSUPPORTED);
  EXPECT_THAT(tally_last_error(nullptr), HasSubstr("set on_rank_loss or TALLY_ON_RANK_LOSS to"));
  options.quorum = 3;
  EXPECT_EQ(tally_open(&options, &session), TALLY_INVALID_ARGUMENT);
  EXPECT_THAT(tally_last_error(nullptr), HasSubstr("quorum 3"));
}

TEST(Versions, ASuccessHasTheContributionsOfAllRanks) {
  LocalNode node;
  Rank rank(node.address(), 0, 1);
  tally_operation op{};
  op.size = sizeof op;
  op.kind = TALLY_BARRIER;
  const tally_completion completion = rank.run(op);
  EXPECT_EQ(completion.status, TALLY_OK);
  EXPECT_EQ(completion.contributors, 1U);
  EXPECT_STREQ(completion.message, "");
}

}  // namespace
}  // namespace tally::testing
