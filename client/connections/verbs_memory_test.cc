// Over transport verbs: memory that a caller has registered, and memory of devices.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/support/client/verbs_connection_fixture.h"

namespace tally::client {
namespace {

using ::testing::HasSubstr;

TEST_F(VerbsConnectionTest, InADomainOfTheCallerTheNodeUsesItsRegistrations) {
  const auto context = open_worker();
  const verbs::ProtectionDomain domain(api_, api_.alloc_pd(context.get()));
  std::vector<std::byte> memory(10'000, std::byte{1});
  const verbs::MemoryRegion registered(
      api_, api_.reg_mr(domain.get(), memory.data(), memory.size(), verbs::kForTheNode));
  const std::size_t before = api_.objects();
  auto connection = attached(options_in(domain));
  const auto at = reinterpret_cast<std::uintptr_t>(memory.data());
  const auto region = Region::registered(*registered.get(), memory.data() + 96, 5000, at + 96);
  const auto offer = connection->offer(*region);
  ASSERT_TRUE(offer.ok()) << offer.error().message;
  EXPECT_EQ(offer->params.at("key"), registered->rkey);
  know(*offer);
  EXPECT_EQ(push(4, 9), Status::kOk);
  EXPECT_EQ(memory[99], std::byte{1});
  EXPECT_EQ(memory[100], std::byte{9});
  connection->withdraw(*region);
  EXPECT_EQ(push(4, 8), Status::kOk);  // the registration is the caller's to end
  connection.reset();
  for (auto& port : transports_) port->detach(kPeer);
  EXPECT_EQ(api_.objects(), before);
  EXPECT_EQ(memory[100], std::byte{8});
}

// A registration pins memory, and takes seconds where there is much: one, not one for each node.
TEST_F(VerbsConnectionTest, ARegionIsRegisteredOnceForAllNodes) {
  VerbsConnectionOptions shared = options();
  shared.devices = std::make_shared<VerbsDevices>();
  auto connection = attached(shared);
  std::vector<std::byte> memory(10'000, std::byte{1});
  const auto region = Region::borrow(memory.data(), memory.size());
  std::vector<std::unique_ptr<VerbsConnection>> others;
  for (int i = 0; i < 3; ++i) others.push_back(VerbsConnection::make(api_, shared).value());
  const auto first = connection->offer(*region).value();
  const std::size_t once = api_.objects();
  for (const auto& other : others) {
    EXPECT_EQ(other->offer(*region).value().params, first.params);
  }
  EXPECT_EQ(api_.objects(), once);
  know(first);
  others[0]->withdraw(*region);
  EXPECT_TRUE(others[1]->fence(0));
  others[2].reset();
  EXPECT_EQ(push(0, 9), Status::kOk) << "this node has not let go of it";
  EXPECT_EQ(memory[0], std::byte{9});
  connection->withdraw(*region);
  EXPECT_EQ(push(0, 7), Status::kPeerLost) << "nobody needs it any more";
  EXPECT_EQ(memory[0], std::byte{9});
}

// What a node knows of a key is of no use to it without its queue pairs.
TEST_F(VerbsConnectionTest, AFencedNodeDoesNotReachARegionThatOthersShare) {
  VerbsConnectionOptions shared = options();
  shared.devices = std::make_shared<VerbsDevices>();
  auto connection = attached(shared);
  auto other = VerbsConnection::make(api_, shared).value();
  std::vector<std::byte> memory(4096);
  const auto region = Region::borrow(memory.data(), memory.size());
  ASSERT_TRUE(other->offer(*region).ok());
  know(connection->offer(*region).value());
  EXPECT_TRUE(connection->fence(monotonic_now()));
  EXPECT_EQ(push(0, 9), Status::kPeerLost);
  EXPECT_EQ(memory, std::vector<std::byte>(4096));
  const std::size_t before = api_.objects();
  other->withdraw(*region);
  EXPECT_EQ(api_.objects(), before - 1) << "it was registered until now";
}

TEST_F(VerbsConnectionTest, DeviceFailureReachesAllItsConnections) {
  VerbsConnectionOptions shared = options();
  shared.devices = std::make_shared<VerbsDevices>();
  auto connection = attached(shared);
  auto other = VerbsConnection::make(api_, shared).value();
  api_.announce(IBV_EVENT_DEVICE_FATAL);
  EXPECT_TRUE(other->read_events());
  EXPECT_FALSE(readable(*connection)) << "the event has been taken";
  EXPECT_TRUE(connection->has_failed());
  EXPECT_TRUE(connection->read_events());
  EXPECT_EQ(connection->why_gone(), "the RDMA connection failed: the RDMA device failed");
}

TEST_F(VerbsConnectionTest, DoesNotTakeTheEventsOfACallersDevice) {
  const auto context = open_worker();
  const verbs::ProtectionDomain domain(api_, api_.alloc_pd(context.get()));
  auto connection = attached(options_in(domain));
  ASSERT_TRUE(connection->arm(kForever));
  api_.announce(IBV_EVENT_PORT_ERR);
  EXPECT_FALSE(readable(*connection));
  complete(0, 1);
  EXPECT_FALSE(connection->read_events());
  ibv_async_event event{};
  ASSERT_EQ(api_.get_async_event(context.get(), &event), 0);
  EXPECT_EQ(event.event_type, IBV_EVENT_PORT_ERR);
}

TEST_F(VerbsConnectionTest, ARegistrationOfAnotherDomainIsRefused) {
  const auto context = open_worker();
  const verbs::ProtectionDomain domain(api_, api_.alloc_pd(context.get()));
  const verbs::ProtectionDomain foreign(api_, api_.alloc_pd(context.get()));
  std::vector<std::byte> memory(4096);
  const verbs::MemoryRegion registered(
      api_, api_.reg_mr(foreign.get(), memory.data(), memory.size(), verbs::kForTheNode));
  const auto at = reinterpret_cast<std::uintptr_t>(memory.data());
  const auto region = Region::registered(*registered.get(), memory.data(), memory.size(), at);
  auto connection = VerbsConnection::make(api_, options_in(domain)).value();
  const auto refused = connection->offer(*region);
  EXPECT_EQ(refused.status(), Status::kInvalidArgument);
  EXPECT_THAT(refused.error().message, HasSubstr("another protection domain than the session's"));
  auto of_its_own = VerbsConnection::make(api_, options()).value();
  EXPECT_THAT(of_its_own->offer(*region).error().message, HasSubstr("open it with the ibv_pd"));
}

// The session's own end sees no more than that the connection broke.
TEST_F(VerbsConnectionTest, TheReasonNamesTheAccessFlagsOfRegistrations) {
  const auto context = open_worker();
  const verbs::ProtectionDomain domain(api_, api_.alloc_pd(context.get()));
  std::vector<std::byte> memory(4096);
  const verbs::MemoryRegion registered(
      api_, api_.reg_mr(domain.get(), memory.data(), memory.size(), IBV_ACCESS_REMOTE_READ));
  auto connection = attached(options_in(domain));
  const auto at = reinterpret_cast<std::uintptr_t>(memory.data());
  const auto region = Region::registered(*registered.get(), memory.data(), memory.size(), at);
  know(connection->offer(*region).value());
  EXPECT_EQ(push(0, 9), Status::kPeerLost);
  EXPECT_THAT(transports_[0]->why_lost(kPeer), HasSubstr("not registered for reading and writing"));
  EXPECT_TRUE(connection->read_events());
  EXPECT_THAT(connection->why_gone(),
              HasSubstr("each with IBV_ACCESS_LOCAL_WRITE, IBV_ACCESS_REMOTE_"));
}

TEST_F(VerbsConnectionTest, TheReasonOfALostLinkDoesNotNameRegistrations) {
  const auto context = open_worker();
  const verbs::ProtectionDomain domain(api_, api_.alloc_pd(context.get()));
  std::vector<std::byte> memory(4096);
  const verbs::MemoryRegion registered(
      api_, api_.reg_mr(domain.get(), memory.data(), memory.size(), verbs::kForTheNode));
  auto connection = attached(options_in(domain));
  const auto region = Region::registered(*registered.get(), memory.data(), memory.size(), 0);
  ASSERT_TRUE(connection->offer(*region).ok());
  api_.cut("worker");
  connection->send(0, wire::Notice{}, {});
  EXPECT_TRUE(connection->read_events());
  EXPECT_EQ(connection->why_gone().find("IBV_ACCESS"), std::string::npos) << connection->why_gone();
}

class DmabufTest : public VerbsConnectionTest {
 protected:
  explicit DmabufTest(bool dmabufs) : VerbsConnectionTest(dmabufs) {}
  UniqueFd memory_{::memfd_create("dmabuf", MFD_CLOEXEC)};
};
struct WithDmabufs : DmabufTest {
  WithDmabufs() : DmabufTest(true) {}
};
struct WithoutDmabufs : DmabufTest {
  WithoutDmabufs() : DmabufTest(false) {}
};

TEST_F(WithDmabufs, TheNodeReachesADmabuf) {
  ASSERT_EQ(::ftruncate(memory_.get(), 16384), 0);
  auto connection = attached();
  auto region = Region::dmabuf(memory_.get(), 4096 + 32, 8192, 0x7000'0020).value();
  const auto offer = connection->offer(*region);
  ASSERT_TRUE(offer.ok()) << offer.error().message;
  EXPECT_EQ(offer->params.at("base"), 0x7000'0020U);
  know(*offer);
  EXPECT_EQ(push(64, 9), Status::kOk);
  std::byte there{};
  ASSERT_EQ(::pread(memory_.get(), &there, 1, 4096 + 32 + 64), 1);
  EXPECT_EQ(there, std::byte{9});
  connection->withdraw(*region);
  EXPECT_EQ(push(64, 9), Status::kPeerLost);
}

TEST_F(WithoutDmabufs, RefusesDmabufs) {
  auto connection = attached();
  auto region = Region::dmabuf(memory_.get(), 0, 4096, 0).value();
  const auto refused = connection->offer(*region);
  EXPECT_EQ(refused.status(), Status::kUnsupported);
  EXPECT_THAT(refused.error().message, HasSubstr("worker does not import dma-bufs"));
}

}  // namespace
}  // namespace tally::client
