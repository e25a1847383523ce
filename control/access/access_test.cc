#include "control/access/access.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "control/access/job_lock.h"
#include "tests/support/control/peers.h"

namespace tally::control {
namespace {

using net::auth::Proof;
using net::auth::Secret;
using tally::testing::local_peer;
using tally::testing::operator_peer;
using tally::testing::remote_peer;
using ::testing::HasSubstr;

const std::vector<std::string> kForOperators = {"cluster.join",  "cluster.next", "cluster.report",
                                                "cluster.drain", "plan.set",     "probe.machine",
                                                "probe.serve",   "probe.run",    "token.revoke"};
const std::vector<std::string> kForAll = {
    "node.status",  "node.jobs",           "node.stats",       "node.metrics",  "node.trace",
    "node.dump",    "node.trace_take",     "job.open",         "job.next",      "job.report",
    "job.leave",    "cluster.coordinator", "cluster.nodes",    "cluster.jobs",  "plan.show",
    "session.open", "session.attach",      "session.prove",    "session.close", "session.empty",
    "region.check", "region.register",     "region.deregister"};

TEST(Access, OperatorsMayCallEverything) {
  const Access access;
  for (const auto& peer : {operator_peer(), remote_peer(Proof::Kind::kSecret)}) {
    for (const auto& method : kForOperators) EXPECT_TRUE(access.may_call(peer, method)) << method;
    for (const auto& method : kForAll) EXPECT_TRUE(access.may_call(peer, method)) << method;
  }
}

TEST(Access, OthersMayNotDoWhatOperatorsDo) {
  const Access access;
  for (const auto& peer : {local_peer(1000), remote_peer(),
                           remote_peer(Proof::Kind::kToken, {.id = "t", .job = "bert"}),
                           remote_peer(Proof::Kind::kInstance, {.id = "j.x", .job = {}})}) {
    for (const auto& method : kForOperators) {
      const auto may = access.may_call(peer, method);
      ASSERT_FALSE(may) << method << " by " << peer.name;
      EXPECT_EQ(may.status(), Status::kRefused);
      EXPECT_THAT(may.error().message, HasSubstr(method + " is for operators"));
    }
    for (const auto& method : kForAll) EXPECT_TRUE(access.may_call(peer, method)) << method;
  }
}

TEST(Access, InsecureMakesAllPeersOverTcpOperators) {
  const Access access(true);
  EXPECT_TRUE(access.may_call(remote_peer(), "plan.set"));
  EXPECT_FALSE(access.may_call(local_peer(1000), "plan.set"));
}

TEST(Access, ARevokedOrExpiredTokenMayCallNothingMore) {
  Access access;
  const auto peer = remote_peer(Proof::Kind::kToken, {.id = "0123456789abcdef", .job = "bert"});
  EXPECT_TRUE(access.may_call(peer, "node.status"));
  ASSERT_TRUE(access.revoke("0123456789abcdef"));
  EXPECT_THAT(access.may_call(peer, "node.status").error().message,
              HasSubstr("token 0123456789abcdef is revoked"));
  for (const char* method : {"session.close", "region.register", "job.next", "job.leave"}) {
    EXPECT_TRUE(access.may_call(peer, method)) << "what it has begun goes on: " << method;
  }
  const auto late =
      remote_peer(Proof::Kind::kToken, {.id = "76543210fedcba98", .job = "bert", .expires = 1});
  EXPECT_THAT(access.may_call(late, "job.open").error().message, HasSubstr("has expired"));
}

TEST(Access, KeepsRevokedTokensInAFile) {
  std::string folder = std::filesystem::temp_directory_path() / "tally-access-XXXXXX";
  ASSERT_NE(::mkdtemp(folder.data()), nullptr);
  const std::string path = folder + "/revoked";
  Access first(false, path);
  ASSERT_TRUE(first.read_revoked()) << "a missing file is an empty one";
  ASSERT_TRUE(first.revoke("0123456789abcdef"));
  ASSERT_TRUE(first.revoke("0123456789abcdef"));
  Access next(false, path);
  ASSERT_TRUE(next.read_revoked());
  EXPECT_TRUE(next.keys().is_revoked("0123456789abcdef"));
  EXPECT_EQ(next.keys().revoked().size(), 1U);
  std::filesystem::remove_all(folder);
  EXPECT_THAT(next.revoke("76543210fedcba98").error().message, HasSubstr(path));
  EXPECT_TRUE(next.keys().is_revoked("76543210fedcba98")) << "until the node ends";
  EXPECT_FALSE(next.revoke("no\nid"));
}

class CallerTest : public ::testing::Test {
 protected:
  CallerTest() { EXPECT_TRUE(access.keys().add_secret(secret)); }
  std::string token(const std::string& job, std::int64_t expires = 0) {
    return *secret.make_token({.id = {}, .job = job, .expires = expires});
  }

  Secret secret = Secret::generate();
  Access access;
};

TEST_F(CallerTest, IsKnownByItsUserOrItsProof) {
  EXPECT_THAT(access.caller(local_peer(1000)).user, ::testing::StartsWith("uid 1000@"))
      << "of this host";
  EXPECT_FALSE(access.caller(local_peer(1000)).is_operator);
  EXPECT_TRUE(access.caller(operator_peer()).is_operator);
  EXPECT_EQ(access.caller(remote_peer()).user, "");
  EXPECT_TRUE(access.caller(remote_peer(Proof::Kind::kSecret)).is_operator);
}

TEST_F(CallerTest, ARequestsTokenProvesItsRights) {
  const auto caller = access.caller(local_peer(1000), token("bert"));
  ASSERT_TRUE(caller);
  EXPECT_TRUE(caller->proof->covers("bert"));
  EXPECT_EQ(caller->text, "");
}

TEST_F(CallerTest, ARequestsOwnTextIsKept) {
  const auto caller = access.caller(local_peer(1000), "hunter2");
  ASSERT_TRUE(caller);
  EXPECT_FALSE(caller->proof);
  EXPECT_EQ(caller->text, "hunter2");
}

TEST_F(CallerTest, RefusesTokensThatAreNotAccepted) {
  EXPECT_FALSE(access.caller(local_peer(1000), token("bert", 1)));
  EXPECT_FALSE(
      access.caller(local_peer(1000), *Secret::generate().make_token({.id = {}, .job = "bert"})));
  const std::string revoked = token("bert");
  ASSERT_TRUE(access.revoke(net::auth::rights_of(secret, revoked)->id));
  EXPECT_THAT(access.caller(local_peer(1000), revoked).error().message, HasSubstr("is revoked"));
}

TEST_F(CallerTest, ASourceThatGuessesMustWait) {
  for (int i = 0; i <= rpc::WrongKeys::kFree; ++i)
    access.audit(local_peer(1000), "session.open", refused("wrong token"));
  EXPECT_EQ(access.caller(local_peer(1000), "guess").status(), Status::kAgain);
  EXPECT_TRUE(access.caller(local_peer(1001), "hunter2")) << "another user";
}

// -- Locks -----------------------------------------------------------------------------------

Caller user(const char* name, const char* text = "") {
  return {.is_operator = false, .user = name, .proof = {}, .text = text};
}
Caller holder(Proof::Kind kind, const std::string& job = {},
              const std::string& id = "0123456789abcdef") {
  return {.is_operator = kind == Proof::Kind::kSecret,
          .user = {},
          .proof = Proof{.kind = kind, .jobs = {}, .rights = {.id = id, .job = job}},
          .text = {}};
}
Caller root() {
  return {.is_operator = true, .user = "uid 0", .proof = {}, .text = {}};
}

TEST(JobLock, AJobBelongsToTheUserThatFormsIt) {
  const auto lock = make_lock(user("uid 1000"), "bert", nullptr);
  ASSERT_TRUE(lock);
  EXPECT_TRUE(may_enter(user("uid 1000"), "bert", *lock));
  const auto other = may_enter(user("uid 1001"), "bert", *lock);
  ASSERT_FALSE(other);
  EXPECT_THAT(other.error().message, HasSubstr("belongs to uid 1000"));
  EXPECT_FALSE(may_enter(user(""), "bert", *lock)) << "over TCP";
  EXPECT_FALSE(may_enter(user("uid 1001", "guess"), "bert", *lock));
}

TEST(JobLock, ATextLetsOtherUsersIn) {
  const auto lock = make_lock(user("uid 1000", "hunter2"), "bert", nullptr);
  ASSERT_TRUE(lock);
  EXPECT_THAT(lock->digest, ::testing::Not(HasSubstr("hunter2")));
  EXPECT_TRUE(may_enter(user("uid 1001", "hunter2"), "bert", *lock));
  EXPECT_THAT(may_enter(user("uid 1001", "hunter3"), "bert", *lock).error().message,
              HasSubstr("wrong token"));
  EXPECT_FALSE(may_enter(user("uid 1000"), "bert", *lock)) << "the same user needs it too";
}

TEST(JobLock, TokensAndTheSecretLetIntoJobsThatFormedSo) {
  const auto lock = make_lock(holder(Proof::Kind::kToken, "bert"), "bert", nullptr);
  ASSERT_TRUE(lock);
  EXPECT_TRUE(may_enter(holder(Proof::Kind::kSecret), "bert", *lock));
  EXPECT_TRUE(may_enter(holder(Proof::Kind::kToken, "bert"), "bert", *lock));
  EXPECT_TRUE(may_enter(holder(Proof::Kind::kToken, "be*"), "bert", *lock));
  EXPECT_THAT(may_enter(holder(Proof::Kind::kToken, "gpt"), "bert", *lock).error().message,
              HasSubstr("token 0123456789abcdef is not for this job"));
  EXPECT_FALSE(make_lock(holder(Proof::Kind::kToken, "gpt"), "bert", nullptr));
}

TEST(JobLock, WhoHasATokenDoesNotEnterAJobWhoseNameAnotherUserTook) {
  for (const char* text : {"", "hunter2"}) {
    const auto lock = make_lock(user("uid 1001", text), "bert", nullptr);
    EXPECT_THAT(may_enter(holder(Proof::Kind::kToken, "bert"), "bert", *lock).error().message,
                HasSubstr("was formed without a token, by uid 1001"));
    EXPECT_FALSE(may_enter(holder(Proof::Kind::kSecret), "bert", *lock));
  }
  const auto own = make_lock(user("uid 1000"), "bert", nullptr);
  Caller caller = holder(Proof::Kind::kToken, "bert");
  caller.user = "uid 1000";
  EXPECT_TRUE(may_enter(caller, "bert", *own)) << "the same user";
}

TEST(JobLock, AJobOfATokenHolderIsNoLocalUsers) {
  const auto lock = make_lock(holder(Proof::Kind::kToken, "bert"), "bert", nullptr);
  ASSERT_TRUE(lock);
  EXPECT_FALSE(may_enter(user("uid 1000"), "bert", *lock));
}

TEST(JobLock, AConfiguredJobNeedsItsTextOrAToken) {
  const std::string text = "hunter2";
  EXPECT_FALSE(make_lock(user("uid 1000"), "bert", &text));
  EXPECT_FALSE(make_lock(user("uid 1000", "other"), "bert", &text));
  const auto formed = make_lock(holder(Proof::Kind::kToken, "bert"), "bert", &text);
  ASSERT_TRUE(formed);
  EXPECT_TRUE(may_enter(user("uid 1000", "hunter2"), "bert", *formed));
  EXPECT_FALSE(may_enter(user("uid 1000"), "bert", *formed));
}

TEST(JobLock, AnInstancesKeyLetsIntoThatInstanceAlone) {
  auto lock = *make_lock(user("uid 1000"), "bert", nullptr);
  lock.key = net::auth::generate_key();
  EXPECT_TRUE(may_enter(holder(Proof::Kind::kInstance, "", lock.key->identity), "bert", lock));
  EXPECT_FALSE(may_enter(holder(Proof::Kind::kInstance, "", "j.other"), "bert", lock));
  EXPECT_FALSE(make_lock(holder(Proof::Kind::kInstance, "bert", "j.other"), "bert", nullptr));
}

TEST(JobLock, OwnersAndOperatorsSeeAJob) {
  auto lock = *make_lock(user("uid 1000"), "bert", nullptr);
  lock.key = net::auth::generate_key();
  EXPECT_TRUE(may_see(root(), "bert", lock));
  EXPECT_TRUE(may_see(user("uid 1000"), "bert", lock));
  EXPECT_FALSE(may_see(holder(Proof::Kind::kToken, "bert"), "bert", lock))
      << "it formed without a token";
  EXPECT_TRUE(may_see(holder(Proof::Kind::kInstance, "", lock.key->identity), "bert", lock));
  EXPECT_FALSE(may_see(user("uid 1001"), "bert", lock));
  EXPECT_FALSE(may_see(user(""), "bert", lock));
  EXPECT_FALSE(may_see(holder(Proof::Kind::kToken, "gpt"), "bert", lock));
  EXPECT_FALSE(may_see(holder(Proof::Kind::kInstance, "", "j.other"), "bert", lock));
}

}  // namespace
}  // namespace tally::control
