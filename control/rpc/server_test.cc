#include "control/rpc/server.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <asio.hpp>
#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <stdexcept>
#include <thread>

#include "client/rpc_channel.h"
#include "control/rpc/test_support.h"

namespace tally::rpc {
namespace {

using nlohmann::json;
using namespace std::chrono_literals;

std::string call(std::string_view method, int id, const json& params = json::object()) {
  return json{{"jsonrpc", "2.0"}, {"id", id}, {"method", method}, {"params", params}}.dump() + "\n";
}

// Answers what the tests need.
class TestService : public Service {
 public:
  void handle(ConnectionId connection, Request request, Reply reply) override {
    last = connection;
    ++handled;
    fds_seen[request.method] = request.fds.size();
    if (request.method == "echo") return reply.result(std::move(request.params));
    if (request.method == "fds") return reply.result(request.fds.size());
    if (request.method == "big") return reply.result(std::string(200'000, 'x'));
    if (request.method == "later") return held.push_back(std::move(reply));
    if (request.method == "gated") {
      reply.go_through([this](auto say) { behind_gate.push_back(std::move(say)); });
      return held.push_back(std::move(reply));
    }
    if (request.method == "drop") return;
    if (request.method == "throw") throw std::runtime_error("the service's fault");
    if (request.method == "refuse") return reply.error(Status::kRefused, "not you");
    reply.unknown_method(request.method);
  }
  void closed(ConnectionId connection) override { ++closings[connection]; }

  ConnectionId last = 0;
  int handled = 0;
  std::map<std::string, std::size_t> fds_seen;
  std::vector<Reply> held;
  std::vector<std::function<void()>> behind_gate;
  std::map<ConnectionId, int> closings;
};

// Server and peer in one thread: the loop runs only while a test waits for something.
class ServerTest : public testing::Test {
 protected:
  void SetUp() override { connect(); }

  void connect() {
    auto [ours, theirs] = socket_pair();
    peer_ = std::move(ours);
    received_.clear();
    id_ = server_.adopt(std::move(theirs));
  }

  // Runs the loop until `done`; false when that does not happen.
  bool run_until(const std::function<bool()>& done) {
    const auto end = std::chrono::steady_clock::now() + 5s;
    while (!done()) {
      if (std::chrono::steady_clock::now() > end) return false;
      io_.restart();
      io_.run_for(1ms);
    }
    return true;
  }

  void send(std::string_view text, std::span<const int> fds = {}) {
    ASSERT_EQ(send_with_fds(peer_.get(), text, fds), static_cast<ssize_t>(text.size()));
  }

  // The next line of the server; discarded JSON when it hangs up instead.
  json receive() {
    std::string line;
    const bool came = run_until([&] {
      take();
      return received_.find('\n') != std::string::npos || hung_up_;
    });
    const auto end = received_.find('\n');
    if (!came || end == std::string::npos) return json(json::value_t::discarded);
    line = received_.substr(0, end);
    received_.erase(0, end + 1);
    return json::parse(line, nullptr, false);
  }

  bool hangs_up() {
    return run_until([&] {
      take();
      return hung_up_;
    });
  }

  bool closed(ConnectionId id) {
    return run_until([&] { return service_.closings[id] == 1; });
  }

  json ask(std::string_view text, std::span<const int> fds = {}) {
    send(text, fds);
    return receive();
  }

  void take() {
    char buffer[65536];
    const ssize_t count = ::recv(peer_.get(), buffer, sizeof buffer, MSG_DONTWAIT);
    if (count > 0) received_.append(buffer, static_cast<std::size_t>(count));
    if (count == 0 || (count < 0 && errno == ECONNRESET)) hung_up_ = true;
  }

  asio::io_context io_;
  TestService service_;
  Server server_{io_, service_, {.connections = 8, .unanswered = 3, .output_bytes = 1 << 20}};
  UniqueFd peer_;
  ConnectionId id_ = 0;
  std::string received_;
  bool hung_up_ = false;
};

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

TEST_F(ServerTest, LostDescriptorsAreSaid) {
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
  const std::size_t before = open_descriptors();
  const int fd = 0;
  send("{\"jsonrpc\":", std::span(&fd, 1));
  run_until([&] { return open_descriptors() == before + 1; });
  peer_.reset();
  EXPECT_TRUE(closed(id_));
  EXPECT_EQ(service_.handled, 0);
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

TEST_F(ServerTest, AGateSaysWhenAnAnswerIsSaid) {
  send(call("gated", 1) + call("gated", 2));
  ASSERT_TRUE(run_until([&] { return service_.held.size() == 2; }));
  service_.held[0].result("first");
  service_.held[0].result("again");
  service_.held.pop_back();  // dropped
  EXPECT_EQ(ask(call("echo", 9))["id"], 9) << "nothing else has been said";
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
  EXPECT_FALSE(server_.peer(id_ + 1));
}

UniqueFd connect_to(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (::connect(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
    socket.reset();
  }
  return socket;
}

TEST_F(ServerTest, TakesNoMoreConnectionsThanItsLimit) {
  const TemporaryDirectory directory;
  ASSERT_TRUE(server_.listen({.address = "unix:" + (directory / "s")}).ok());
  std::vector<UniqueFd> others;
  others.push_back(std::move(peer_));
  for (int i = 0; i < 7; ++i) others.push_back(connect_to(directory / "s"));  // with peer_: 8
  peer_ = connect_to(directory / "s");
  EXPECT_EQ(receive()["error"]["data"]["name"], "refused");
  EXPECT_TRUE(hangs_up());
  others.clear();
  ASSERT_TRUE(run_until([&] { return service_.closings.size() == 8; }));
  hung_up_ = false;
  peer_ = connect_to(directory / "s");
  EXPECT_EQ(ask(call("echo", 1))["id"], 1);
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
  auto channel = client::RpcChannel::connect("unix:" + (directory / "s"), soon());
  ASSERT_TRUE(channel.ok()) << channel.error().message;
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
      auto channel = client::RpcChannel::connect(address, deadline);
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
