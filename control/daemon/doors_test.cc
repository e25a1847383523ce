// Calls each method of a real node as each kind of caller, over TCP and over the Unix socket. A
// refused call must have a message, and a line in the node's log.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <regex>
#include <string>
#include <vector>

#include "net/auth/secrets.h"
#include "net/rpc/rpc_channel.h"
#include "net/tcp.h"
#include "tests/support/tallyd.h"

namespace tally::control {
namespace {

using net::auth::Secret;
using net::tls::Credentials;
using nlohmann::json;
using rpc::RpcChannel;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr Nanos kTimeout = 20 * kSecond;
constexpr uid_t kOtherUser = 65534;
constexpr const char* kJob = "bert";

Nanos in_time() {
  return monotonic_now() + kTimeout;
}

// A method with parameters that are right for the job. What comes after the check of access may
// still go wrong.
struct Call {
  const char* method;
  json params;
};

std::vector<Call> operator_calls() {
  return {{"cluster.join", json::object()},
          {"cluster.next", json::object()},
          {"cluster.report", json::object()},
          {"cluster.drain", {{"node", "a"}}},
          {"plan.set", {{"text", "[]"}}},
          {"plan.show", json::object()},
          {"plan.show", {{"job", kJob}}},
          {"probe.machine", {{"inputs", 65}}},
          {"probe.serve", {{"streams", 0}}},
          {"probe.run", json::object()},
          {"token.revoke", {{"id", "0123456789abcdef"}}}};
}

std::vector<Call> job_calls() {
  return {{"job.open", {{"version", 1}, {"job", kJob}, {"rank", 0}, {"ranks", 2}}},
          {"session.open", {{"version", 1}, {"job", kJob}, {"rank", 0}, {"ranks", 2}}}};
}

// About one job, of which another caller must not learn whether it exists.
std::vector<Call> calls_about(const char* job) {
  return {{"node.metrics", {{"job", job}}},
          {"node.dump", {{"job", job}}},
          {"node.trace", {{"job", job}}},
          {"node.trace_take", {{"job", job}, {"shard", 0}}}};
}

// About the caller's own job or session. A caller without one gets an answer that says so.
std::vector<Call> calls_of_sessions() {
  return {{"cluster.jobs", json::object()},
          {"node.jobs", json::object()},
          {"node.metrics", {{"job", kJob}}},
          {"node.dump", {{"job", kJob}}},
          {"node.trace", {{"job", kJob}}},
          {"node.trace_take", {{"job", kJob}, {"shard", 0}}},
          {"job.next", json::object()},
          {"job.report", json::object()},
          {"job.leave", json::object()},
          {"session.attach", json::object()},
          {"session.prove", {{"session", 1}, {"proof", 1}}},
          {"session.empty", json::object()},
          {"session.close", json::object()},
          {"region.check", json::object()},
          {"region.register", json::object()},
          {"region.deregister", json::object()}};
}

std::vector<Call> calls_for_all() {
  return {{"node.status", json::object()},
          {"node.stats", json::object()},
          {"cluster.coordinator", json::object()},
          {"cluster.nodes", json::object()}};
}

class DoorsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ::chmod((node_ / ".").c_str(), 0755);
    const std::string secret_file = node_ / "secret";
    std::ofstream(secret_file) << secret_.text() << "\n";
    ::chmod(secret_file.c_str(), 0600);
    port_ = net::local_port(net::listen_tcp({"127.0.0.1", 0})->get());
    node_.start({"--listen-tcp", tcp(), "--secret-file", secret_file, "--shards", "1", "--verbs",
                 "off", "--fabric", "on"});
    rank_.emplace(connect(tcp(), token(kJob)).value());
    const auto opened =
        call(*rank_, {"session.open", {{"version", 1}, {"job", kJob}, {"rank", 1}, {"ranks", 2}}});
    ASSERT_TRUE(opened) << opened.error().message;
  }

  std::string tcp() const { return "tcp:127.0.0.1:" + std::to_string(port_); }
  std::string token(const char* job) const { return *secret_.make_token({.id = {}, .job = job}); }

  static Result<RpcChannel> connect(const std::string& address, const std::string& shown) {
    return RpcChannel::connect(address, in_time(), Credentials(shown));
  }
  // At the Unix socket, as another user of this machine.
  Result<RpcChannel> connect_as_other_user() {
    EXPECT_EQ(::seteuid(kOtherUser), 0);
    auto channel = RpcChannel::connect(node_.address(), in_time());
    EXPECT_EQ(::seteuid(0), 0);
    return channel;
  }
  static Result<json> call(RpcChannel& channel, const Call& one) {
    return channel.call(one.method, one.params, {}, in_time());
  }
  // How often the node logged a refusal.
  std::size_t audit_lines() {
    const std::string log = node_->output();
    std::size_t lines = 0;
    for (std::size_t at = 0; (at = log.find("event=access-refused", at)) != std::string::npos; ++at)
      ++lines;
    return lines;
  }

  void expect_refused(const std::function<Result<RpcChannel>()>& reach,
                      const std::vector<Call>& calls, const char* why) {
    for (const Call& one : calls) {
      ::usleep(120'000);  // the log has ten lines a second at most
      const std::size_t before = audit_lines();
      auto channel = reach();
      const auto answer = channel ? call(*channel, one) : Result<json>(channel.error());
      ASSERT_FALSE(answer) << one.method;
      EXPECT_EQ(answer.status(), Status::kRefused) << one.method << ": " << answer.error().message;
      EXPECT_THAT(answer.error().message, HasSubstr(why)) << one.method;
      expect_audit_line_after(before, one.method);
    }
  }
  void expect_let_in(const std::function<Result<RpcChannel>()>& reach,
                     const std::vector<Call>& calls) {
    for (const Call& one : calls) {
      auto channel = reach();
      ASSERT_TRUE(channel) << channel.error().message;
      const auto answer = call(*channel, one);
      const std::string why = answer ? "" : answer.error().message;
      EXPECT_THAT(why,
                  Not(AnyOf(HasSubstr("operators"), HasSubstr("token"), HasSubstr("belongs to"))))
          << one.method;
    }
  }
  // What the caller sees of the job: its name in node.jobs, and its counters.
  void expect_sees_job(const std::function<Result<RpcChannel>()>& reach, bool sees) {
    auto channel = reach();
    ASSERT_TRUE(channel) << channel.error().message;
    const auto jobs = call(*channel, {"node.jobs", json::object()});
    ASSERT_TRUE(jobs) << jobs.error().message;
    EXPECT_EQ(jobs->size(), sees ? 1U : 0U);
    const auto all_jobs = call(*channel, {"cluster.jobs", json::object()});
    ASSERT_TRUE(all_jobs) << all_jobs.error().message;
    if (!sees) {
      EXPECT_EQ(all_jobs->dump().find(kJob), std::string::npos) << *all_jobs;
    }
    const auto of_none = calls_about("none");
    for (std::size_t i = 0; const Call& one : calls_about(kJob)) {
      ::usleep(120'000);  // the log has ten lines a second at most
      const std::size_t before = audit_lines();
      const auto answer = call(*channel, one);
      EXPECT_EQ(answer.ok(), sees) << one.method;
      const auto no_job = call(*channel, of_none[i++]);
      if (sees) continue;
      EXPECT_EQ(answer.error().message,
                std::regex_replace(no_job.error().message, std::regex("none"), kJob))
          << "the answer must not tell the name";
      expect_audit_line_after(before, one.method);
    }
  }
  // Its own session's calls alone: a caller without a session does nothing to those of others.
  void expect_no_session(const std::function<Result<RpcChannel>()>& reach) {
    for (const Call& one : calls_of_sessions()) {
      if (!std::string(one.method).starts_with("session.") &&
          !std::string(one.method).starts_with("region.")) {
        continue;
      }
      auto channel = reach();
      ASSERT_TRUE(channel) << channel.error().message;
      EXPECT_FALSE(call(*channel, one)) << one.method;
    }
    EXPECT_TRUE(call(*rank_, {"node.metrics", {{"job", kJob}}})) << "the job goes on";
  }
  void expect_audit_line_after(std::size_t before, const char* method) {
    for (const Nanos end = in_time(); audit_lines() == before && monotonic_now() < end;)
      ::usleep(10'000);
    EXPECT_GT(audit_lines(), before) << method;
    const std::string log = node_->output();
    const std::size_t last = log.rfind("event=access-refused");
    const std::string line = log.substr(last, log.find('\n', last) - last);
    EXPECT_THAT(line, HasSubstr("peer="));
    // A connection that is not let in is refused before its first call.
    EXPECT_THAT(line, AnyOf(HasSubstr(std::string("method=") + method), Not(HasSubstr("method="))));
  }

  Secret secret_ = Secret::generate();
  std::uint16_t port_ = 0;
  tally::testing::Tallyd node_;
  std::optional<RpcChannel> rank_;  // rank 1 of the job, which has a token
};

TEST_F(DoorsTest, AStrangerOverTcpMayDoNothing) {
  const auto in_clear = [&] { return RpcChannel::connect(tcp(), in_time()); };
  for (const auto& calls : {calls_for_all(), job_calls(), operator_calls(), calls_of_sessions()}) {
    expect_refused(in_clear, calls, "serves TCP only to who shows");
  }
}

TEST_F(DoorsTest, AStrangerWithAWrongSecretMayDoNothing) {
  const auto guessing = [&] { return connect(tcp(), Secret::generate().text()); };
  expect_refused(guessing,
                 {calls_for_all().front(), job_calls().front(), operator_calls().front(),
                  calls_of_sessions().front()},
                 "do not accept each other's token");
}

TEST_F(DoorsTest, AnotherUserOfTheMachineMaySeeTheNodeAlone) {
  if (::geteuid() != 0) GTEST_SKIP() << "becoming another user needs root";
  const auto other = [&] { return connect_as_other_user(); };
  expect_let_in(other, calls_for_all());
  expect_sees_job(other, false);
  expect_no_session(other);
  expect_refused(other, {job_calls().back()}, "belongs to");
  expect_refused(other, operator_calls(), "operators");
}

TEST_F(DoorsTest, TheTokenOfAnotherJobIsForThatJobAlone) {
  const auto other = [&] { return connect(tcp(), token("gpt")); };
  expect_let_in(other, calls_for_all());
  expect_sees_job(other, false);
  expect_no_session(other);
  expect_refused(other, job_calls(), "is not for this job");
  expect_refused(other, operator_calls(), "operators");
}

TEST_F(DoorsTest, ARankOfTheJobSeesAndEntersIt) {
  const auto rank = [&] { return connect(tcp(), token(kJob)); };
  expect_let_in(rank, calls_for_all());
  expect_sees_job(rank, true);
  expect_let_in(rank, {job_calls().front()});
  expect_let_in(rank, {job_calls().back()});
  expect_refused(rank, operator_calls(), "operators");
}

TEST_F(DoorsTest, ATokenAtTheUnixSocketLetsAnotherUserIn) {
  if (::geteuid() != 0) GTEST_SKIP() << "becoming another user needs root";
  auto channel = connect_as_other_user();
  ASSERT_TRUE(channel);
  Call open = job_calls().back();
  open.params["token"] = token("gpt");
  EXPECT_THAT(call(*channel, open).error().message, HasSubstr("is not for this job"));
  open.params["token"] = token(kJob);
  EXPECT_TRUE(call(*channel, open));
}

TEST_F(DoorsTest, WhoHasTheSecretIsAnOperator) {
  const auto node = [&] { return connect(tcp(), secret_.text()); };
  for (const auto& calls : {calls_for_all(), operator_calls(), job_calls()})
    expect_let_in(node, calls);
  expect_sees_job(node, true);
}

TEST_F(DoorsTest, TheNodesUserAtItsSocketIsAnOperator) {
  const auto local = [&] { return RpcChannel::connect(node_.address(), in_time()); };
  for (const auto& calls : {calls_for_all(), operator_calls()}) expect_let_in(local, calls);
  expect_sees_job(local, true);
  expect_refused(local, {job_calls().back()}, "belongs to");
}

TEST_F(DoorsTest, AnOperatorTakesATraceOver) {
  const Call trace{"node.trace", {{"job", kJob}}};
  ASSERT_TRUE(call(*rank_, trace));
  auto second = connect(tcp(), token(kJob)).value();
  EXPECT_THAT(call(second, trace).error().message, HasSubstr("is being traced"));
  auto local = RpcChannel::connect(node_.address(), in_time()).value();
  EXPECT_TRUE(call(local, trace));
  auto remote = connect(tcp(), secret_.text()).value();
  EXPECT_TRUE(call(remote, trace)) << "from another operator, which may be idle";
  EXPECT_FALSE(call(second, trace));
}

// With --insecure a stranger over TCP may do what operators may, but holds nothing against them.
TEST(DoorsWithoutSecret, AStrangerHoldsNoTrace) {
  tally::testing::Tallyd node;
  const auto port = net::local_port(net::listen_tcp({"127.0.0.1", 0})->get());
  const std::string tcp = "tcp:127.0.0.1:" + std::to_string(port);
  node.start({"--listen-tcp", tcp, "--insecure", "--shards", "1", "--verbs", "off"});
  const json rank = {{"version", 1}, {"job", kJob}, {"rank", 0}, {"ranks", 2}};
  auto owner = RpcChannel::connect(node.address(), in_time()).value();
  ASSERT_TRUE(owner.call("session.open", rank, {}, in_time()));
  auto stranger = RpcChannel::connect(tcp, in_time()).value();
  auto local = RpcChannel::connect(node.address(), in_time()).value();
  const auto trace = [](RpcChannel& channel) {
    return channel.call("node.trace", {{"job", kJob}}, {}, in_time()).ok();
  };
  EXPECT_TRUE(trace(stranger));
  EXPECT_TRUE(trace(local));
  EXPECT_FALSE(trace(stranger));
}

}  // namespace
}  // namespace tally::control
