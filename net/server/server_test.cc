#include "net/server/server.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <asio/io_context.hpp>
#include <asio/post.hpp>
#include <chrono>
#include <map>
#include <thread>

#include "net/rpc/rpc_channel.h"
#include "tests/support/net/server_fixture.h"

namespace tally::rpc {
namespace {

using nlohmann::json;
using namespace std::chrono_literals;

TEST_F(ServerTest, AnswersARequest) {
  const json reply = ask(call("echo", 5, {{"a", {1, 2}}}));
  EXPECT_EQ(reply, (json{{"jsonrpc", "2.0"}, {"id", 5}, {"result", {{"a", {1, 2}}}}}));
  EXPECT_EQ(ask(R"({"jsonrpc":"2.0","id":"s","method":"echo"})"
                "\r\n\n")["id"],
            "s");
}

TEST_F(ServerTest, AnswersErrors) {
  EXPECT_EQ(ask(call("refuse", 1))["error"]["data"]["name"], "refused");
  EXPECT_EQ(ask(call("nothing", 1))["error"]["code"], -32601);
}

TEST_F(ServerTest, AnAnswerMayComeLaterAndInAnyOrder) {
  send(call("later", 1) + call("later", 2) + call("echo", 3));
  EXPECT_EQ(receive()["id"], 3);
  ASSERT_EQ(service_.held.size(), 2u);
  service_.held[1].result(2);
  EXPECT_EQ(receive()["id"], 2);
  service_.held[0].error(Status::kDeadline, "late");
  EXPECT_EQ(receive()["error"]["code"], -32004);
  service_.held[0].result("again");  // only the first answer counts
  EXPECT_EQ(ask(call("echo", 4))["id"], 4);
}

TEST_F(ServerTest, ANotificationGetsNoAnswer) {
  send("{\"jsonrpc\":\"2.0\",\"method\":\"echo\"}\n" + call("echo", 2));
  EXPECT_EQ(receive()["id"], 2);
  EXPECT_EQ(service_.handled, 2);
}

TEST_F(ServerTest, ADroppedReplyAndAThrowingServiceAnswerInternal) {
  EXPECT_EQ(ask(call("drop", 1))["error"]["data"]["name"], "internal");
  EXPECT_EQ(ask(call("throw", 2))["error"]["data"]["name"], "internal");
  EXPECT_EQ(ask(call("echo", 3))["id"], 3);
}

TEST_F(ServerTest, GarbageIsAnsweredAndHarmsNobody) {
  EXPECT_EQ(ask("garbage\n")["error"]["code"], -32700);
  EXPECT_EQ(ask("[]\n")["error"]["code"], -32600);
  EXPECT_EQ(ask("42\n")["error"]["code"], -32600);
  EXPECT_EQ(ask(std::string(40000, '[') + "\n")["error"]["code"], -32600);
  EXPECT_EQ(ask(std::string("\0\0\n", 3))["error"]["code"], -32700);
  EXPECT_EQ(ask("{\"jsonrpc\":\"1\",\"id\":9,\"method\":\"m\"}\n")["id"], 9);
  EXPECT_EQ(ask(call("echo", 4))["id"], 4);
}

TEST_F(ServerTest, DescriptorsBelongToTheRequestTheyCameWith) {
  ask(call("session", 0));
  service_.fds_seen.clear();
  const int fds[] = {0, 0, 0};
  // All of it is there before the server looks.
  send(call("a", 1));
  send(call("b", 2) + call("c", 3), fds);
  send(call("d", 4));
  send(call("e", 5).substr(0, 9));
  send(call("e", 5).substr(9), std::span(fds, 1));
  for (int i = 0; i < 5; ++i) receive();
  EXPECT_EQ(service_.fds_seen,
            (std::map<std::string, std::size_t>{{"a", 0}, {"b", 3}, {"c", 0}, {"d", 0}, {"e", 1}}));
}

TEST_F(ServerTest, ASlowWriterIsUnderstood) {
  ask(call("session", 0));
  const std::string text = call("fds", 1);
  const int fd = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    send(text.substr(i, 1), i == 0 ? std::span(&fd, 1) : std::span<const int>());
    io_.restart();
    io_.poll();
  }
  EXPECT_EQ(receive()["result"], 1);
}

TEST_F(ServerTest, TooManyDescriptorsAreRefusedAndClosed) {
  ask(call("session", 0));
  const std::size_t before = open_descriptors();
  const std::vector<int> most(128, 0);
  const std::vector<int> more(129, 0);
  const std::vector<int> flood(253, 0);
  EXPECT_EQ(ask(call("fds", 1), most)["result"], 128);
  EXPECT_EQ(ask(call("fds", 2), more)["error"]["data"]["name"], "invalid argument");
  send("{", flood);  // in an unfinished request they are held, up to the limit
  send(" ", flood);
  run_until([&] { return open_descriptors() == before + 128; });
  EXPECT_EQ(open_descriptors(), before + 128);
  EXPECT_EQ(ask("}\n")["error"]["code"], -32600);
  EXPECT_EQ(ask(call("fds", 3))["result"], 0);
  EXPECT_EQ(open_descriptors(), before);
}

TEST_F(ServerTest, ReportsLostDescriptors) {
  ask(call("session", 0));
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  rlimit low = limit;
  low.rlim_cur = open_descriptors() + 2;
  const int fds[] = {0, 0, 0, 0, 0, 0, 0, 0};
  send(call("fds", 1), fds);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &low), 0);
  const json reply = receive();
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
  EXPECT_EQ(reply["error"]["data"]["name"], "no memory") << reply;
  EXPECT_EQ(ask(call("fds", 2), fds)["result"], 8);
}

TEST_F(ServerTest, ARequestWithoutAnEndEndsTheConnection) {
  send(std::string(65535, ' ') + "\n" + call("echo", 1));  // as long as may be
  EXPECT_EQ(receive()["id"], 1);
  send(std::string(65536, 'x'));
  EXPECT_EQ(receive()["error"]["code"], -32600);
  EXPECT_TRUE(hangs_up());
  EXPECT_TRUE(closed(id_));
}

TEST_F(ServerTest, HalfARequestAndAHangUpIsJustAHangUp) {
  ask(call("session", 0));
  const std::size_t before = open_descriptors();
  const int fd = 0;
  send("{\"jsonrpc\":", std::span(&fd, 1));
  run_until([&] { return open_descriptors() == before + 1; });
  peer_.reset();
  EXPECT_TRUE(closed(id_));
  EXPECT_EQ(service_.handled, 1);
  EXPECT_EQ(open_descriptors(), before - 3) << "both ends, and the peer's process";
}

TEST_F(ServerTest, APeerThatNeverReadsIsDisconnected) {
  std::size_t sent = 0;
  const std::string text = call("big", 1);
  for (; sent < 100 && send_with_fds(peer_.get(), text, {}) > 0; ++sent) {
    io_.restart();
    io_.poll();
  }
  EXPECT_LT(sent, 100u);
  EXPECT_TRUE(closed(id_));
}

TEST_F(ServerTest, APeerThatReadsLateGetsEverything) {
  for (int i = 0; i < 5; ++i) send(call("big", i));
  io_.run_for(20ms);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(receive()["id"], i);
}

TEST_F(ServerTest, UnansweredRequestsAreBounded) {
  for (int i = 1; i <= 3; ++i) send(call("later", i));
  const json reply = ask(call("later", 4));
  EXPECT_EQ(reply["id"], 4);
  EXPECT_EQ(reply["error"]["data"]["name"], "refused");
  service_.held.clear();  // dropped: answered
  for (int i = 1; i <= 3; ++i) EXPECT_EQ(receive()["error"]["data"]["name"], "internal");
  EXPECT_EQ(ask(call("echo", 5))["id"], 5);
}

TEST_F(ServerTest, AReplyOutlivesItsConnection) {
  send(call("later", 1));
  ASSERT_TRUE(run_until([&] { return service_.held.size() == 1; }));
  peer_.reset();
  EXPECT_TRUE(closed(id_));
  service_.held[0].result(1);
}

TEST_F(ServerTest, AGateDecidesWhenAnAnswerIsSent) {
  send(call("gated", 1) + call("gated", 2));
  ASSERT_TRUE(run_until([&] { return service_.held.size() == 2; }));
  service_.held[0].result("first");
  service_.held[0].result("again");
  service_.held.pop_back();  // dropped
  EXPECT_EQ(ask(call("echo", 9))["id"], 9) << "nothing else has been sent";
  ASSERT_EQ(service_.behind_gate.size(), 2U);
  service_.behind_gate[1]();
  EXPECT_EQ(receive()["error"]["data"]["name"], "internal");
  service_.behind_gate[0]();
  EXPECT_EQ(receive()["result"], "first");
  send(call("gated", 3));
  ASSERT_TRUE(run_until([&] { return service_.held.size() == 2; }));
  service_.held[0] = std::move(service_.held[1]);
  service_.held[0].result("third");
  ASSERT_EQ(service_.behind_gate.size(), 3U) << "the gate moves with the reply";
  peer_.reset();
  EXPECT_TRUE(closed(id_));
  service_.behind_gate[2]();
}

TEST_F(ServerTest, DisconnectClosesOnce) {
  EXPECT_EQ(ask(call("echo", 1))["id"], 1);
  server_.disconnect(id_, "test");
  server_.disconnect(id_, "test");
  EXPECT_TRUE(hangs_up());
  EXPECT_TRUE(closed(id_));
  server_.stop();
  EXPECT_EQ(service_.closings[id_], 1);
  server_.disconnect(id_, "test");
}

// Both are there when the loop looks: a rank that comes back at once does not
// find its place taken.
TEST_F(ServerTest, ReportsEndedConnectionsBeforeServingNewOnes) {
  const TemporaryDirectory directory;
  const std::string path = directory / "socket";
  ASSERT_TRUE(server_.listen({.address = "unix:" + path}).ok());
  EXPECT_EQ(ask(call("echo", 1))["id"], 1);
  peer_ = connect_to(path);
  received_.clear();
  EXPECT_EQ(ask(call("echo", 2))["id"], 2);
  EXPECT_EQ(service_.closed_before_last, 1U);
}

TEST_F(ServerTest, StopClosesEveryConnection) {
  const ConnectionId first = id_;
  const UniqueFd kept = std::move(peer_);
  connect();
  server_.stop();
  EXPECT_EQ(service_.closings[first], 1);
  EXPECT_EQ(service_.closings[id_], 1);
  EXPECT_TRUE(hangs_up());
}

TEST_F(ServerTest, KnowsItsPeers) {
  const auto peer = server_.peer(id_);
  ASSERT_TRUE(peer);
  EXPECT_EQ(peer->pid, ::getpid());
  EXPECT_EQ(peer->uid, ::geteuid());
  EXPECT_EQ(peer->name,
            "pid " + std::to_string(::getpid()) + ", uid " + std::to_string(::geteuid()));
  EXPECT_TRUE(peer->is_operator);
  EXPECT_FALSE(server_.peer(id_ + 1));
}

TEST_F(ServerTest, ComesBackWhenDescriptorsDo) {
  const TemporaryDirectory directory;
  ASSERT_TRUE(server_.listen({.address = "unix:" + (directory / "s")}).ok());
  peer_ = connect_to(directory / "s");
  send(call("echo", 1));
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  rlimit low = limit;
  low.rlim_cur = 1;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &low), 0);
  io_.run_for(20ms);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
  EXPECT_EQ(receive()["id"], 1);
}

// The client's channel against the server, each in a thread of its own.
TEST(ServerAndChannel, UnderstandEachOther) {
  const TemporaryDirectory directory;
  asio::io_context io;
  TestService service;
  Server server(io, service);
  ASSERT_TRUE(server.listen({.address = "unix:" + (directory / "s")}).ok());
  std::thread thread([&io] { io.run(); });

  const auto soon = [] { return monotonic_now() + 5 * kSecond; };
  auto channel = rpc::RpcChannel::connect("unix:" + (directory / "s"), soon());
  ASSERT_TRUE(channel.ok()) << channel.error().message;
  ASSERT_TRUE(channel->call("session", json::object(), {}, soon()).ok());
  const int fds[] = {0, 1};
  auto counted = channel->call("fds", json::object(), fds, soon());
  ASSERT_TRUE(counted.ok()) << counted.error().message;
  EXPECT_EQ(*counted, 2);
  EXPECT_EQ(channel->call("refuse", json::object(), {}, soon()).status(), Status::kRefused);
  EXPECT_EQ(channel->call("no such", json::object(), {}, soon()).status(), Status::kUnsupported);
  auto big = channel->call("big", json::object(), {}, soon());
  ASSERT_TRUE(big.ok());
  EXPECT_EQ(big->get_ref<const std::string&>().size(), 200'000u);
  EXPECT_EQ(channel->call("later", json::object(), {}, monotonic_now() + kMillisecond).status(),
            Status::kDeadline);
  auto echoed = channel->call("echo", {{"still", "here"}}, {}, soon());
  ASSERT_TRUE(echoed.ok());
  EXPECT_EQ((*echoed)["still"], "here");

  asio::post(io, [&] {
    server.stop();
    service.held.clear();
  });
  thread.join();
  EXPECT_EQ(channel->call("echo", json::object(), {}, soon()).status(), Status::kNodeLost);
}

TEST_F(ServerTest, ServesUnixAndTcpSideBySide) {
  const TemporaryDirectory directory;
  auto unix_address = server_.listen({.address = "unix:" + directory / "s"});
  auto tcp = server_.listen({.address = "tcp:127.0.0.1:0"});
  ASSERT_TRUE(unix_address.ok() && tcp.ok());
  EXPECT_EQ(tcp->rfind("tcp:127.0.0.1:", 0), 0u) << *tcp;
  EXPECT_NE(*tcp, "tcp:127.0.0.1:0") << "the port that it has";
  for (const std::string& address : {*unix_address, *tcp}) {
    bool answered = false;
    std::thread client([&] {
      const Nanos deadline = monotonic_now() + 5 * kSecond;
      auto channel = rpc::RpcChannel::connect(address, deadline);
      answered = channel && channel->call("echo", {{"a", 1}}, {}, deadline).ok();
      if (!answered) return;
      EXPECT_EQ(channel->local_host(), address == *tcp ? "127.0.0.1" : "");
    });
    const int before = service_.handled;
    EXPECT_TRUE(run_until([&] { return service_.handled > before; }));
    io_.restart();
    io_.run_for(20ms);
    client.join();
    EXPECT_TRUE(answered) << address;
  }
}

TEST_F(ServerTest, ATakenPortIsNamed) {
  auto first = server_.listen({.address = "tcp:127.0.0.1:0"});
  ASSERT_TRUE(first.ok());
  auto second = server_.listen({.address = *first});
  ASSERT_FALSE(second.ok());
  EXPECT_NE(second.error().message.find(*first), std::string::npos);
}

}  // namespace
}  // namespace tally::rpc
