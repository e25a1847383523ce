// A session's link over libfabric's tcp endpoints on the loopback interface, and a node's endpoints
// made by hand: whether they can be reached is found out before anything is sent in earnest.
#include "client/fabric_link.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <thread>
#include <vector>

namespace tally::client {
namespace {

namespace fabric = transport::fabric;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr const char* kHost = "127.0.0.1";
constexpr Nanos kPatience = 10 * kSecond;
constexpr Nanos kShort = 200 * kMillisecond;

// By provider.
class FabricLinkTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    int ends[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    here_ = UniqueFd(ends[0]);
    there_ = UniqueFd(ends[1]);
    domain_ = fabric::Domain::open({.address = kHost, .provider = GetParam()}).value();
    for (auto& endpoint : endpoints_) endpoint = domain_->endpoint().value();
    EXPECT_TRUE(domain_->post_receive(*endpoints_[0], received_, nullptr, &room_));
  }
  void TearDown() override { stop(); }

  // The node works from now on, until stop().
  void work() {
    worker_ = std::thread([this] {
      fi_cq_data_entry entry{};
      while (!stopping_) {
        const bool came = ::fi_cq_read(&domain_->completions(), &entry, 1) == 1;
        if (came && (entry.flags & FI_RECV) != 0) {
          const auto* bytes = static_cast<const std::byte*>(entry.buf);
          messages_.emplace_back(bytes, bytes + entry.len);
          ++came_;
        }
      }
    });
  }
  void stop() {
    stopping_ = true;
    if (worker_.joinable()) worker_.join();
  }
  nlohmann::json names() const {
    nlohmann::json names = nlohmann::json::array();
    for (const auto& endpoint : endpoints_) {
      names.push_back(fabric::to_hex(domain_->name_of(*endpoint).value()));
    }
    return names;
  }
  std::unique_ptr<FabricLink> link() {
    FabricLinkOptions options;
    options.provider = domain_->provider();
    options.local_host = options.remote_host = kHost;
    options.shards = 2;
    options.credit = 4;
    options.watch = here_.get();
    return FabricLink::make(options).value();
  }

  UniqueFd here_, there_;
  std::unique_ptr<fabric::Domain> domain_;
  std::array<fabric::Fid<fid_ep>, 2> endpoints_;
  std::vector<std::vector<std::byte>> messages_;  // to the first endpoint; after stop()
  std::atomic<std::size_t> came_{0};

 private:
  std::array<std::byte, 1 << 16> received_;
  fi_context2 room_{};
  std::atomic<bool> stopping_{false};
  std::thread worker_;
};

TEST_P(FabricLinkTest, EachShardGetsAMessageThatIsDropped) {
  work();
  auto made = link();
  const auto done = made->attached(names(), monotonic_now() + kPatience);
  ASSERT_TRUE(done.ok()) << done.error().message;
  ASSERT_TRUE(made->send_message(0, {}));
  const Nanos until = monotonic_now() + kPatience;
  while (came_ < 2 && monotonic_now() < until) std::this_thread::yield();
  stop();
  ASSERT_EQ(messages_.size(), 2U);
  const std::uint64_t secret = made->introduction().at("secret");
  EXPECT_NE(fabric::open_message(messages_[0]).value().envelope.secret, secret);
  EXPECT_EQ(fabric::open_message(messages_[1]).value().envelope.secret, secret);
}

TEST_P(FabricLinkTest, ANodeThatTakesNoConnectionIsNamedWithTheRemedy) {
  auto made = link();  // and nobody works at the node
  const auto done = made->attached(names(), monotonic_now() + kShort);
  EXPECT_EQ(done.status(), Status::kUnsupported);
  EXPECT_THAT(done.error().message,
              AllOf(HasSubstr("no connection from 127.0.0.1 to the node's 127.0.0.1:"),
                    HasSubstr("allow"), HasSubstr("docs/deploy.md")));
}

TEST_P(FabricLinkTest, OneShardThatCannotBeReachedIsEnough) {
  const nlohmann::json told = names();
  endpoints_[1].reset();
  work();
  auto made = link();
  const auto done = made->attached(told, monotonic_now() + kShort);
  EXPECT_EQ(done.status(), Status::kUnsupported);
  EXPECT_THAT(done.error().message, HasSubstr("no connection from 127.0.0.1 to the node's"));
}

TEST_P(FabricLinkTest, ANodeThatGoesMeanwhileIsLost) {
  auto made = link();
  there_.reset();
  EXPECT_EQ(made->attached(names(), monotonic_now() + kPatience).status(), Status::kNodeLost);
}

TEST_P(FabricLinkTest, NamesThatAreNoneAreRefused) {
  for (const char* text : {"null", "[]", "[1, 2]", R"(["zz", "00"])", R"(["00", "00"])"}) {
    EXPECT_FALSE(link()->attached(nlohmann::json::parse(text), monotonic_now() + kPatience).ok())
        << text;
  }
}

INSTANTIATE_TEST_SUITE_P(, FabricLinkTest, ::testing::Values("", "tcp;ofi_rxm"),
                         [](const auto& provider) {
                           return provider.param[0] == 0 ? "AsItIs" : "Layered";
                         });

}  // namespace
}  // namespace tally::client
