// The server and the client's channel over TLS: real sockets on loopback, the server's loop in a
// thread of its own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>
#include <asio/post.hpp>
#include <chrono>
#include <future>
#include <thread>

#include "net/auth/key_ring.h"
#include "net/rpc/rpc_channel.h"
#include "net/server/server.h"
#include "net/server/wrong_keys.h"
#include "net/tcp.h"
#include "net/tls/credentials.h"
#include "tests/support/net/certificates.h"
#include "tests/support/net/rpc_test_support.h"
#include "tests/support/net/server_fixture.h"

namespace tally::rpc {
namespace {

using net::auth::KeyRing;
using net::auth::Proof;
using net::auth::Secret;
using net::tls::Credentials;
using nlohmann::json;
using ::testing::HasSubstr;

constexpr std::int64_t kNow = 1'800'000'000;
constexpr Nanos kTimeout = 10 * kSecond;

Nanos in_time() {
  return monotonic_now() + kTimeout;
}

class SecurityTest : public ::testing::Test {
 protected:
  ~SecurityTest() override {
    if (!thread_.joinable()) return;
    on_loop([this] { server_.reset(); });
    work_.reset();
    thread_.join();
  }

  // Serves those that the ring accepts; with `plaintext` others too.
  void serve(bool plaintext = false, const net::tls::CertificateFiles& files = {},
             bool with_tls = true) {
    ASSERT_TRUE(ring_.add_secret(secret_));
    Security security{.tls = {}, .plaintext = plaintext};
    if (with_tls) {
      auto context = net::tls::ServerContext::make(
          [this](std::string_view identity) { return ring_.find(identity, kNow); }, files);
      ASSERT_TRUE(context) << context.error().message;
      security.tls = *context;
    }
    server_.emplace(io_, service_, Limits{}, security);
    auto address = server_->listen({.address = "tcp:127.0.0.1:0"});
    ASSERT_TRUE(address) << address.error().message;
    address_ = *address;
    thread_ = std::thread([this] { io_.run(); });
  }

  template <typename Function>
  auto on_loop(Function function) -> decltype(function()) {
    std::packaged_task<decltype(function())()> task(std::move(function));
    auto result = task.get_future();
    asio::post(io_, [&task] { task(); });
    return result.get();
  }

  Result<RpcChannel> connect(const Credentials& credentials) {
    return RpcChannel::connect(address_, in_time(), credentials);
  }
  Result<RpcChannel> connect(const std::string& text) { return connect(Credentials(text)); }
  std::string token(const std::string& job = "bert", std::int64_t expires = 0) {
    return *secret_.make_token({.id = {}, .job = job, .expires = expires});
  }
  std::optional<Proof> proof_of_last() {
    return on_loop([this] { return server_->peer(server_->latest())->proof; });
  }
  std::uint64_t refused_keys() {
    return on_loop([this] { return server_->counts().refused_keys; });
  }
  UniqueFd plain_socket() {
    auto where = net::parse_host_port("", address_.substr(4));
    return std::move(net::connect_tcp(*where, in_time())).value();
  }

  Secret secret_ = Secret::generate();
  KeyRing ring_;
  asio::io_context io_;
  asio::executor_work_guard<asio::io_context::executor_type> work_ = asio::make_work_guard(io_);
  TestService service_;
  std::optional<Server> server_;
  std::string address_;
  std::thread thread_;
};

TEST_F(SecurityTest, ServesWhoShowsTheSecret) {
  serve();
  auto channel = connect(secret_.text());
  ASSERT_TRUE(channel) << channel.error().message;
  const auto answer = channel->call("echo", {{"a", 1}}, {}, in_time());
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_EQ((*answer)["a"], 1);
  EXPECT_EQ(proof_of_last()->kind, Proof::Kind::kSecret);
  EXPECT_EQ(channel->token(), "") << "TLS has shown it";
}

TEST_F(SecurityTest, KnowsATokensRights) {
  serve();
  auto channel = connect(token());
  ASSERT_TRUE(channel && channel->call("echo", json::object(), {}, in_time()));
  EXPECT_TRUE(proof_of_last()->covers("bert"));
  EXPECT_FALSE(proof_of_last()->covers("gpt"));
  EXPECT_EQ(on_loop([this] { return server_->counts().identified; }), 1U);
}

TEST_F(SecurityTest, CarriesLongRequestsAndAnswersInBothDirections) {
  serve();
  auto channel = connect(secret_.text());
  ASSERT_TRUE(channel);
  const std::string text(60'000, 'x');
  const auto echoed = channel->call("echo", {{"text", text}}, {}, in_time());
  ASSERT_TRUE(echoed) << echoed.error().message;
  EXPECT_EQ((*echoed)["text"], text);
  const auto big = channel->call("big", json::object(), {}, in_time());
  ASSERT_TRUE(big) << big.error().message;
  EXPECT_EQ(big->get<std::string>().size(), 200'000U);
}

TEST_F(SecurityTest, ServesManyRequestsThatComeAtOnce) {
  serve();
  auto channel = connect(secret_.text());
  ASSERT_TRUE(channel);
  std::vector<std::uint64_t> ids;
  for (int i = 0; i < 60; ++i) ids.push_back(*channel->ask("echo", {{"i", i}}, in_time()));
  for (int i = 0; i < 60; ++i) {
    std::optional<Result<json>> answer;
    for (const Nanos end = in_time(); !answer && monotonic_now() < end;)
      answer = channel->answer(ids[static_cast<std::size_t>(i)]);
    ASSERT_TRUE(answer && *answer) << i;
    EXPECT_EQ((**answer)["i"], i);
  }
}

TEST_F(SecurityTest, RefusesAWrongSecretWithAMessage) {
  serve();
  const auto channel = connect(Secret::generate().text());
  ASSERT_FALSE(channel);
  EXPECT_EQ(channel.status(), Status::kRefused);
  EXPECT_THAT(channel.error().message, HasSubstr("do not accept each other's token"));
  EXPECT_EQ(refused_keys(), 1U);
  EXPECT_EQ(service_.handled, 0);
}

TEST_F(SecurityTest, RefusesExpiredAndRevokedTokens) {
  serve();
  EXPECT_EQ(connect(token("bert", kNow)).status(), Status::kRefused);
  const std::string revoked = token();
  on_loop([&] { ring_.revoke(net::auth::rights_of(secret_, revoked)->id); });
  EXPECT_EQ(connect(revoked).status(), Status::kRefused);
  EXPECT_TRUE(connect(token()));
}

TEST_F(SecurityTest, AnswersPlaintextWithAReadableRefusal) {
  serve();
  auto channel = connect(Credentials());  // as an earlier release does
  ASSERT_TRUE(channel);
  const auto answer = channel->call("echo", {{"text", std::string(50'000, 'x')}}, {}, in_time());
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.status(), Status::kRefused);
  EXPECT_THAT(answer.error().message, HasSubstr("serves TCP only to who shows a token"));
  EXPECT_EQ(service_.handled, 0);
}

TEST_F(SecurityTest, ServesPlaintextWhereThatIsPermitted) {
  serve(true);
  auto channel = connect(Credentials());
  ASSERT_TRUE(channel && channel->call("echo", json::object(), {}, in_time()));
  EXPECT_FALSE(proof_of_last());
  EXPECT_TRUE(connect(secret_.text())) << "and TLS beside it";
}

TEST_F(SecurityTest, AClientWithASecretDoesNotGoOnInClear) {
  serve(true, {}, false);
  const auto channel = connect(secret_.text());
  ASSERT_FALSE(channel);
  EXPECT_EQ(channel.status(), Status::kRefused);
  EXPECT_THAT(channel.error().message, HasSubstr("TALLY_INSECURE"));
}

TEST_F(SecurityTest, AcceptsCertificatesBesideKeys) {
  const TemporaryDirectory folder;
  const tally::testing::CertificateAuthority authority(folder.path(), "authority");
  const auto client = authority.sign("client", "10.0.0.9");
  serve(false, authority.sign("node", "127.0.0.1"));
  ::setenv("TALLY_TLS_CERTIFICATE", client.certificate.c_str(), 1);
  ::setenv("TALLY_TLS_KEY", client.private_key.c_str(), 1);
  ::setenv("TALLY_TLS_AUTHORITY", client.authority.c_str(), 1);
  const auto credentials = Credentials::of_user();
  for (const char* name : {"TALLY_TLS_CERTIFICATE", "TALLY_TLS_KEY", "TALLY_TLS_AUTHORITY"})
    ::unsetenv(name);
  ASSERT_TRUE(credentials);
  auto channel = connect(*credentials);
  ASSERT_TRUE(channel) << channel.error().message;
  EXPECT_TRUE(channel->call("echo", json::object(), {}, in_time()));
  EXPECT_TRUE(connect(secret_.text()));

  auto forged =
      tally::testing::CertificateAuthority(folder.path(), "other").sign("forged", "10.0.0.9");
  forged.authority = client.authority;
  auto refused_later = connect(Credentials(forged));
  ASSERT_TRUE(refused_later) << "TLS 1.3 has no answer of the node to the client's certificate";
  const auto answer = refused_later->call("echo", json::object(), {}, in_time());
  // Mostly with the reason. But the node hangs up at once, and what it has sent may be lost then.
  EXPECT_TRUE(answer.status() == Status::kRefused || answer.status() == Status::kNodeLost)
      << answer.error().message;
}

TEST_F(SecurityTest, ASilentStrangerDelaysNobody) {
  serve();
  const UniqueFd silent = plain_socket();
  const UniqueFd half = plain_socket();
  ASSERT_EQ(::send(half.get(), "\x16\x03\x01", 3, MSG_NOSIGNAL), 3);
  EXPECT_TRUE(connect(secret_.text()));
}

TEST_F(SecurityTest, GarbageEndsTheConnection) {
  serve();
  const UniqueFd socket = plain_socket();
  const std::string garbage = "\x16\x03\x01\x00\x20" + std::string(32, 'x');
  ASSERT_GT(::send(socket.get(), garbage.data(), garbage.size(), MSG_NOSIGNAL), 0);
  char byte = 0;
  net::wait_for(socket.get(), POLLRDHUP, in_time());
  while (::recv(socket.get(), &byte, 1, 0) > 0) continue;
  EXPECT_TRUE(connect(secret_.text()));
}

TEST_F(SecurityTest, SlowsDownASourceThatGuesses) {
  serve();
  const auto began = monotonic_now();
  for (int i = 0; i < 8; ++i) EXPECT_FALSE(connect(Secret::generate().text()));
  EXPECT_GE(monotonic_now() - began, WrongKeys::kFirstWait * 7);  // 50, 100 and 200 ms
}

TEST_F(SecurityTest, QueryConnectsOnceMoreByTls) {
  serve();
  auto channel = connect(secret_.text());
  ASSERT_TRUE(channel && channel->call("echo", json::object(), {}, in_time()));
  on_loop([this] { server_->disconnect(server_->latest(), "test"); });
  EXPECT_TRUE(channel->query("echo", json::object(), in_time()));
  EXPECT_TRUE(proof_of_last());
}

TEST(Credentials, ReadAFileAndRefuseWhatIsNone) {
  const TemporaryDirectory folder;
  const std::string path = folder / "token";
  FILE* file = std::fopen(path.c_str(), "w");
  std::fputs("a text\nmore\n", file);
  std::fclose(file);
  EXPECT_EQ(Credentials::of_user("@" + path)->text(), "a text");
  EXPECT_THAT(Credentials::of_user("@/no/such").error().message, HasSubstr("/no/such"));
  EXPECT_FALSE(Credentials::of_user("")->any());
  EXPECT_TRUE(Credentials::of_user("")->in_clear());
  ::setenv("TALLY_INSECURE", "yes", 1);
  EXPECT_FALSE(Credentials::of_user("x"));
  ::setenv("TALLY_INSECURE", "1", 1);
  EXPECT_TRUE(Credentials::of_user("x")->in_clear());
  ::unsetenv("TALLY_INSECURE");
}

}  // namespace
}  // namespace tally::rpc
