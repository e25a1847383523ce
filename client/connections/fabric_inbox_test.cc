// The buffers of a connection's messages, over libfabric's tcp endpoints: none that is sent stays
// behind.
#include "client/connections/fabric_inbox.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "base/clock.h"
#include "tests/support/client/fabric_senders.h"

namespace tally::client {
namespace {

namespace fabric = transport::fabric;

constexpr Nanos kInboxTimeout = 10 * kSecond;
constexpr std::size_t kSenders = 8;
constexpr std::size_t kLongMessage = fabric::kMessageBytes + sizeof(fabric::Store) + 8192;

class FabricInboxTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(inbox_.open(*domain_, *endpoint_, kSenders));
    senders_ = std::make_unique<FabricSenders>(kSenders, domain_->provider(), name());
    for (std::size_t sender = 0; sender < kSenders; ++sender) {
      ASSERT_TRUE(
          until([&] { return senders_->send(sender, message(sender, fabric::kMessageBytes)); }));
    }
    ASSERT_TRUE(until([&] { return came_ == kSenders; }));
    came_ = 0;
  }
  fabric::Name name() { return domain_->name_of(*endpoint_).value(); }

  static std::vector<std::byte> message(std::size_t sender, std::size_t bytes) {
    return std::vector<std::byte>(bytes, std::byte(sender));
  }
  // As the connection does.
  void receive() {
    std::array<fi_cq_data_entry, 32> entries;
    const ssize_t count = ::fi_cq_read(&domain_->completions(), entries.data(), entries.size());
    for (ssize_t i = 0; i < count; ++i) {
      const fi_cq_data_entry& entry = entries[static_cast<std::size_t>(i)];
      const std::span bytes(static_cast<const std::byte*>(entry.buf), entry.len);
      came_ += bytes.empty() ? 0 : 1;
      EXPECT_TRUE(std::all_of(bytes.begin(), bytes.end(),
                              [&](std::byte byte) { return byte == bytes.front(); }));
      ASSERT_TRUE(inbox_.taken(entry));
    }
  }
  bool until(const std::function<bool()>& done) {
    const Nanos end = monotonic_now() + kInboxTimeout;
    while (!done()) {
      senders_->progress();
      receive();
      if (monotonic_now() > end) return false;
    }
    return true;
  }
  // All stand in the connections before the first is received: who receives has slept.
  void send_from_all(std::size_t each, std::size_t bytes) {
    for (std::size_t i = 0; i < each; ++i) {
      for (std::size_t sender = 0; sender < kSenders; ++sender) {
        ASSERT_TRUE(senders_->send(sender, message(sender, bytes)));
      }
    }
    const Nanos end = monotonic_now() + kInboxTimeout;
    while (!senders_->idle()) {
      senders_->progress();
      ASSERT_LT(monotonic_now(), end);
    }
  }

  std::unique_ptr<fabric::Domain> domain_ = fabric::Domain::open({.address = "127.0.0.1"}).value();
  FabricInbox inbox_;
  fabric::Fid<fid_ep> endpoint_ = domain_->endpoint().value();
  std::unique_ptr<FabricSenders> senders_;
  std::size_t came_ = 0;
};

TEST_F(FabricInboxTest, MessagesThatWaitInEachConnectionAllCome) {
  send_from_all(2, kLongMessage);
  EXPECT_TRUE(until([&] { return came_ == 2 * kSenders; })) << came_;
}

TEST_F(FabricInboxTest, CompletionsThatWaitInEachConnectionAllCome) {
  constexpr std::size_t kCredit = 256;
  send_from_all(kCredit, fabric::kMessageBytes);
  EXPECT_TRUE(until([&] { return came_ == kCredit * kSenders; })) << came_;
}

}  // namespace
}  // namespace tally::client
