// Fixture for tests of the client's end of transport verbs: a connection and the transports of a
// shard, over fake devices of this process.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <memory>
#include <stdexcept>
#include <vector>

#include "client/connections/verbs_connection.h"
#include "dataplane/transport/verbs/verbs_transport.h"
#include "tests/support/transport/fake_verbs.h"

namespace tally::client {

namespace verbs = transport::verbs;

inline constexpr transport::Peer kPeer = 2;
inline constexpr std::uint32_t kCredit = 8;

class VerbsConnectionTest : public ::testing::Test {
 protected:
  explicit VerbsConnectionTest(bool dmabufs = false)
      : api_({{.name = "node"}, {.name = "worker", .dmabufs = dmabufs}}) {
    std::array<int, 2> pair{};
    if (::socketpair(AF_UNIX, SOCK_STREAM, 0, pair.data()) != 0) throw std::runtime_error("pair");
    here_ = UniqueFd(pair[0]);
    there_ = UniqueFd(pair[1]);
    for (auto& transport : transports_) transport = open_transport();
  }

  std::unique_ptr<verbs::VerbsTransport> open_transport(std::uint32_t mtu = 0) {
    return verbs::VerbsTransport::open(api_, {.device = {.device = "node", .host = {}, .mtu = mtu},
                                              .credit = kCredit,
                                              .landing_bytes = 1 << 20,
                                              .tiles = {}})
        .value();
  }

  VerbsConnectionOptions options() {
    return {.device = {.device = "worker", .host = {}},
            .shards = 2,
            .credit = kCredit,
            .eager_bytes = verbs::kEagerBytes,
            .probe_bytes = verbs::kProbeBytes,
            .watch = here_.get()};
  }
  // Opens the worker's device, as a program that uses libibverbs does.
  verbs::Context open_worker() {
    int count = 0;
    ibv_device** list = api_.get_device_list(&count);
    verbs::Context context(api_, api_.open_device(list[1]));
    api_.free_device_list(list);
    return context;
  }
  VerbsConnectionOptions options_in(const verbs::ProtectionDomain& domain) {
    VerbsConnectionOptions made = options();
    made.device.domain = domain.get();
    return made;
  }
  // The answer to session.attach.
  nlohmann::json answer(const VerbsConnection& connection) {
    const nlohmann::json names = connection.introduction().at("names");
    nlohmann::json answers = nlohmann::json::array();
    for (std::size_t i = 0; i < transports_.size(); ++i) {
      const auto address = verbs::from_hex(names[i].get<std::string>());
      auto made = transports_[i]->connect(kPeer, address.value(), kCredit).value();
      answers.push_back(verbs::to_hex(transports_[i]->attach(kPeer, std::move(made)).value()));
    }
    return answers;
  }
  std::unique_ptr<VerbsConnection> attached() { return attached(options()); }
  std::unique_ptr<VerbsConnection> attached(const VerbsConnectionOptions& options) {
    auto connection = VerbsConnection::make(api_, options).value();
    const auto done = connection->attached(answer(*connection), monotonic_now() + kSecond);
    EXPECT_TRUE(done.ok()) << done.error().message;
    return connection;
  }
  std::vector<transport::Received> notices(std::size_t shard) {
    std::array<transport::Received, 32> some;
    const std::size_t count = transports_[shard]->receive(some);
    return {some.begin(), some.begin() + static_cast<std::ptrdiff_t>(count)};
  }
  void complete(std::size_t shard, std::uint8_t content) {
    transport::Message message{kPeer, {}};
    message.message.bytes[0] = std::byte{content};
    transports_[shard]->complete({&message, 1});
  }
  void know(const Connection::Offer& offer) {
    transports_[0]->add_region(
        kPeer, 1, {offer.params.at("base"), offer.params.at("bytes"), offer.params.at("key")});
  }
  // The node writes 100 bytes of this content at `offset` of the region.
  Status push(std::uint64_t offset, std::uint8_t content) {
    const std::vector<std::byte> sum(100, std::byte{content});
    const transport::Push wanted{{{kPeer, 1, offset, 100}, nullptr}, sum.data(), 3};
    transports_[0]->push({&wanted, 1});
    notices(0);
    transport::Pushed answer{};
    EXPECT_EQ(transports_[0]->pushed({&answer, 1}), 1U);
    return answer.status;
  }
  bool readable(const VerbsConnection& connection) {
    pollfd news{connection.fd(), POLLIN, 0};
    return ::poll(&news, 1, 0) == 1;
  }

  verbs::FakeVerbs api_;
  UniqueFd here_, there_;
  std::array<std::unique_ptr<verbs::VerbsTransport>, 2> transports_;
};

}  // namespace tally::client
