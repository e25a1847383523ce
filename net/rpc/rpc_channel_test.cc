#include "net/rpc/rpc_channel.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <atomic>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "net/address.h"
#include "net/tcp.h"

namespace tally::rpc {
namespace {

using nlohmann::json;

Nanos soon() {
  return monotonic_now() + 5 * kSecond;
}

// A node that does what the test asks for, with one connection.
class FakeNode {
 public:
  explicit FakeNode(std::function<void(int)> serve) : FakeNode() { start(std::move(serve)); }
  FakeNode() {
    path_ = "/tmp/tally-channel-test-" + std::to_string(::getpid()) + ".sock";
    ::unlink(path_.c_str());
  }
  ~FakeNode() {
    if (thread_.joinable()) thread_.join();
    ::unlink(path_.c_str());
  }

  void start(std::function<void(int)> serve) {
    auto address = net::parse_address(path_);
    listener_ = UniqueFd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    ASSERT_EQ(::bind(listener_.get(), reinterpret_cast<sockaddr*>(&address->socket),
                     sizeof address->socket),
              0);
    ASSERT_EQ(::listen(listener_.get(), 1), 0);
    thread_ = std::thread([this, serve = std::move(serve)] {
      const UniqueFd connection(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      serve(connection.get());
    });
  }

  std::string address() const { return "unix:" + path_; }
  void forget() { ::unlink(path_.c_str()); }
  void stop_listening() { listener_.reset(); }

 private:
  std::string path_;
  UniqueFd listener_;
  std::thread thread_;
};

std::string read_line(int fd) {
  std::string line;
  char c = 0;
  while (::recv(fd, &c, 1, 0) == 1 && c != '\n') line += c;
  return line;
}

void write(int fd, const std::string& text) {
  static_cast<void>(::send(fd, text.data(), text.size(), MSG_NOSIGNAL));
}

// What comes of a call when the node answers with `reply`.
Result<json> answered(const std::string& reply) {
  FakeNode node([&](int fd) {
    read_line(fd);
    write(fd, reply);
  });
  auto channel = RpcChannel::connect(node.address(), soon());
  if (!channel) return channel.error();
  return channel->call("m", json::object(), {}, soon());
}

TEST(RpcChannel, SendsARequestAndTakesItsResult) {
  json request;
  FakeNode node([&](int fd) {
    request = json::parse(read_line(fd), nullptr, false);
    for (const char c : std::string(R"({"jsonrpc":"2.0","id":1,"result":[7]})") + "\n") {
      write(fd, {c});
    }
  });
  auto channel = RpcChannel::connect(node.address(), soon());
  ASSERT_TRUE(channel.ok()) << channel.error().message;
  RpcChannel moved = std::move(channel).value();
  auto result = moved.call("m", {{"a", 1}}, {}, soon());
  ASSERT_TRUE(result.ok()) << result.error().message;
  EXPECT_EQ(*result, json::array({7}));
  EXPECT_EQ(request,
            (json{{"jsonrpc", "2.0"}, {"id", 1}, {"method", "m"}, {"params", {{"a", 1}}}}));
}

TEST(RpcChannel, ReportsThatNoNodeListens) {
  FakeNode node;
  auto none = RpcChannel::connect(node.address(), 0);
  ASSERT_EQ(none.status(), Status::kUnavailable);
  EXPECT_NE(none.error().message.find("is tallyd running?"), std::string::npos);
  EXPECT_EQ(RpcChannel::connect("tcp:x", 0).status(), Status::kInvalidArgument);
  EXPECT_EQ(RpcChannel::connect("unix:/dev/null", 0).status(), Status::kUnavailable);
}

TEST(RpcChannel, WaitsForANodeThatIsStarting) {
  FakeNode node;
  Status status = Status::kInternal;
  std::thread client([&] { status = RpcChannel::connect(node.address(), soon()).status(); });
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  node.start([](int) {});
  client.join();
  EXPECT_EQ(status, Status::kOk);
}

TEST(RpcChannel, OfSeveralAddressesTheFirstThatListens) {
  FakeNode node([](int) {});
  const std::string nobody = "unix:/nonexistent/a,tcp:127.0.0.1:1";
  const auto channel = RpcChannel::connect_first(nobody + "," + node.address());
  ASSERT_TRUE(channel.ok()) << channel.error().message;
  EXPECT_EQ(channel->address(), node.address());
  const auto none = RpcChannel::connect_first(nobody);
  ASSERT_FALSE(none.ok());
  EXPECT_NE(none.error().message.find("/nonexistent/a"), std::string::npos);
  EXPECT_NE(none.error().message.find("127.0.0.1:1"), std::string::npos);
}

TEST(RpcChannel, TakesTheNodesStatusAndMessage) {
  auto refused = answered(R"({"jsonrpc":"2.0","id":1,"error":{"code":-32013,)"
                          R"("message":"job x is full","data":{"status":13,"name":"refused"}}})"
                          "\n");
  ASSERT_EQ(refused.status(), Status::kRefused);
  EXPECT_EQ(refused.error().message, "job x is full");
  // The parting words of a node that cannot read the request carry no id.
  EXPECT_EQ(answered(R"({"id":null,"error":{"message":"?","data":{"status":17}}})"
                     "\n")
                .status(),
            Status::kProtocol);
}

TEST(RpcChannel, ABrokenNodeIsAnErrorAndNothingWorse) {
  for (const char* reply : {"nonsense\n", "[]\n", "7\n", "{\"id\":1}\n", "{\"id\":1,\"error\":3}\n",
                            "{\"id\":1,\"error\":{\"message\":4}}\n",
                            "{\"id\":1,\"error\":{\"data\":{\"status\":0}}}\n",
                            "{\"id\":1,\"error\":{\"data\":{\"status\":999}}}\n",
                            "{\"id\":1,\"error\":{\"data\":{\"status\":-1}}}\n", "\xff\n"}) {
    EXPECT_EQ(answered(reply).status(), Status::kProtocol) << reply;
  }
}

TEST(RpcChannel, AHangUpIsNodeLostAndStaysSo) {
  FakeNode node([](int fd) {
    read_line(fd);
    write(fd, "{\"id\":1,\"resu");
  });
  auto channel = RpcChannel::connect(node.address(), soon());
  ASSERT_TRUE(channel.ok());
  EXPECT_EQ(channel->call("m", json::object(), {}, soon()).status(), Status::kNodeLost);
  EXPECT_EQ(channel->fd(), -1);
  EXPECT_EQ(channel->call("m", json::object(), {}, soon()).status(), Status::kNodeLost);
}

TEST(RpcChannel, AfterADeadlineTheLateAnswerIsPassedOver) {
  FakeNode node([](int fd) {
    read_line(fd);
    read_line(fd);
    write(fd, "{\"id\":1,\"result\":\"late\"}\n{\"id\":2,\"result\":\"now\"}\n");
  });
  auto channel = RpcChannel::connect(node.address(), soon());
  ASSERT_TRUE(channel.ok());
  const Nanos start = monotonic_now();
  EXPECT_EQ(channel->call("m", json::object(), {}, start + 20 * kMillisecond).status(),
            Status::kDeadline);
  EXPECT_LT(monotonic_now() - start, kSecond);
  auto result = channel->call("m", json::object(), {}, soon());
  ASSERT_TRUE(result.ok()) << result.error().message;
  EXPECT_EQ(*result, "now");
}

// It answers, as fast as it can, what nobody has asked.
TEST(RpcChannel, ANodeThatSpeaksWithoutEndIsADeadline) {
  std::atomic<bool> over{false};
  FakeNode node([&](int fd) {
    read_line(fd);
    const Nanos end = monotonic_now() + 5 * kSecond;
    while (!over && monotonic_now() < end) {
      write(fd, R"({"jsonrpc":"2.0","id":999,"result":{}})"
                "\n");
    }
  });
  auto channel = RpcChannel::connect(node.address(), soon()).value();
  const Nanos begin = monotonic_now();
  const auto answer = channel.call("node.status", {}, {}, begin + 50 * kMillisecond);
  EXPECT_EQ(answer.status(), Status::kDeadline);
  EXPECT_FALSE(channel.answer(7)) << "a look at what is there ends too";
  EXPECT_LT(monotonic_now() - begin, 4 * kSecond);
  over = true;
}

TEST(RpcChannel, ANodeThatDoesNotReadIsADeadline) {
  std::atomic<bool> done{false};
  FakeNode node([&](int) {
    while (!done) std::this_thread::yield();
  });
  auto channel = RpcChannel::connect(node.address(), soon());
  ASSERT_TRUE(channel.ok());
  const json params = {{"fill", std::string(60'000, 'x')}};
  Status last = Status::kOk;
  for (int i = 0; i < 100 && channel->fd() >= 0; ++i) {
    last = channel->call("m", params, {}, monotonic_now() + 2 * kMillisecond).status();
    ASSERT_TRUE(last == Status::kDeadline || last == Status::kNodeLost);
  }
  done = true;
}

TEST(RpcChannel, RefusesWhatANodeWouldRefuse) {
  FakeNode node([](int fd) { read_line(fd); });
  auto channel = RpcChannel::connect(node.address(), soon());
  ASSERT_TRUE(channel.ok());
  const std::vector<int> many(129, 0);
  EXPECT_EQ(channel->call("m", json::object(), many, soon()).status(), Status::kInvalidArgument);
  EXPECT_EQ(channel->call("m", {{"t", std::string(70'000, 'x')}}, {}, soon()).status(),
            Status::kInvalidArgument);
  const int closed = 987'654;
  EXPECT_EQ(channel->call("m", json::object(), std::span(&closed, 1), soon()).status(),
            Status::kInvalidArgument);
  EXPECT_GE(channel->fd(), 0);
}

TEST(RpcChannel, ReportsThatNoNodeListensOverTcpAtOnceAndAtTheDeadline) {
  for (const Nanos timeout : {Nanos{0}, 200 * kMillisecond}) {
    const Nanos began = monotonic_now();
    auto none = RpcChannel::connect("tcp:127.0.0.1:1", began + timeout);
    ASSERT_EQ(none.status(), Status::kUnavailable);
    EXPECT_NE(none.error().message.find("refused"), std::string::npos) << none.error().message;
    EXPECT_NE(none.error().message.find("--listen-tcp"), std::string::npos);
    EXPECT_LT(monotonic_now() - began, timeout + kSecond);
  }
}

// A listener that takes nobody: what comes when its queue is full is dropped, as by a dead host.
TEST(RpcChannel, WhoDoesNotAnswerTheHandshakeCostsItsTime) {
  const auto listener = net::listen_tcp({"127.0.0.1", 0}).value();
  ::listen(listener.get(), 0);
  const std::string address = "tcp:127.0.0.1:" + std::to_string(net::local_port(listener.get()));
  std::vector<RpcChannel> queued;
  Nanos took = 0;
  for (bool full = false; !full && queued.size() < 10;) {
    const Nanos began = monotonic_now();
    auto one = RpcChannel::connect(address, 0, {}, 200 * kMillisecond);
    took = monotonic_now() - began;
    full = !one.ok();
    if (one) queued.push_back(std::move(one).value());
  }
  EXPECT_GE(took, 200 * kMillisecond);
  EXPECT_LT(took, 2 * kSecond);
}

TEST(Address, OfTcpHasHostAndPort) {
  const auto v4 = net::resolve_tcp("tcp:127.0.0.1:7733", false);
  ASSERT_TRUE(v4.ok());
  EXPECT_EQ(net::host_of(v4->front().socket), "127.0.0.1");
  const auto v6 = net::resolve_tcp("tcp:[::1]:7733", false);
  ASSERT_TRUE(v6.ok());
  EXPECT_EQ(net::host_of(v6->front().socket), "::1");
  EXPECT_TRUE(net::resolve_tcp("tcp:*:0", true).ok());
  for (const char* wrong : {"tcp:", "tcp:7733", "tcp::7733", "tcp:host:"}) {
    EXPECT_EQ(net::resolve_tcp(wrong, false).status(), Status::kInvalidArgument) << wrong;
  }
  EXPECT_EQ(net::resolve_tcp("tcp:127.0.0.1:http", false).status(), Status::kUnavailable);
}

// Hosts come from other machines: names are not looked up.
TEST(Address, OfThisMachineTowardsAnother) {
  EXPECT_EQ(*net::local_host_towards("127.0.0.1"), "127.0.0.1");
  EXPECT_EQ(*net::local_host_towards("::1"), "::1");
  for (const char* wrong : {"localhost", "", "127.0.0.1:5"}) {
    EXPECT_EQ(net::local_host_towards(wrong).status(), Status::kUnavailable) << wrong;
  }
}

TEST(Address, HasADefaultForBothSides) {
  ::unsetenv("TALLY_ADDRESS");
  EXPECT_TRUE(net::parse_address(net::default_listen_address()).ok());
  EXPECT_TRUE(net::parse_address(net::default_connect_address()).ok());
  ::setenv("TALLY_ADDRESS", "unix:/x", 1);
  EXPECT_EQ(net::default_connect_address(), "unix:/x");
  ::unsetenv("TALLY_ADDRESS");
}

TEST(Tcp, HostsWithColonsNeedBracketsBeforeAPort) {
  EXPECT_EQ(net::bracketed("10.0.0.1"), "10.0.0.1");
  EXPECT_EQ(net::bracketed("fd00::1"), "[fd00::1]");
  EXPECT_EQ(net::bracketed("[fd00::1]"), "[fd00::1]");
  EXPECT_EQ(net::bracketed(""), "");
}

}  // namespace
}  // namespace tally::rpc
