// What hosts of a run say to each other, over loopback: who agrees, who is refused, who is missing.
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <nlohmann/json.hpp>
#include <thread>

#include "net/line_channel.h"
#include "net/tcp.h"
#include "perf/ceiling/streams.h"
#include "perf/options/agreement.h"
#include "perf/run/lobby.h"

namespace tally::perf {
namespace {

using nlohmann::json;

Options served() {
  Options options;
  options.ranks = 3;
  options.rank = 1;
  options.iterations = 50;
  options.token = "secret";
  options.join_timeout_s = 1;
  return options;
}

TEST(Agreement, UsesTheServedValueOfOptionsThatAreNotNamed) {
  EXPECT_EQ(disagreement(served(), {"allreduce", "--join", "h:1", "--rank", "1"}), std::nullopt);
}

TEST(Agreement, TheSameCommandAtBothSides) {
  EXPECT_EQ(disagreement(served(), {"allreduce", "--join", "h:1", "--rank", "1,2", "--iters", "50",
                                    "--ranks", "3", "--min-bytes", "4K", "--json", "x",
                                    "--report-gbits", "--token", "other"}),
            std::nullopt);
}

TEST(Agreement, TheOptionAndBothValuesAreNamed) {
  const std::pair<std::vector<std::string>, std::string> cases[] = {
      {{"allreduce", "--iters", "20"}, "--iters is 20 at the host that joins and 50 at the one"},
      {{"reduce"}, "the collective is reduce at the host that joins and allreduce"},
      {{"allreduce", "--type", "f32,bf16"}, "--type is f32,bf16 at the host that joins and f32"},
      {{"allreduce", "--op", "max"}, "--op is max at the host that joins and sum"},
      {{"allreduce", "--memory", "stage"}, "--memory is stage at the host that joins and alloc"},
      {{"allreduce", "--check"}, "--check is true at the host that joins and false"},
      {{"allreduce", "--min-bytes", "8K"}, "--min-bytes is 8192 at the host that joins and 4096"},
      {{"allreduce", "--shuffle", "7"}, "--shuffle is 7 at the host that joins and 0"},
      {{"allreduce", "--transport", "shm"}, "--transport is shm at the host that joins and auto"},
      {{"allreduce", "--model", "vgg16,gpt2"}, "--model is vgg16,gpt2 at the host that joins"},
      {{"allreduce", "--ranks", "4"}, "--ranks is 4 at the host that joins and 3"},
  };
  for (const auto& [arguments, expected] : cases) {
    const auto difference = disagreement(served(), arguments);
    ASSERT_TRUE(difference.has_value()) << expected;
    EXPECT_EQ(difference->substr(0, expected.size()), expected);
  }
}

TEST(Agreement, OptionsFromTheNetworkAreChecked) {
  EXPECT_TRUE(options_from_network(to_json(served())).ok());
  const std::pair<const char*, json> bad[] = {
      {"kind", 0},
      {"kind", 7},
      {"types", json::array({200})},
      {"memory", 9},
      {"operations", "sum"},
      {"inflight", 1u << 30},
      {"factor", 1},
      {"ranks", 0},
      {"ranks", 5000},
      {"rank", 3},
      {"root", 3},
      {"iterations", 0},
      {"duration_s", -1},
      {"misalign", 1u << 30},
      {"max_bytes", std::uint64_t{1} << 60},
      {"min_bytes", 0},
      {"modes", json::array({"x"})},
      {"models", std::vector<std::string>(99, "a")},
  };
  for (const auto& [field, value] : bad) {
    json options = to_json(served());
    options[field] = value;
    EXPECT_FALSE(options_from_network(options).ok()) << field << " " << value;
  }
  json options = to_json(served());
  options["inflight"] = 65'536;
  EXPECT_TRUE(options_from_network(options).ok());
  options["types"] = json::array({0, 1, 2});
  EXPECT_FALSE(options_from_network(options).ok());
  EXPECT_FALSE(options_from_network(json::object()).ok());
  EXPECT_FALSE(options_from_network(json()).ok());
}

TEST(Agreement, TextOfOtherHostsBecomesOneShortLine) {
  EXPECT_EQ(printable("a\x1b[2Jb\nc"), "a [2Jb c");
  EXPECT_EQ(printable(std::string(10'000, 'x')).size(), 503u);
}

TEST(Tcp, Addresses) {
  EXPECT_EQ(net::parse_host_port("--join", "h:77").value().text(), "h:77");
  EXPECT_EQ(net::parse_host_port("--join", "tcp:[fd00::1]:77").value().host, "[fd00::1]");
  for (const char* text : {"", "h", "h:", ":7", "h:0", "h:65536", "h:7x", "h:-1"}) {
    const auto parsed = net::parse_host_port("--join", text);
    ASSERT_FALSE(parsed.ok()) << text;
    EXPECT_NE(parsed.error().message.find("--join"), std::string::npos);
  }
}

struct Pair {
  Pair() {
    int fds[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    here = std::make_unique<net::Channel>(UniqueFd(fds[0]));
    there = UniqueFd(fds[1]);
  }
  std::unique_ptr<net::Channel> here;
  UniqueFd there;
};

TEST(Channel, AMessageThatIsNoObjectEndsTheConnection) {
  for (const std::string line : {"nonsense\n", "3\n", "[]\n", "\n"}) {
    Pair pair;
    ASSERT_EQ(::send(pair.there.get(), line.data(), line.size(), 0),
              static_cast<ssize_t>(line.size()));
    EXPECT_EQ(pair.here->receive(monotonic_now() + kSecond), std::nullopt);
    EXPECT_TRUE(pair.here->broken());
  }
}

TEST(Channel, ALineWithoutAnEndIsNotKept) {
  Pair pair;
  std::jthread sender([&] {
    const std::string much(1 << 20, 'x');
    while (::send(pair.there.get(), much.data(), much.size(), MSG_NOSIGNAL) > 0) continue;
  });
  EXPECT_EQ(pair.here->receive(), std::nullopt);
  EXPECT_TRUE(pair.here->broken());
  pair.here.reset();
}

TEST(Channel, SilenceEndsAtTheDeadline) {
  Pair pair;
  EXPECT_EQ(pair.here->receive(monotonic_now() + 10 * kMillisecond), std::nullopt);
  EXPECT_FALSE(pair.here->broken());
}

// A lobby that awaits ranks 1 and 2, in a thread.
class LobbyTest : public testing::Test {
 protected:
  LobbyTest()
      : listener_(net::listen_tcp({"127.0.0.1", 0}).value()),
        interrupt_(::eventfd(0, EFD_CLOEXEC)),
        lobby_({options_,
                4242,
                {1, 2},
                nullptr,
                [this](const std::string& line) { printed_ += line + "\n"; }},
               listener_.get()) {}

  void gather(Nanos timeout) {
    thread_ = std::jthread(
        [this, timeout] { result_ = lobby_.gather(interrupt_.get(), monotonic_now() + timeout); });
  }
  net::Channel visit() {
    return net::Channel(
        net::connect_tcp({"127.0.0.1", net::local_port(listener_.get())}, monotonic_now() + kSecond)
            .value());
  }
  static json answer(net::Channel& channel) {
    return channel.receive(monotonic_now() + 5 * kSecond).value_or(json{{"event", "nothing"}});
  }
  net::Channel join(std::uint32_t rank) {
    net::Channel channel = visit();
    channel.send({{"event", "join"}, {"protocol", kJoinProtocol}, {"rank", rank}});
    EXPECT_EQ(answer(channel).at("event"), "options");
    channel.send({{"event", "agreed"}});
    return channel;
  }

  Options options_ = served();
  UniqueFd listener_;
  UniqueFd interrupt_;
  std::string printed_;
  Lobby lobby_;
  Result<std::map<std::uint32_t, Guest>> result_ = Error{};
  std::jthread thread_;
};

TEST_F(LobbyTest, WaitsUntilAllAgree) {
  gather(20 * kSecond);
  const net::Channel one = join(1);
  const net::Channel two = join(2);
  thread_.join();
  ASSERT_TRUE(result_.ok()) << result_.error().message;
  EXPECT_EQ(result_->size(), 2u);
  EXPECT_EQ(result_->at(1).host, "127.0.0.1");
}

TEST_F(LobbyTest, OptionsAreForTheRankAndWithoutTheSecret) {
  gather(20 * kSecond);
  net::Channel visitor = visit();
  visitor.send({{"event", "join"}, {"protocol", kJoinProtocol}, {"rank", 2}});
  const auto sent = options_from_network(answer(visitor).at("options"));
  ASSERT_TRUE(sent.ok());
  EXPECT_EQ(sent->rank, 2u);
  EXPECT_EQ(sent->token, "");
  EXPECT_EQ(sent->address, "tcp:127.0.0.1:4242");
  EXPECT_EQ(::write(interrupt_.get(), "12345678", 8), 8);
  thread_.join();
  EXPECT_EQ(result_.status(), Status::kCancelled);
  EXPECT_EQ(answer(visitor).at("event"), "refused");
}

TEST_F(LobbyTest, RefusesWrongVisitorsAndGoesOn) {
  gather(20 * kSecond);
  const json wrong[] = {{{"event", "join"}, {"protocol", 99}, {"rank", 1}},
                        {{"event", "join"}, {"protocol", kJoinProtocol}, {"rank", 0}},
                        {{"event", "join"}, {"protocol", kJoinProtocol}, {"rank", "one"}},
                        {{"event", "join"}},
                        {{"event", 5}},
                        {{"event", "agreed"}}};
  for (const json& message : wrong) {
    net::Channel visitor = visit();
    visitor.send(message);
    EXPECT_EQ(answer(visitor).at("event"), "refused") << message;
  }
  const net::Channel one = join(1);
  net::Channel again = visit();
  again.send({{"event", "join"}, {"protocol", kJoinProtocol}, {"rank", 1}});
  EXPECT_EQ(answer(again).at("message"), "rank 1 has joined already");
  const net::Channel two = join(2);
  thread_.join();
  EXPECT_TRUE(result_.ok());
}

TEST_F(LobbyTest, NamesRanksThatDoNotJoinOrDoNotAgree) {
  gather(kSecond);
  net::Channel one = join(1);
  net::Channel two = visit();
  two.send({{"event", "join"}, {"protocol", kJoinProtocol}, {"rank", 2}});
  answer(two);
  two.send({{"event", "refused"}, {"message", "--iters is 20 here"}});
  thread_.join();
  ASSERT_EQ(result_.status(), Status::kDeadline);
  EXPECT_NE(result_.error().message.find("rank 2 did not join within 1 s"), std::string::npos);
  EXPECT_NE(result_.error().message.find("(rank 2: --iters is 20 here)"), std::string::npos);
  EXPECT_EQ(answer(one).at("event"), "refused");
}

TEST_F(LobbyTest, AwaitsARankThatLeftAgain) {
  gather(20 * kSecond);
  { const net::Channel one = join(1); }
  const net::Channel two = join(2);
  net::Channel one = visit();
  json sent = json::object();
  for (int attempt = 0; attempt < 100 && sent.value("event", "") != "options"; ++attempt) {
    one = visit();  // until it is known that the first has left
    one.send({{"event", "join"}, {"protocol", kJoinProtocol}, {"rank", 1}});
    sent = answer(one);
  }
  one.send({{"event", "agreed"}});
  thread_.join();
  ASSERT_TRUE(result_.ok());
  EXPECT_NE(printed_.find("rank 1 at 127.0.0.1 left again"), std::string::npos);
}

TEST_F(LobbyTest, SilentVisitorsLockOutNoRank) {
  gather(20 * kSecond);
  std::vector<net::Channel> silent;
  for (int i = 0; i < 200; ++i) silent.push_back(visit());
  const net::Channel one = join(1);
  const net::Channel two = join(2);
  thread_.join();
  EXPECT_TRUE(result_.ok());
}

TEST_F(LobbyTest, AVisitorSendsNoLongLines) {
  gather(20 * kSecond);
  net::Channel visitor = visit();
  const std::string much(200'000, 'x');
  static_cast<void>(::send(visitor.fd(), much.data(), much.size(), MSG_NOSIGNAL));
  EXPECT_FALSE(visitor.receive(monotonic_now() + 5 * kSecond));
  EXPECT_TRUE(net::wait_for(visitor.fd(), POLLRDHUP, monotonic_now() + 5 * kSecond))
      << "it was hung up on";
  const net::Channel one = join(1);
  const net::Channel two = join(2);
  thread_.join();
  EXPECT_TRUE(result_.ok());
}

TEST(Streams, MoveWhatTheCollectiveMoves) {
  Options options = served();
  options.kind = TALLY_REDUCE;
  options.root = 2;
  const Row row{.buckets = equal_buckets(1000, 2)};
  EXPECT_EQ(bytes_sent(options, row, 0), 8000u);
  EXPECT_EQ(bytes_received(options, row, 0), 0u);
  EXPECT_EQ(bytes_received(options, row, 2), 8000u);
  options.kind = TALLY_ALL_GATHER;
  EXPECT_EQ(bytes_sent(options, row, 0) + bytes_sent(options, row, 1) + bytes_sent(options, row, 2),
            8000u);
}

TEST(Streams, EveryByteOnceOrNothing) {
  Pair pair;
  make_stream(pair.here->fd());
  make_stream(pair.there.get());
  std::vector<std::byte> in(70'000, std::byte{7}), out(999);
  {
    std::jthread sender([&] { EXPECT_TRUE(send_stream(pair.there.get(), in, 500'000)); });
    EXPECT_TRUE(receive_stream(pair.here->fd(), out, 500'000));
  }
  EXPECT_EQ(out.front(), std::byte{7});
  pair.there.reset();
  EXPECT_FALSE(receive_stream(pair.here->fd(), out, 1));
}

}  // namespace
}  // namespace tally::perf
