// A fixture for tests of the transport. The transport runs over libfabric's tcp endpoints on the
// loopback interface, with a client that the fixture makes. A test also runs over a layered
// provider and over a provider that requires more (picky_library.h).
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <numeric>
#include <span>
#include <stdexcept>
#include <vector>

#include "base/clock.h"
#include "dataplane/transport/fabric/fabric_transport.h"
#include "dataplane/wire/notice.h"
#include "tests/support/transport/picky_library.h"

namespace tally::transport::fabric {
inline constexpr const char* kHost = "127.0.0.1";
inline constexpr std::uint64_t kSecret = 0x5ec4e7;
inline constexpr Nanos kTimeout = 10 * kSecond;

// A worker's end. It makes progress only in progress().
class Client {
 public:
  Client(std::size_t bytes, const DomainOptions& options) : memory(bytes) {
    auto opened = Domain::open(options);
    if (!opened) throw std::runtime_error(opened.error().message);
    domain_ = std::move(opened).value();
    endpoint_ = domain_->endpoint().value();
    region_ = domain_->expose(memory.data(), memory.size()).value();
    registered_ = domain_->for_itself(received_, FI_RECV).value();
    EXPECT_TRUE(domain_->post_receive(*endpoint_, received_, descriptor_of(registered_), &room_));
  }
  ~Client() { vanish(); }

  Name name() { return domain_->name_of(*endpoint_).value(); }
  onesided::Region region() const {
    return {domain_->base_of(memory.data()), memory.size(), ::fi_mr_key(region_.get())};
  }
  void know(const Name& node) { node_ = domain_->insert(node).value(); }

  bool send(const RingEntry& entry, std::uint64_t secret, std::uint32_t shard = 0) {
    const MessageBytes bytes = seal({secret, shard, 0}, entry);
    return ::fi_inject(endpoint_.get(), bytes.data(), bytes.size(), node_) == 0;
  }
  // Sends a notice with the contribution behind it.
  bool send(const wire::Notice& notice, std::span<const std::byte> contribution) {
    seal_into(memory, {kSecret, 0, 0}, wire::encode(notice));
    std::copy(contribution.begin(), contribution.end(), memory.begin() + kMessageBytes);
    return ::fi_send(endpoint_.get(), memory.data(), kMessageBytes + contribution.size(), nullptr,
                     node_, &sending_) == 0;
  }
  // Takes what has arrived; appends the bytes of each message to messages.
  void progress() {
    if (endpoint_ == nullptr) return;
    fi_cq_data_entry entry{};
    while (::fi_cq_read(&domain_->completions(), &entry, 1) == 1) {
      if (entry.op_context == &sending_) ++sent;
      if ((entry.flags & FI_RECV) == 0) continue;
      const auto* bytes = static_cast<const std::byte*>(entry.buf);
      messages.emplace_back(bytes, bytes + entry.len);
    }
  }
  void withdraw() { region_.reset(); }
  void vanish() {
    region_.reset();
    endpoint_.reset();
  }

  std::vector<std::byte> memory;
  std::vector<std::vector<std::byte>> messages;
  std::size_t sent = 0;  // number of contributions that have left

 private:
  std::unique_ptr<Domain> domain_;
  Fid<fid_mr> registered_;
  Fid<fid_ep> endpoint_;
  Fid<fid_mr> region_;
  fi_addr_t node_ = FI_ADDR_UNSPEC;
  fi_context2 room_{}, sending_{};
  alignas(64) std::array<std::byte, 1 << 16> received_;
};

enum class Provider { kAsItIs, kLayered, kPicky };

inline constexpr std::array kNames = {"AsItIs", "Layered", "Picky"};

class FabricTransportTest : public ::testing::TestWithParam<Provider> {
 protected:
  static constexpr Peer kPeer = 3;
  static constexpr std::size_t kLanding = 1 << 20;

  static DomainOptions options() {
    DomainOptions made{.address = kHost};
    if (GetParam() == Provider::kLayered) made.provider = "tcp;ofi_rxm";
    if (GetParam() == Provider::kPicky) made.library = picky::library().value();
    return made;
  }
  void SetUp() override {
    auto opened =
        FabricTransport::open({.domain = options_, .landing_bytes = kLanding, .tiles = tiles_});
    ASSERT_TRUE(opened.ok()) << opened.error().message;
    transport_ = std::move(opened).value();
    auto name = transport_->attach(
        kPeer, {.job = 1, .name = client_.name(), .secret = kSecret, .eager_bytes = kEagerBytes});
    ASSERT_TRUE(name.ok()) << name.error().message;
    node_name_ = *name;
    client_.know(node_name_);
    transport_->add_region(kPeer, 1, client_.region());
    std::iota(reinterpret_cast<std::uint8_t*>(client_.memory.data()),
              reinterpret_cast<std::uint8_t*>(client_.memory.data()) + client_.memory.size(), 0);
  }

  void TearDown() override {
    if (GetParam() != Provider::kPicky) return;
    EXPECT_EQ(picky::refused(), 0u);
    EXPECT_GE(picky::fine(), 2u);  // a receive of each end
  }

  // Both ends make progress until done() is true. Returns false after kTimeout.
  bool until(const std::function<bool()>& done) {
    const Nanos end = monotonic_now() + kTimeout;
    while (!done()) {
      client_.progress();
      const std::size_t count = transport_->receive(received_);
      notices_.insert(notices_.end(), received_.begin(),
                      received_.begin() + static_cast<std::ptrdiff_t>(count));
      if (monotonic_now() > end) return false;
    }
    return true;
  }
  bool pull(Pulled& answer, const Range& range) {
    const Pull pull{range, 9};
    transport_->pull({&pull, 1});
    return until([&] { return transport_->pulled({&answer, 1}) == 1; });
  }
  bool push(Pushed& answer, const Range& range, const std::byte* source) {
    const Push push{{range, nullptr}, source, 8};
    transport_->push({&push, 1});
    return until([&] { return transport_->pushed({&answer, 1}) == 1; });
  }

  const DomainOptions options_ = options();
  Client client_{300'000, options_};
  std::vector<std::byte> tiles_ = std::vector<std::byte>(100'000);
  std::unique_ptr<FabricTransport> transport_;
  Name node_name_;  // of the transport's endpoint that serves the client
  std::vector<Received> notices_;

 private:
  std::array<Received, 16> received_;
};

}  // namespace tally::transport::fabric
