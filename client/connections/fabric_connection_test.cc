// A session's connection over libfabric's tcp endpoints: whether the node's can be reached is found
// out before anything is sent in earnest.
#include "client/connections/fabric_connection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <thread>

#include "tests/support/client/fabric_node.h"
#include "tests/support/client/fabric_senders.h"

namespace tally::client {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr Nanos kTimeout = 10 * kSecond;
constexpr Nanos kShort = 200 * kMillisecond;

// By provider.
class FabricConnectionTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    int ends[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    here_ = UniqueFd(ends[0]);
    there_ = UniqueFd(ends[1]);
  }
  std::unique_ptr<FabricConnection> connection() {
    FabricConnectionOptions options;
    options.provider = node_.provider();
    options.local_host = options.remote_host = FabricNode::kHost;
    options.shards = FabricNode::kShards;
    options.credit = 4;
    options.watch = here_.get();
    return FabricConnection::make(options).value();
  }

  UniqueFd here_, there_;
  FabricNode node_{GetParam()};
};

TEST_P(FabricConnectionTest, EachShardGetsAMessageThatIsDropped) {
  node_.work();
  auto made = connection();
  const auto done = made->attached(node_.names(), monotonic_now() + kTimeout);
  ASSERT_TRUE(done.ok()) << done.error().message;
  ASSERT_TRUE(made->send_message(0, {}));
  const Nanos until = monotonic_now() + kTimeout;
  while (node_.came() < 2 && monotonic_now() < until) std::this_thread::yield();
  node_.stop();
  ASSERT_EQ(node_.messages().size(), 2U);
  const std::uint64_t secret = made->introduction().at("secret");
  const auto sender = [this](std::size_t i) {
    return transport::fabric::open_message(node_.messages()[i]).value().envelope.secret;
  };
  EXPECT_NE(sender(0), secret);
  EXPECT_EQ(sender(1), secret);
}

TEST_P(FabricConnectionTest, ANodeThatTakesNoConnectionIsNamedWithTheRemedy) {
  auto made = connection();  // and nobody works at the node
  const auto done = made->attached(node_.names(), monotonic_now() + kShort);
  EXPECT_EQ(done.status(), Status::kUnsupported);
  EXPECT_THAT(done.error().message,
              AllOf(HasSubstr("no connection from 127.0.0.1 to the node's 127.0.0.1:"),
                    HasSubstr("allow"), HasSubstr("docs/deploy.md")));
}

TEST_P(FabricConnectionTest, OneShardThatCannotBeReachedIsEnough) {
  const nlohmann::json names = node_.names();
  node_.close(1);
  node_.work();
  auto made = connection();
  const auto done = made->attached(names, monotonic_now() + kShort);
  EXPECT_EQ(done.status(), Status::kUnsupported);
  EXPECT_THAT(done.error().message, HasSubstr("no connection from 127.0.0.1 to the node's"));
}

TEST_P(FabricConnectionTest, ANodeThatGoesMeanwhileIsLost) {
  auto made = connection();
  there_.reset();
  EXPECT_EQ(made->attached(node_.names(), monotonic_now() + kTimeout).status(), Status::kNodeLost);
}

// Of ofi_rxm it is not known what becomes of the receive: the session ends.
TEST_P(FabricConnectionTest, StrangersMessagesThatAreTooLongAreDropped) {
  if (GetParam()[0] != 0) GTEST_SKIP() << "not with ofi_rxm";
  constexpr int kStrangers = 8;  // more than receives
  node_.work();
  auto made = connection();
  ASSERT_TRUE(made->attached(node_.names(), monotonic_now() + kTimeout));
  const auto name = transport::fabric::from_hex(made->introduction().at("name").get<std::string>());
  const Nanos until = monotonic_now() + kTimeout;
  const auto send = [&](FabricSenders& sender, const std::vector<std::byte>& message) {
    while (!sender.send(0, message) && monotonic_now() < until) sender.progress();
    while (!sender.idle() && monotonic_now() < until) sender.progress();
  };
  for (int i = 0; i < kStrangers; ++i) {
    FabricSenders stranger(1, node_.provider(), *name);
    send(stranger, std::vector<std::byte>(40'000));
  }
  FabricSenders shard(1, node_.provider(), *name);
  const auto message = transport::fabric::seal({made->introduction().at("secret"), 0, 0}, {});
  RingEntry completion;
  // What was sent before the first has been looked at when the second comes.
  for (int i = 0; i < 2; ++i) {
    send(shard, {message.begin(), message.end()});
    std::size_t came = 0;
    while (came == 0 && monotonic_now() < until) came = made->receive(0, {&completion, 1});
    EXPECT_EQ(came, 1U);
  }
  EXPECT_FALSE(made->broken());
}

TEST_P(FabricConnectionTest, RefusesNamesThatCannotBeRead) {
  for (const char* text : {"null", "[]", "[1, 2]", R"(["zz", "00"])", R"(["00", "00"])"}) {
    const auto done =
        connection()->attached(nlohmann::json::parse(text), monotonic_now() + kTimeout);
    EXPECT_FALSE(done.ok()) << text;
  }
}

TEST(NoticeQueue, KeepsTheContributionOfEachNotice) {
  const std::array<std::byte, 9> bytes{};
  NoticeQueue queue(4);
  std::vector<OutgoingNotice> out;
  std::uint8_t pushed = 0;
  for (std::uint8_t round = 0; round < 10; ++round) {
    RingEntry notice{};
    while (notice.bytes[0] = std::byte{pushed}, queue.push(notice, {&bytes[pushed % 9], 0})) {
      ++pushed;
    }
    queue.pop(out);
    EXPECT_TRUE(queue.empty());
  }
  ASSERT_EQ(out.size(), 40U);
  for (std::uint8_t i = 0; i < out.size(); ++i) {
    EXPECT_EQ(out[i].notice.bytes[0], std::byte{i});
    EXPECT_EQ(out[i].contribution.data(), &bytes[i % 9]);
  }
}

INSTANTIATE_TEST_SUITE_P(, FabricConnectionTest, ::testing::Values("", "tcp;ofi_rxm"),
                         [](const auto& provider) {
                           return provider.param[0] == 0 ? "AsItIs" : "Layered";
                         });

}  // namespace
}  // namespace tally::client
