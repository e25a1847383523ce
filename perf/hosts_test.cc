// What hosts of a run say to each other, over loopback: who agrees, who is refused, who is missing.
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <nlohmann/json.hpp>
#include <thread>

#include "client/tcp.h"
#include "perf/agreement.h"
#include "perf/channel.h"
#include "perf/lobby.h"
#include "perf/streams.h"

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

TEST(Agreement, WhatIsNotNamedIsAsServed) {
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
  for (const auto& [words, expected] : cases) {
    const auto said = disagreement(served(), words);
    ASSERT_TRUE(said.has_value()) << expected;
    EXPECT_EQ(said->substr(0, expected.size()), expected);
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

TEST(Agreement, WordsOfOthersAreOneShortLine) {
  EXPECT_EQ(printable("a\x1b[2Jb\nc"), "a [2Jb c");
  EXPECT_EQ(printable(std::string(10'000, 'x')).size(), 503u);
}

TEST(Tcp, Addresses) {
  EXPECT_EQ(client::parse_host_port("--join", "h:77").value().text(), "h:77");
  EXPECT_EQ(client::parse_host_port("--join", "tcp:[fd00::1]:77").value().host, "[fd00::1]");
  for (const char* text : {"", "h", "h:", ":7", "h:0", "h:65536", "h:7x", "h:-1"}) {
    const auto parsed = client::parse_host_port("--join", text);
    ASSERT_FALSE(parsed.ok()) << text;
    EXPECT_NE(parsed.error().message.find("--join"), std::string::npos);
  }
}

struct Pair {
  Pair() {
    int fds[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    here = std::make_unique<Channel>(UniqueFd(fds[0]));
    there = UniqueFd(fds[1]);
  }
  std::unique_ptr<Channel> here;
  UniqueFd there;
};

TEST(Channel, WhatIsNoObjectEndsTheConversation) {
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
      : listener_(client::listen_tcp({"127.0.0.1", 0}).value()),
        interrupt_(::eventfd(0, EFD_CLOEXEC)),
        lobby_(
            {options_, 4242, {1, 2}, [this](const std::string& words) { told_ += words + "\n"; }},
            listener_.get()) {}

  void gather(Nanos patience) {
    thread_ = std::jthread([this, patience] {
      result_ = lobby_.gather(interrupt_.get(), monotonic_now() + patience);
    });
  }
  Channel visit() {
    return Channel(client::connect_tcp({"127.0.0.1", client::local_port(listener_.get())},
                                       monotonic_now() + kSecond)
                       .value());
  }
  static json answer(Channel& channel) {
    return channel.receive(monotonic_now() + 5 * kSecond).value_or(json{{"event", "nothing"}});
  }
  Channel join(std::uint32_t rank) {
    Channel channel = visit();
    channel.send({{"event", "join"}, {"protocol", kJoinProtocol}, {"rank", rank}});
    EXPECT_EQ(answer(channel).at("event"), "options");
    channel.send({{"event", "agreed"}});
    return channel;
  }

  Options options_ = served();
  UniqueFd listener_;
  UniqueFd interrupt_;
  std::string told_;
  Lobby lobby_;
  Result<std::map<std::uint32_t, Guest>> result_ = Error{};
  std::jthread thread_;
};

TEST_F(LobbyTest, WaitsUntilAllAgree) {
  gather(20 * kSecond);
  const Channel one = join(1);
  const Channel two = join(2);
  thread_.join();
  ASSERT_TRUE(result_.ok()) << result_.error().message;
  EXPECT_EQ(result_->size(), 2u);
  EXPECT_EQ(result_->at(1).host, "127.0.0.1");
}

TEST_F(LobbyTest, OptionsAreForTheRankAndWithoutTheSecret) {
  gather(20 * kSecond);
  Channel visitor = visit();
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

TEST_F(LobbyTest, WhoeverIsWrongIsRefusedAndTheRestGoesOn) {
  gather(20 * kSecond);
  const json wrong[] = {{{"event", "join"}, {"protocol", 99}, {"rank", 1}},
                        {{"event", "join"}, {"protocol", kJoinProtocol}, {"rank", 0}},
                        {{"event", "join"}, {"protocol", kJoinProtocol}, {"rank", "one"}},
                        {{"event", "join"}},
                        {{"event", 5}},
                        {{"event", "agreed"}}};
  for (const json& message : wrong) {
    Channel visitor = visit();
    visitor.send(message);
    EXPECT_EQ(answer(visitor).at("event"), "refused") << message;
  }
  const Channel one = join(1);
  Channel again = visit();
  again.send({{"event", "join"}, {"protocol", kJoinProtocol}, {"rank", 1}});
  EXPECT_EQ(answer(again).at("message"), "rank 1 has joined already");
  const Channel two = join(2);
  thread_.join();
  EXPECT_TRUE(result_.ok());
}

TEST_F(LobbyTest, WhoDoesNotComeOrDoesNotAgreeIsNamed) {
  gather(kSecond);
  Channel one = join(1);
  Channel two = visit();
  two.send({{"event", "join"}, {"protocol", kJoinProtocol}, {"rank", 2}});
  answer(two);
  two.send({{"event", "refused"}, {"message", "--iters is 20 here"}});
  thread_.join();
  ASSERT_EQ(result_.status(), Status::kDeadline);
  EXPECT_NE(result_.error().message.find("rank 2 did not join within 1 s"), std::string::npos);
  EXPECT_NE(result_.error().message.find("(rank 2: --iters is 20 here)"), std::string::npos);
  EXPECT_EQ(answer(one).at("event"), "refused");
}

TEST_F(LobbyTest, WhoLeavesAgainIsAwaitedAgain) {
  gather(20 * kSecond);
  { const Channel one = join(1); }
  const Channel two = join(2);
  Channel one = visit();
  json sent = json::object();
  for (int attempt = 0; attempt < 100 && sent.value("event", "") != "options"; ++attempt) {
    one = visit();  // until it is known that the first has left
    one.send({{"event", "join"}, {"protocol", kJoinProtocol}, {"rank", 1}});
    sent = answer(one);
  }
  one.send({{"event", "agreed"}});
  thread_.join();
  ASSERT_TRUE(result_.ok());
  EXPECT_NE(told_.find("rank 1 at 127.0.0.1 left again"), std::string::npos);
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
