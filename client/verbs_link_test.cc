// The client's end of transport verbs, against a shard's port, over devices of this process.
#include "client/verbs_link.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>

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
  VerbsLinkTest() {
    std::array<int, 2> pair{};
    if (::socketpair(AF_UNIX, SOCK_STREAM, 0, pair.data()) != 0) throw std::runtime_error("pair");
    here_ = UniqueFd(pair[0]);
    there_ = UniqueFd(pair[1]);
    for (auto& port : ports_) {
      port = verbs::Port::open(api_, {.device = {.device = "node", .host = {}},
                                      .credit = 8,
                                      .landing_bytes = 1 << 20,
                                      .tiles = {}})
                 .value();
    }
  }

  VerbsLinkOptions options() {
    return {.device = {.device = "worker", .host = {}},
            .shards = 2,
            .credit = 8,
            .eager_bytes = verbs::kEagerBytes,
            .watch = here_.get()};
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
  std::unique_ptr<VerbsLink> attached() {
    auto link = VerbsLink::make(api_, options()).value();
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
  bool readable(const VerbsLink& link) {
    pollfd news{link.fd(), POLLIN, 0};
    return ::poll(&news, 1, 0) == 1;
  }

  verbs::FakeVerbs api_{{{.name = "node"}, {.name = "worker"}}};
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
  ports_[0]->add_region(kPeer, 1,
                        {offer.value().params.at("base"), offer.value().params.at("bytes"),
                         offer.value().params.at("key")});
  const std::vector<std::byte> sum(100, std::byte{9});
  const auto push = [&] {
    const transport::Push wanted{{{kPeer, 1, 50, 100}, nullptr}, sum.data(), 3};
    ports_[0]->push({&wanted, 1});
    notices(0);
    transport::Pushed answer{};
    EXPECT_EQ(ports_[0]->pushed({&answer, 1}), 1U);
    return answer.status;
  };
  EXPECT_EQ(push(), Status::kOk);
  EXPECT_EQ(memory[149], std::byte{9});
  memory[149] = std::byte{1};
  link->withdraw(*region);
  EXPECT_EQ(push(), Status::kPeerLost);
  EXPECT_EQ(memory[149], std::byte{1});
}

TEST_F(VerbsLinkTest, AfterTheFenceNothingArrives) {
  auto link = attached();
  std::vector<std::byte> memory(4096);
  const auto region = Region::borrow(memory.data(), memory.size());
  const auto offer = link->offer(*region).value();
  ports_[0]->add_region(
      kPeer, 1, {offer.params.at("base"), offer.params.at("bytes"), offer.params.at("key")});
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

TEST_F(VerbsLinkTest, AConnectionThatBreaksSaysHow) {
  auto link = attached();
  api_.cut("worker");
  link->send(0, wire::Notice{}, {});
  EXPECT_TRUE(link->hear());
  EXPECT_THAT(link->why_gone(), HasSubstr("the RDMA connection failed: it does not answer"));
}

TEST_F(VerbsLinkTest, ADeviceThatIsRemovedEndsTheSession) {
  auto link = attached();
  api_.announce(IBV_EVENT_DEVICE_FATAL);
  EXPECT_TRUE(link->hear());
  EXPECT_THAT(link->why_gone(), HasSubstr("device failed"));
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
    EXPECT_FALSE(VerbsLink::make(api_, options()).ok()) << static_cast<int>(call) << after;
    EXPECT_EQ(api_.objects(), before);
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

}  // namespace
}  // namespace tally::client
