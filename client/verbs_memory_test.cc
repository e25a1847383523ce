// Over transport verbs: memory that a caller has registered, and memory of devices.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/mman.h>
#include <unistd.h>

#include "client/verbs_link_fixture.h"

namespace tally::client {
namespace {

using ::testing::HasSubstr;

TEST_F(VerbsLinkTest, InACallersDomainTheNodeUsesWhatTheCallerHasRegistered) {
  const auto context = open_worker();
  const verbs::ProtectionDomain domain(api_, api_.alloc_pd(context.get()));
  std::vector<std::byte> memory(10'000, std::byte{1});
  const verbs::MemoryRegion registered(
      api_, api_.reg_mr(domain.get(), memory.data(), memory.size(), verbs::kForTheNode));
  const std::size_t before = api_.objects();
  auto link = attached(options_in(domain));
  const auto at = reinterpret_cast<std::uintptr_t>(memory.data());
  const auto region = Region::registered(*registered.get(), memory.data() + 96, 5000, at + 96);
  const auto offer = link->offer(*region);
  ASSERT_TRUE(offer.ok()) << offer.error().message;
  EXPECT_EQ(offer->params.at("key"), registered->rkey);
  know(*offer);
  EXPECT_EQ(push(4, 9), Status::kOk);
  EXPECT_EQ(memory[99], std::byte{1});
  EXPECT_EQ(memory[100], std::byte{9});
  link->withdraw(*region);
  EXPECT_EQ(push(4, 8), Status::kOk);  // the registration is the caller's to end
  link.reset();
  for (auto& port : ports_) port->detach(kPeer);
  EXPECT_EQ(api_.objects(), before);
  EXPECT_EQ(memory[100], std::byte{8});
}

TEST_F(VerbsLinkTest, ACallersEventsAreLeftToIt) {
  const auto context = open_worker();
  const verbs::ProtectionDomain domain(api_, api_.alloc_pd(context.get()));
  auto link = attached(options_in(domain));
  ASSERT_TRUE(link->arm(kForever));
  api_.announce(IBV_EVENT_PORT_ERR);
  EXPECT_FALSE(readable(*link));
  complete(0, 1);
  EXPECT_FALSE(link->hear());
  ibv_async_event event{};
  ASSERT_EQ(api_.get_async_event(context.get(), &event), 0);
  EXPECT_EQ(event.event_type, IBV_EVENT_PORT_ERR);
}

TEST_F(VerbsLinkTest, ARegistrationOfAnotherDomainIsRefused) {
  const auto context = open_worker();
  const verbs::ProtectionDomain domain(api_, api_.alloc_pd(context.get()));
  const verbs::ProtectionDomain foreign(api_, api_.alloc_pd(context.get()));
  std::vector<std::byte> memory(4096);
  const verbs::MemoryRegion registered(
      api_, api_.reg_mr(foreign.get(), memory.data(), memory.size(), verbs::kForTheNode));
  const auto at = reinterpret_cast<std::uintptr_t>(memory.data());
  const auto region = Region::registered(*registered.get(), memory.data(), memory.size(), at);
  auto link = VerbsLink::make(api_, options_in(domain)).value();
  const auto refused = link->offer(*region);
  EXPECT_EQ(refused.status(), Status::kInvalidArgument);
  EXPECT_THAT(refused.error().message, HasSubstr("another protection domain than the session's"));
  auto of_its_own = VerbsLink::make(api_, options()).value();
  EXPECT_THAT(of_its_own->offer(*region).error().message, HasSubstr("open it with the ibv_pd"));
}

// The session's own end sees no more than that the connection broke.
TEST_F(VerbsLinkTest, ARegistrationThatForbidsItIsHintedAt) {
  const auto context = open_worker();
  const verbs::ProtectionDomain domain(api_, api_.alloc_pd(context.get()));
  std::vector<std::byte> memory(4096);
  const verbs::MemoryRegion registered(
      api_, api_.reg_mr(domain.get(), memory.data(), memory.size(), IBV_ACCESS_REMOTE_READ));
  auto link = attached(options_in(domain));
  const auto at = reinterpret_cast<std::uintptr_t>(memory.data());
  const auto region = Region::registered(*registered.get(), memory.data(), memory.size(), at);
  know(link->offer(*region).value());
  EXPECT_EQ(push(0, 9), Status::kPeerLost);
  EXPECT_THAT(ports_[0]->why_lost(kPeer), HasSubstr("not registered for reading and writing"));
  EXPECT_TRUE(link->hear());
  EXPECT_THAT(link->why_gone(), HasSubstr("each with IBV_ACCESS_LOCAL_WRITE, IBV_ACCESS_REMOTE_"));
}

TEST_F(VerbsLinkTest, ACableThatIsPulledIsNoMatterOfRegistrations) {
  const auto context = open_worker();
  const verbs::ProtectionDomain domain(api_, api_.alloc_pd(context.get()));
  std::vector<std::byte> memory(4096);
  const verbs::MemoryRegion registered(
      api_, api_.reg_mr(domain.get(), memory.data(), memory.size(), verbs::kForTheNode));
  auto link = attached(options_in(domain));
  const auto region = Region::registered(*registered.get(), memory.data(), memory.size(), 0);
  ASSERT_TRUE(link->offer(*region).ok());
  api_.cut("worker");
  link->send(0, wire::Notice{}, {});
  EXPECT_TRUE(link->hear());
  EXPECT_EQ(link->why_gone().find("IBV_ACCESS"), std::string::npos) << link->why_gone();
}

class DmabufTest : public VerbsLinkTest {
 protected:
  explicit DmabufTest(bool dmabufs) : VerbsLinkTest(dmabufs) {}
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
  auto link = attached();
  auto region = Region::dmabuf(memory_.get(), 4096 + 32, 8192, 0x7000'0020).value();
  const auto offer = link->offer(*region);
  ASSERT_TRUE(offer.ok()) << offer.error().message;
  EXPECT_EQ(offer->params.at("base"), 0x7000'0020U);
  know(*offer);
  EXPECT_EQ(push(64, 9), Status::kOk);
  std::byte there{};
  ASSERT_EQ(::pread(memory_.get(), &there, 1, 4096 + 32 + 64), 1);
  EXPECT_EQ(there, std::byte{9});
  link->withdraw(*region);
  EXPECT_EQ(push(64, 9), Status::kPeerLost);
}

TEST_F(WithoutDmabufs, AnAdapterThatCannotSaysSo) {
  auto link = attached();
  auto region = Region::dmabuf(memory_.get(), 0, 4096, 0).value();
  const auto refused = link->offer(*region);
  EXPECT_EQ(refused.status(), Status::kUnsupported);
  EXPECT_THAT(refused.error().message, HasSubstr("worker does not import dma-bufs"));
}

}  // namespace
}  // namespace tally::client
