// What many peers, or peers that are slow on purpose, can take from others: descriptors,
// connections, memory.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/resource.h>

#include <chrono>
#include <cstdlib>
#include <list>

#include "tests/support/net/server_fixture.h"
#include "tests/support/tier.h"

namespace tally::rpc {
namespace {

using nlohmann::json;
using namespace std::chrono_literals;

// RLIMIT_NOFILE of this process, for a while.
class DescriptorLimit {
 public:
  explicit DescriptorLimit(rlim_t soft) {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    const rlimit low{soft, before_.rlim_max};
    ::setrlimit(RLIMIT_NOFILE, &low);
  }
  // The next descriptor is one too many.
  static rlim_t none_left() { return static_cast<rlim_t>(UniqueFd(::dup(0)).get()); }
  ~DescriptorLimit() { ::setrlimit(RLIMIT_NOFILE, &before_); }
  DescriptorLimit(const DescriptorLimit&) = delete;
  DescriptorLimit& operator=(const DescriptorLimit&) = delete;

 private:
  rlimit before_{};
};

TEST_F(ServerTest, EachListenerComesBackWhenDescriptorsDo) {
  if (testing::is_sanitized()) GTEST_SKIP() << "a sanitizer needs descriptors";
  const TemporaryDirectory directory;
  const std::vector<std::string> paths = {directory / "a", directory / "b", directory / "c"};
  std::vector<UniqueFd> peers;
  for (const std::string& path : paths) {
    ASSERT_TRUE(server_.listen({.address = "unix:" + path}).ok());
    peers.push_back(connect_to(path));
  }
  {
    const DescriptorLimit none(1);
    io_.run_for(20ms);
  }
  for (UniqueFd& peer : peers) {
    peer_ = std::move(peer);
    received_.clear();
    EXPECT_EQ(ask(call("echo", 1))["id"], 1);
  }
}

// One of many peers, over TCP: a stranger to the node.
struct Stranger {
  UniqueFd socket;
  std::string received;
  bool hung_up = false;

  void send(std::string_view text) const {
    ASSERT_EQ(send_with_fds(socket.get(), text, {}), static_cast<ssize_t>(text.size()));
  }
  void take() {
    char buffer[65536];
    const ssize_t count = ::recv(socket.get(), buffer, sizeof buffer, MSG_DONTWAIT);
    if (count > 0) received.append(buffer, static_cast<std::size_t>(count));
    if (count == 0 || (count < 0 && errno == ECONNRESET)) hung_up = true;
  }
};

class StrangersTest : public ServerTest {
 protected:
  static Limits few() {
    Limits limits{.connections = 8, .output_bytes = 1 << 20};
    limits.anonymous = {.connections = 6,
                        .per_source = 3,
                        .operators = 2,
                        .idle = 200 * kMillisecond,
                        .unanswered = 2,
                        .all_bytes = 1 << 20};
    return limits;
  }

  void SetUp() override {
    const auto tcp = strangers_.listen({.address = "tcp:127.0.0.1:0"});
    ASSERT_TRUE(tcp.ok());
    port_ = static_cast<std::uint16_t>(std::stoi(tcp->substr(tcp->rfind(':') + 1)));
    ASSERT_TRUE(strangers_.listen({.address = "unix:" + (directory_ / "s")}).ok());
  }

  // From 127.0.0.N.
  Stranger& come(std::uint32_t host) {
    Stranger& one = peers_.emplace_back();
    one.socket.reset(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK - 1 + host);
    const auto* generic = reinterpret_cast<const sockaddr*>(&address);
    EXPECT_EQ(::bind(one.socket.get(), generic, sizeof address), 0);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(port_);
    EXPECT_EQ(::connect(one.socket.get(), generic, sizeof address), 0);
    const std::uint64_t before = strangers_.latest();
    EXPECT_TRUE(run_until([&] { return strangers_.latest() > before || is_refused(); }));
    return one;
  }
  bool is_refused() const { return strangers_.counts().refused > 0; }

  // The answer; discarded where there is none.
  json ask(Stranger& one, std::string_view text) {
    one.send(text);
    return answer(one);
  }
  json answer(Stranger& one) {
    const bool came = run_until([&] {
      one.take();
      return one.received.find('\n') != std::string::npos || one.hung_up;
    });
    const auto end = one.received.find('\n');
    if (!came || end == std::string::npos) return json(json::value_t::discarded);
    const std::string line = one.received.substr(0, end);
    one.received.erase(0, end + 1);
    return json::parse(line, nullptr, false);
  }
  bool is_served(Stranger& one) {
    const json reply = ask(one, call("echo", 7));
    return reply.is_object() && reply.value("id", json()) == 7;
  }
  bool is_closed(Stranger& one) {
    return run_until([&] {
      one.take();
      return one.hung_up;
    });
  }
  void pass(std::chrono::milliseconds span) {
    io_.restart();
    io_.run_for(span);
  }

  const TemporaryDirectory directory_;
  Server strangers_{io_, service_, few()};
  std::uint16_t port_ = 0;
  std::list<Stranger> peers_;
};

TEST_F(StrangersTest, TheOldestOfASourceMakesRoomAndGetsAgain) {
  Stranger& first = come(1);
  Stranger& second = come(1);
  Stranger& other = come(2);
  come(1);
  EXPECT_TRUE(is_served(first)) << "three of a source may be there";
  come(1);
  EXPECT_EQ(answer(second)["error"]["data"]["name"], "again");
  EXPECT_TRUE(is_closed(second));
  EXPECT_TRUE(is_served(first)) << "it has asked since";
  EXPECT_TRUE(is_served(other));
  EXPECT_EQ(strangers_.counts().closed_for_newer, 1U);
}

TEST_F(StrangersTest, TheOldestOfAllMakesRoom) {
  Stranger& first = come(1);
  for (std::uint32_t host = 2; host <= 7; ++host) come(host);
  EXPECT_TRUE(is_closed(first));
  EXPECT_EQ(strangers_.counts().anonymous, 6U);
}

TEST_F(StrangersTest, PeersWithASessionStayWhenOthersFillAllPlaces) {
  Stranger& one = come(1);
  Stranger& two = come(2);
  ask(one, call("session", 1));
  ask(two, call("session", 1));
  for (std::uint32_t host = 3; host < 12; ++host) come(host);
  pass(400ms);
  EXPECT_TRUE(is_served(one));
  EXPECT_TRUE(is_served(two));
  EXPECT_EQ(strangers_.counts().identified, 2U);
  EXPECT_EQ(strangers_.counts().anonymous, 0U) << "they were idle for too long";
}

TEST_F(StrangersTest, WhenAllPlacesAreIdentifiedANewcomerIsRefused) {
  for (std::uint32_t host = 1; host <= 8; ++host) ask(come(host), call("session", 1));
  Stranger& late = come(9);
  EXPECT_EQ(answer(late)["error"]["data"]["name"], "refused");
  EXPECT_TRUE(is_closed(late));
  peer_ = connect_to(directory_ / "s");
  EXPECT_EQ(ServerTest::ask(call("echo", 3))["id"], 3) << "the operator has a place";
}

TEST_F(StrangersTest, AnIdleStrangerIsClosed) {
  Stranger& idle = come(1);
  Stranger& half = come(2);
  Stranger& waiting = come(3);
  waiting.send(call("later", 1));
  for (int i = 0; i < 9; ++i) {  // a byte now and then is no request
    static_cast<void>(send_with_fds(half.socket.get(), "{", {}));
    pass(50ms);
  }
  EXPECT_TRUE(is_closed(idle));
  EXPECT_TRUE(idle.received.empty()) << "a line would be taken for the next answer";
  EXPECT_TRUE(is_closed(half));
  waiting.take();
  EXPECT_FALSE(waiting.hung_up) << "its request is being worked on";
  service_.held.at(0).result(1);
  EXPECT_EQ(answer(waiting)["id"], 1);
  EXPECT_TRUE(is_closed(waiting));
  EXPECT_EQ(strangers_.counts().closed_idle, 3U);
}

TEST_F(StrangersTest, AnOperatorMayBeIdle) {
  peer_ = connect_to(directory_ / "s");
  EXPECT_EQ(ServerTest::ask(call("echo", 1))["id"], 1);
  pass(400ms);
  EXPECT_EQ(ServerTest::ask(call("echo", 2))["id"], 2);
}

TEST_F(StrangersTest, AnonymousAgainAfterTheSession) {
  Stranger& one = come(1);
  ask(one, call("session", 1));
  pass(400ms);
  EXPECT_TRUE(is_served(one));
  ask(one, call("end session", 2));
  EXPECT_EQ(strangers_.counts().anonymous, 1U);
  EXPECT_TRUE(is_closed(one));
}

TEST_F(StrangersTest, AStrangerThatDoesNotReadIsClosed) {
  Stranger& one = come(1);
  const int small = 4096;
  ::setsockopt(one.socket.get(), SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
  for (int i = 0; i < 100 && service_.closings.empty(); ++i) {
    send_with_fds(one.socket.get(), call("big", i), {});
    pass(1ms);
  }
  EXPECT_EQ(service_.closings.size(), 1U);
}

TEST_F(StrangersTest, AStrangerMayAskForOneLargeReply) {
  Stranger& one = come(1);
  EXPECT_EQ(ask(one, call("big", 1))["id"], 1);
  EXPECT_EQ(ask(one, call("big", 2))["id"], 2);
}

TEST_F(StrangersTest, AStrangerHasFewRequestsUnderWay) {
  Stranger& one = come(1);
  one.send(call("later", 1) + call("later", 2));
  EXPECT_EQ(ask(one, call("later", 3))["error"]["data"]["name"], "refused");
}

TEST_F(StrangersTest, DescriptorsWithoutASessionAreNeverTaken) {
  peer_ = connect_to(directory_ / "s");
  EXPECT_EQ(ServerTest::ask(call("echo", 1))["id"], 1);
  const std::size_t before = open_descriptors();
  const std::vector<int> flood(253, 0);
  send("{", flood);
  pass(20ms);
  EXPECT_EQ(open_descriptors(), before);
  EXPECT_EQ(ServerTest::ask("}\n")["error"]["code"], -32600);
  const int fd = 0;
  EXPECT_EQ(ServerTest::ask(call("fds", 2), std::span(&fd, 1))["result"], 0);
  ServerTest::ask(call("session", 3));
  EXPECT_EQ(ServerTest::ask(call("fds", 4), std::span(&fd, 1))["result"], 1);
}

TEST_F(StrangersTest, DescriptorsOfAnUnfinishedRequestAreNotHeldForEver) {
  peer_ = connect_to(directory_ / "s");
  ServerTest::ask(call("session", 1));
  const std::vector<int> flood(100, 0);
  send("{", flood);
  EXPECT_TRUE(hangs_up());
}

TEST_F(StrangersTest, AnOperatorComesInWhenNoDescriptorIsLeft) {
  if (testing::is_sanitized()) GTEST_SKIP() << "a sanitizer needs descriptors";
  std::vector<Stranger*> strangers;
  for (std::uint32_t host = 1; host <= 3; ++host) strangers.push_back(&come(host));
  UniqueFd last = connect_to(directory_ / "s");
  UniqueFd late = connect_to(directory_ / "s");
  {
    const DescriptorLimit none(DescriptorLimit::none_left());
    peer_ = std::move(last);
    EXPECT_EQ(ServerTest::ask(call("echo", 1))["id"], 1) << "a stranger makes room";
    peer_ = std::move(late);
    EXPECT_EQ(ServerTest::ask(call("echo", 2))["id"], 2);
  }
  EXPECT_GE(strangers_.counts().closed_for_descriptors, 1U);
}

TEST_F(StrangersTest, ASpareDescriptorIsForAnOperator) {
  if (testing::is_sanitized()) GTEST_SKIP() << "a sanitizer needs descriptors";
  // The only stranger has a session: nobody can be closed.
  ask(come(1), call("session", 1));
  UniqueFd last = connect_to(directory_ / "s");
  const DescriptorLimit none(DescriptorLimit::none_left());
  peer_ = std::move(last);
  EXPECT_EQ(ServerTest::ask(call("echo", 1))["id"], 1);
}

}  // namespace
}  // namespace tally::rpc
