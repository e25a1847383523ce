// Client, election and leadership against a fake etcd, with what is known to go wrong with a real
// one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "control/coordinator/store/etcd/client.h"
#include "control/coordinator/store/etcd/election.h"
#include "control/coordinator/store/leadership.h"
#include "tests/support/control/coordinator_fixture.h"
#include "tests/support/control/etcd_fixture.h"

namespace tally::control {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

// -- The client --------------------------------------------------------------------------------

TEST_F(EtcdTest, ACallGoesToTheNextEndpointWhenOneIsGone) {
  auto gone = std::make_unique<FakeEtcd>(etcd_state_);
  const auto there = client({gone->endpoint(), etcd_.endpoint()});
  gone.reset();
  EXPECT_TRUE(get(*there).ok());
  const auto before = etcd_.requests();
  EXPECT_TRUE(get(*there).ok());
  EXPECT_EQ(etcd_.requests(), before + 1);
}

TEST_F(EtcdTest, ACallIsRepeatedWhileEtcdElectsALeader) {
  const auto there = client();
  fail("kv/range", 3, answers(503, 14, "etcdserver: leader changed"));
  EXPECT_TRUE(get(*there).ok());
  EXPECT_EQ(etcd_.requests(), 4U);
}

TEST_F(EtcdTest, ACallEndsAtItsDeadlineWithTheReason) {
  const auto there = client();
  fail("kv/range", -1, answers(503, 14, "etcdserver: no leader"));
  const auto answer = get(*there, 200 * kMillisecond);
  EXPECT_EQ(answer.status(), Status::kUnavailable);
  EXPECT_THAT(answer.error().message, HasSubstr("no leader"));
}

TEST_F(EtcdTest, ARefusalIsNotRepeated) {
  const auto there = client();
  fail("kv/range", -1, answers(403, 7, "etcdserver: permission denied"));
  const auto answer = get(*there);
  EXPECT_EQ(answer.status(), Status::kRefused);
  EXPECT_THAT(answer.error().message, HasSubstr("permission denied"));
  EXPECT_EQ(etcd_.requests(), 1U);
}

TEST_F(EtcdTest, AnotherServerIsNamed) {
  const auto there = client();
  fail("kv/range", -1, {{200, "<html>welcome</html>"}});
  EXPECT_THAT(get(*there).error().message, HasSubstr("is it etcd's address?"));
}

TEST_F(EtcdTest, ATokenIsRenewedWhenAMemberHasForgottenIt) {
  etcd_state_->user = "tally";
  etcd_state_->password = password_ = "p";
  const auto there = client();
  EXPECT_TRUE(get(*there).ok());
  EXPECT_TRUE(get(*there).ok());
  EXPECT_EQ(etcd_state_->tokens, 1);
  etcd_state_->token_is_valid = false;
  EXPECT_TRUE(get(*there).ok());
  EXPECT_EQ(etcd_state_->tokens, 2);
}

TEST_F(EtcdTest, AWrongPasswordIsRefused) {
  etcd_state_->user = "tally";
  etcd_state_->password = "p";
  password_ = "q";
  const auto there = client();
  const auto answer = get(*there);
  EXPECT_EQ(answer.status(), Status::kRefused);
  EXPECT_THAT(answer.error().message, HasSubstr("invalid user ID or password"));
}

TEST_F(EtcdTest, CallsEndWithTheirClient) {
  auto there = client();
  bool called = false;
  fail("kv/range", -1, answers(503, 14, "etcdserver: no leader"));
  there->call("kv/range", {{"key", "aw=="}}, monotonic_now() + kDeadline,
              [&](const auto&) { called = true; });
  ASSERT_TRUE(run_until([&] { return etcd_.requests() > 1; }));
  there.reset();
  io_.restart();
  io_.run_for(std::chrono::milliseconds(100));
  EXPECT_FALSE(called);
}

// etcd compares with 0 when a condition's field does not belong to its target. So the double must
// do so too, to show that created_at() does not.
TEST_F(EtcdTest, AConditionWithAForeignFieldComparesWithZero) {
  const auto there = client();
  const json put = {{"success", json::array({etcd::put_operation("k", "v")})}};
  ASSERT_TRUE(call(*there, "kv/txn", put).ok());
  json condition = etcd::created_at("k", etcd_state_->values.at("k").created);
  const auto holds = [&] {
    return etcd::parse_transaction(*call(*there, "kv/txn", {{"compare", json::array({condition})}}))
        ->succeeded;
  };
  EXPECT_TRUE(holds());
  condition["version"] = condition["create_revision"];
  condition.erase("create_revision");
  EXPECT_FALSE(holds());
}

// -- The election ------------------------------------------------------------------------------

struct Candidate {
  Candidate(asio::io_context& io, etcd::Client& client)
      : election(io, client, {.key = "e", .name = "n", .patience = 30 * kSecond},
                 {.won = [this](etcd::Revision won) { term = won; },
                  .lost = [this](const Error& error) { term = 0, why = error.message; },
                  .other = [this](etcd::Revision seen) { other = seen; },
                  .no_answer = [this](const Error& error) { why = error.message; }}) {}
  etcd::Revision term = 0, other = 0;
  std::string why;
  etcd::Election election;
};

TEST_F(EtcdTest, OneCandidateWinsAndTheNextHasAHigherTerm) {
  const auto there = client();
  Candidate a(io_, *there);
  ASSERT_TRUE(run_until([&] { return a.term != 0; }));
  Candidate b(io_, *there);
  ASSERT_TRUE(run_until([&] { return b.other != 0; }));
  EXPECT_EQ(b.other, a.term);
  EXPECT_EQ(b.term, 0U);
  const etcd::Revision first = a.term;
  a.election.stop();
  ASSERT_TRUE(run_until([&] { return b.term != 0; }));
  EXPECT_GT(b.term, first);
}

TEST_F(EtcdTest, ATermEndsWithItsLease) {
  const auto there = client();
  Candidate a(io_, *there);
  ASSERT_TRUE(run_until([&] { return a.term != 0; }));
  etcd_.end_leases();
  ASSERT_TRUE(run_until([&] { return !a.why.empty(); }));
  EXPECT_THAT(a.why, HasSubstr("lease of this node's term has ended"));
  ASSERT_TRUE(run_until([&] { return a.term != 0; })) << "it takes part again";
}

TEST_F(EtcdTest, ATermOutlastsAChangeOfEtcdsLeader) {
  const auto there = client();
  Candidate a(io_, *there);
  ASSERT_TRUE(run_until([&] { return a.term != 0; }));
  const etcd::Revision term = a.term;
  std::atomic<int> failures{0}, kept{0};
  etcd_.set_faults([&](const std::string& name, const json&) -> std::optional<FakeEtcd::Fault> {
    if (name != "lease/keepalive") return std::nullopt;
    if (failures == 5) return ++kept, std::nullopt;
    ++failures;
    return failures % 2 == 0 ? answers(503, 14, "etcdserver: leader changed")
                             : answers(503, 14, "etcdserver: no leader");
  });
  ASSERT_TRUE(run_until([&] { return kept >= 2; }));
  EXPECT_EQ(a.term, term);
  EXPECT_EQ(a.why, "");
  etcd_.set_faults({});
}

TEST_F(EtcdTest, ALostAnswerDoesNotLoseTheTerm) {
  const auto there = client();
  fail("kv/txn", 1, {{.silent = true}, true});
  Candidate a(io_, *there);
  ASSERT_TRUE(run_until([&] { return a.term != 0; }));
  EXPECT_EQ(a.term, static_cast<etcd::Revision>(etcd_state_->values.at("e").created));
  a.election.stop();
  fail("lease/grant", 1, {{.silent = true}, true});
  Candidate b(io_, *there);
  EXPECT_TRUE(run_until([&] { return b.term != 0; }));
}

// -- Leadership --------------------------------------------------------------------------------

struct Leader {
  Leader(asio::io_context& io, const std::string& endpoint) {
    auto started = Leadership::start(io, {{.endpoints = {endpoint}}, "t/", "n"},
                                     {.begin =
                                          [this](Store& its, std::uint64_t number) {
                                            store = &its;
                                            term = number;
                                          },
                                      .end = [this](const Error&) { store = nullptr; },
                                      .other = [this](std::uint64_t number) { other = number; }});
    leadership = std::move(started).value();
  }
  Store* store = nullptr;
  std::uint64_t term = 0, other = 0;
  std::unique_ptr<Leadership> leadership;
};

TEST_F(EtcdTest, OneNodeActsAndTheNextTakesOver) {
  Leader a(io_, etcd_.endpoint());
  ASSERT_TRUE(run_until([&] { return a.store != nullptr; }));
  Leader b(io_, etcd_.endpoint());
  ASSERT_TRUE(run_until([&] { return b.other == a.term; }));
  a.store->put(a.store->next_node(), member("kept"));
  bool settled = false;
  a.store->when_settled([&](const Outcome& outcome) { settled = outcome.ok(); });
  ASSERT_TRUE(run_until([&] { return settled; }));
  a.leadership->stop();
  EXPECT_EQ(a.store, nullptr);
  ASSERT_TRUE(run_until([&] { return b.store != nullptr; }));
  EXPECT_GT(b.term, a.term);
  EXPECT_EQ(b.store->members().at(1).name, "kept");
}

TEST_F(EtcdTest, ANodeThatCannotReadTheLastNumbersDoesNotAct) {
  const auto there = client();
  const auto put_epoch = [&](const char* value) {
    const json writes = json::array({etcd::put_operation("t/state/last/epoch", value)});
    ASSERT_TRUE(call(*there, "kv/txn", {{"success", writes}}).ok());
  };
  put_epoch("vseven");
  Leader a(io_, etcd_.endpoint());
  std::atomic<bool> resigns{false};
  etcd_.set_faults([&](const std::string& name, const json&) -> std::optional<FakeEtcd::Fault> {
    if (name == "lease/revoke") resigns = true;
    return std::nullopt;
  });
  ASSERT_TRUE(run_until([&] { return a.store != nullptr || resigns; }));
  EXPECT_EQ(a.store, nullptr) << "another node may be able to read it";
  etcd_.set_faults({});
  put_epoch("v7");
  ASSERT_TRUE(run_until([&] { return a.store != nullptr; }));
  EXPECT_EQ(a.store->next_epoch(), 8U);
}

TEST_F(EtcdTest, AnswersThatWaitEndWithTheirTerm) {
  Leader a(io_, etcd_.endpoint());
  ASSERT_TRUE(run_until([&] { return a.store != nullptr; }));
  fail("kv/txn", -1, answers(503, 14, "etcdserver: no leader"));
  std::string outcome;
  a.store->when_settled(
      [&](const Outcome& settled) { outcome = settled ? "settled" : settled.error().message; });
  etcd_.end_leases();
  ASSERT_TRUE(run_until([&] { return a.store == nullptr; }));
  EXPECT_THAT(outcome, HasSubstr("has ended"));
  etcd_.set_faults({});
  EXPECT_TRUE(run_until([&] { return a.store != nullptr; }));
}

}  // namespace
}  // namespace tally::control
