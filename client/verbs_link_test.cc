// The client's end of transport verbs, against a shard's port, over devices of this process.
#include "client/verbs_link.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>

#include "base/memory_limit.h"
#include "dataplane/transport/verbs/fake_verbs.h"
#include "dataplane/transport/verbs/port.h"
#include "dataplane/wire/completion.h"

namespace tally::client {
namespace {

using ::testing::HasSubstr;
namespace verbs = transport::verbs;

constexpr transport::Peer kPeer = 2;

class VerbsLinkTest : public ::testing::Test {
 protected:
  explicit VerbsLinkTest(bool dmabufs = false)
      : api_({{.name = "node"}, {.name = "worker", .dmabufs = dmabufs}}) {
    std::array<int, 2> pair{};
    if (::socketpair(AF_UNIX, SOCK_STREAM, 0, pair.data()) != 0) throw std::runtime_error("pair");
    here_ = UniqueFd(pair[0]);
    there_ = UniqueFd(pair[1]);
    for (auto& port : ports_) port = open_port();
  }

  std::unique_ptr<verbs::Port> open_port(std::uint32_t mtu = 0) {
    return verbs::Port::open(api_, {.device = {.device = "node", .host = {}, .mtu = mtu},
                                    .credit = 8,
                                    .landing_bytes = 1 << 20,
                                    .tiles = {}})
        .value();
  }

  VerbsLinkOptions options() {
    return {.device = {.device = "worker", .host = {}},
            .shards = 2,
            .credit = 8,
            .eager_bytes = verbs::kEagerBytes,
            .probe_bytes = verbs::kProbeBytes,
            .watch = here_.get()};
  }
  // Of the worker's device, as a program makes them that uses libibverbs.
  verbs::Context open_worker() {
    int count = 0;
    ibv_device** list = api_.get_device_list(&count);
    verbs::Context context(api_, api_.open_device(list[1]));
    api_.free_device_list(list);
    return context;
  }
  VerbsLinkOptions options_in(const verbs::ProtectionDomain& domain) {
    VerbsLinkOptions made = options();
    made.device.domain = domain.get();
    return made;
  }
  // As the node does in session.attach.
  nlohmann::json answer(const VerbsLink& link) {
    const nlohmann::json names = link.introduction().at("names");
    nlohmann::json answers = nlohmann::json::array();
    for (std::size_t i = 0; i < ports_.size(); ++i) {
      const auto address = verbs::from_hex(names[i].get<std::string>());
      auto made = ports_[i]->connect(kPeer, address.value()).value();
      answers.push_back(verbs::to_hex(ports_[i]->attach(kPeer, std::move(made)).value()));
    }
    return answers;
  }
  std::unique_ptr<VerbsLink> attached() { return attached(options()); }
  std::unique_ptr<VerbsLink> attached(const VerbsLinkOptions& options) {
    auto link = VerbsLink::make(api_, options).value();
    const auto done = link->attached(answer(*link), monotonic_now() + kSecond);
    EXPECT_TRUE(done.ok()) << done.error().message;
    return link;
  }
  std::vector<transport::Received> notices(std::size_t shard) {
    std::array<transport::Received, 32> some;
    const std::size_t count = ports_[shard]->receive(some);
    return {some.begin(), some.begin() + static_cast<std::ptrdiff_t>(count)};
  }
  void complete(std::size_t shard, std::uint8_t content) {
    transport::Message message{kPeer, {}};
    message.message.bytes[0] = std::byte{content};
    ports_[shard]->complete({&message, 1});
  }
  void know(const Link::Offer& offer) {
    ports_[0]->add_region(
        kPeer, 1, {offer.params.at("base"), offer.params.at("bytes"), offer.params.at("key")});
  }
  // The node writes 100 bytes of this content at `offset` of the region.
  Status push(std::uint64_t offset, std::uint8_t content) {
    const std::vector<std::byte> sum(100, std::byte{content});
    const transport::Push wanted{{{kPeer, 1, offset, 100}, nullptr}, sum.data(), 3};
    ports_[0]->push({&wanted, 1});
    notices(0);
    transport::Pushed answer{};
    EXPECT_EQ(ports_[0]->pushed({&answer, 1}), 1U);
    return answer.status;
  }
  bool readable(const VerbsLink& link) {
    pollfd news{link.fd(), POLLIN, 0};
    return ::poll(&news, 1, 0) == 1;
  }

  verbs::FakeVerbs api_;
  UniqueFd here_, there_;
  std::array<std::unique_ptr<verbs::Port>, 2> ports_;
};

TEST_F(VerbsLinkTest, NoticesGoOutAndCompletionsComeIn) {
  auto link = attached();
  EXPECT_TRUE(notices(0).empty());  // the first message was empty
  wire::Notice notice{};
  notice.tag = 17;
  for (int round = 0; round < 100; ++round) {
    ASSERT_TRUE(link->send(1, notice, {}));
    ASSERT_EQ(notices(1).size(), 1U);
    complete(1, static_cast<std::uint8_t>(round));
    std::array<RingSlot, 4> slots;
    EXPECT_EQ(link->receive(0, slots), 0U);
    ASSERT_EQ(link->receive(1, slots), 1U);
    EXPECT_EQ(slots[0].bytes[0], std::byte{static_cast<std::uint8_t>(round)});
  }
  EXPECT_FALSE(link->broken());
}

// As many at a time as the node has room for; every one arrives whole, whatever else is sent.
TEST_F(VerbsLinkTest, ContributionsGoWithTheirNoticesWhileThereIsRoom) {
  auto link = attached();
  EXPECT_EQ(link->eager_bytes(), verbs::kEagerBytes);
  wire::Notice notice{};
  notice.count = 1;
  notice.in_region = 1;
  for (std::uint32_t round = 0; round < 50; ++round) {
    std::vector<std::uint32_t> eager;
    for (std::uint32_t i = 0; i < verbs::kEagerSlots + 1; ++i) {
      const std::vector<std::byte> contribution(100 + round, std::byte(round * 8 + i));
      notice.cookie = 100 + i;
      ASSERT_TRUE(link->send(1, notice, contribution));
      wire::Notice seen;
      const auto come = notices(1);
      ASSERT_EQ(come.size(), 1U);
      ASSERT_EQ(wire::parse(come[0].message, seen), Status::kOk);
      EXPECT_EQ(seen.in_region == 1, i == verbs::kEagerSlots);
      if (seen.in_region != 1) eager.push_back(seen.in_region);
    }
    for (std::uint32_t i = 0; i < eager.size(); ++i) {
      const transport::Pull wanted{{kPeer, eager[i], 0, 100 + round}, 3};
      ports_[1]->pull({&wanted, 1});
      transport::Pulled answer;
      ASSERT_EQ(ports_[1]->pulled({&answer, 1}), 1U);
      EXPECT_EQ(answer.view[0].data[99 + round], std::byte(round * 8 + i));
      ports_[1]->release(answer.handle);
    }
    for (std::uint32_t i = 0; i < verbs::kEagerSlots + 1; ++i) {
      wire::Completion completion;
      completion.cookie = 100 + i;
      const transport::Message message{kPeer, wire::encode(completion)};
      ports_[1]->complete({&message, 1});
    }
    std::array<RingSlot, 8> slots;
    EXPECT_EQ(link->receive(1, slots), verbs::kEagerSlots + 1);
  }
}

TEST_F(VerbsLinkTest, TheNodeReachesWhatIsOfferedUntilItIsWithdrawn) {
  auto link = attached();
  std::vector<std::byte> memory(10'000, std::byte{1});
  const auto region = Region::borrow(memory.data(), memory.size());
  const auto offer = link->offer(*region);
  ASSERT_TRUE(offer.ok());
  know(*offer);
  EXPECT_EQ(push(50, 9), Status::kOk);
  EXPECT_EQ(memory[149], std::byte{9});
  memory[149] = std::byte{1};
  link->withdraw(*region);
  EXPECT_EQ(push(50, 9), Status::kPeerLost);
  EXPECT_EQ(memory[149], std::byte{1});
}

TEST_F(VerbsLinkTest, AfterTheFenceNothingArrives) {
  auto link = attached();
  std::vector<std::byte> memory(4096);
  const auto region = Region::borrow(memory.data(), memory.size());
  know(link->offer(*region).value());
  EXPECT_TRUE(link->fence(monotonic_now()));
  const std::vector<std::byte> sum(4096, std::byte{9});
  const transport::Push wanted{{{kPeer, 1, 0, 4096}, nullptr}, sum.data(), 3};
  ports_[0]->push({&wanted, 1});
  notices(0);
  transport::Pushed answer{};
  ASSERT_EQ(ports_[0]->pushed({&answer, 1}), 1U);
  EXPECT_EQ(answer.status, Status::kPeerLost);
  EXPECT_EQ(memory, std::vector<std::byte>(4096));
  std::array<RingSlot, 4> slots;
  EXPECT_EQ(link->receive(0, slots), 0U);
  EXPECT_FALSE(link->send(0, wire::Notice{}, {}));
}

TEST_F(VerbsLinkTest, AFenceHoldsWhenTheDeviceHasEndedEveryQueuePair) {
  auto link = attached();
  api_.fail(verbs::Call::kDestroyPair, EBUSY, 1);  // the second one's
  EXPECT_FALSE(link->fence(0));
  EXPECT_FALSE(link->send(0, wire::Notice{}, {}));
  api_.fail(verbs::Call::kDestroyPair, EBUSY, 0, 2);
  EXPECT_TRUE(link->fence(kForever));  // it goes on trying
}

TEST_F(VerbsLinkTest, ItsDescriptorTellsOfCompletionsAndOfTheEnd) {
  auto link = attached();
  ASSERT_TRUE(link->arm(kForever));
  EXPECT_FALSE(readable(*link));
  complete(0, 1);
  EXPECT_TRUE(readable(*link));
  EXPECT_FALSE(link->arm(kForever));  // there is one to be taken
  std::array<RingSlot, 4> slots;
  EXPECT_EQ(link->receive(0, slots), 1U);
  EXPECT_TRUE(link->arm(kForever));
  EXPECT_FALSE(link->hear());
  there_.reset();
  EXPECT_TRUE(link->hear());
  EXPECT_EQ(link->why_gone(), "the node died or closed the connection");
}

TEST_F(VerbsLinkTest, AWayThatLetsNothingThroughIsFoundAtOnce) {
  auto link = VerbsLink::make(api_, options()).value();
  const nlohmann::json names = answer(*link);
  api_.cut("node");
  const auto done = link->attached(names, monotonic_now() + kSecond);
  EXPECT_EQ(done.status(), Status::kUnsupported);
  EXPECT_THAT(done.error().message,
              HasSubstr("no packets get from worker (10.0.0.1) to the node's 10.0.0.1: it does not "
                        "answer"));
}

// A switch in between that has a smaller MTU than both ends.
TEST_F(VerbsLinkTest, AWayThatPassesShorterPacketsAloneIsFoundToo) {
  api_.pass_at_most(1500);
  auto link = VerbsLink::make(api_, options()).value();
  const auto done = link->attached(answer(*link), monotonic_now() + kSecond);
  EXPECT_EQ(done.status(), Status::kUnsupported);
  EXPECT_THAT(done.error().message,
              HasSubstr("does not answer: its machine is down or cut off, or the way to it loses "
                        "packets (tried with 4096 bytes; where switches pass only smaller ones, "
                        "network.mtu of the node makes them so)"));
  for (auto& port : ports_) port = open_port(1024);
  EXPECT_TRUE(attached()->why_gone().find("RDMA") == std::string::npos);
}

TEST_F(VerbsLinkTest, ANodeOfAVersionBeforeGetsAnEmptyMessage) {
  api_.pass_at_most(100);
  VerbsLinkOptions before = options();
  before.probe_bytes = 0;
  auto link = attached(before);
  EXPECT_TRUE(link->send(0, wire::Notice{}, {}));
  EXPECT_EQ(notices(0).size(), 1U);
}

TEST_F(VerbsLinkTest, AConnectionThatBreaksSaysHow) {
  auto link = attached();
  api_.cut("worker");
  link->send(0, wire::Notice{}, {});
  EXPECT_TRUE(link->hear());
  EXPECT_THAT(link->why_gone(), HasSubstr("the RDMA connection failed: it does not answer"));
}

TEST_F(VerbsLinkTest, ANodeThatTakesNoNoticesIsGivenUp) {
  auto link = attached();
  while (api_.held(IBV_WR_SEND) == 0) ASSERT_TRUE(link->send(0, wire::Notice{}, {}));
  EXPECT_FALSE(link->hear());
  api_.lose_patience();
  EXPECT_TRUE(link->hear());
  EXPECT_EQ(link->why_gone(), "the RDMA connection failed: it has taken no messages for a second");
}

TEST_F(VerbsLinkTest, WhatTheDeviceLosesEndsTheSession) {
  for (const auto& [event, why] : {std::pair{IBV_EVENT_DEVICE_FATAL, "the RDMA device failed"},
                                   std::pair{IBV_EVENT_CQ_ERR, "lost a completion queue"},
                                   std::pair{IBV_EVENT_QP_FATAL, "gave a queue pair up"}}) {
    auto link = attached();
    EXPECT_FALSE(link->hear());
    api_.announce(event);
    EXPECT_TRUE(link->hear());
    EXPECT_THAT(link->why_gone(), HasSubstr(why));
    for (auto& port : ports_) port = open_port();
  }
}

TEST_F(VerbsLinkTest, AnAnswerThatCannotBeReadIsRefused) {
  auto link = VerbsLink::make(api_, options()).value();
  for (const char* text : {"[]", "{}", "[1,2]", "[\"\",\"\"]", "[\"zz\",\"zz\"]"}) {
    const auto done = link->attached(nlohmann::json::parse(text), monotonic_now());
    EXPECT_EQ(done.status(), Status::kProtocol) << text;
  }
}

TEST_F(VerbsLinkTest, WhatCannotBeMadeLeavesNothing) {
  const std::size_t before = api_.objects();
  using verbs::Call;
  const std::array<std::pair<Call, int>, 9> steps = {{{Call::kOpen, 0},
                                                      {Call::kProtectionDomain, 0},
                                                      {Call::kChannel, 0},
                                                      {Call::kQueue, 0},
                                                      {Call::kModify, 0},
                                                      {Call::kModify, 1},
                                                      {Call::kRegister, 1},
                                                      {Call::kPostReceive, 0},
                                                      {Call::kPostReceive, 20}}};
  for (const auto& [call, after] : steps) {
    api_.fail(call, ENOMEM, after);
    const auto made = VerbsLink::make(api_, options());
    ASSERT_FALSE(made.ok()) << static_cast<int>(call) << after;
    EXPECT_EQ(api_.objects(), before);
    if (call != Call::kQueue) continue;
    EXPECT_THAT(made.error().message, HasSubstr(memory_limit()));
  }
  auto link = attached();
  std::vector<std::byte> memory(4096);
  const auto region = Region::borrow(memory.data(), memory.size());
  api_.fail(Call::kRegister, ENOMEM);
  EXPECT_EQ(link->offer(*region).status(), Status::kNoMemory);
  link.reset();
  for (auto& port : ports_) port->detach(kPeer);
  EXPECT_EQ(api_.objects(), before);
}

// -- memory that a caller has registered, and memory of devices ----------------------------------

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
