#include "dataplane/transport/roce/kernel/netlink_answer.h"

#include <gtest/gtest.h>
#include <libmnl/libmnl.h>
#include <linux/neighbour.h>
#include <linux/rtnetlink.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace tally::transport::roce {
namespace {

constexpr IpAddress kTarget = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 10, 9, 0, 1};
constexpr IpAddress kGateway = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 10, 9, 0, 254};
constexpr IpAddress kGateway6 = {0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
constexpr MacAddress kMac = {2, 0, 0, 0, 0, 7};
constexpr MacAddress kGroup = {3, 0, 0, 0, 0, 7};

// A message of the kernel.
class Message {
 public:
  template <typename Header>
  Message(std::uint16_t type, const Header& header) {
    message_ = mnl_nlmsg_put_header(bytes_.data());
    message_->nlmsg_type = type;
    *static_cast<Header*>(mnl_nlmsg_put_extra_header(message_, sizeof(Header))) = header;
  }
  static Message error(int code) { return {NLMSG_ERROR, nlmsgerr{.error = -code}}; }
  static Message route(unsigned char type = RTN_UNICAST) {
    return {RTM_NEWROUTE, rtmsg{.rtm_family = AF_INET, .rtm_type = type}};
  }
  static Message entry(std::uint16_t state) {
    ndmsg header{};
    header.ndm_state = state;
    return {RTM_NEWNEIGH, header};
  }
  Message(const Message& other) : bytes_(other.bytes_) {
    message_ = reinterpret_cast<nlmsghdr*>(bytes_.data());
  }
  Message& operator=(const Message&) = delete;

  Message& with(std::uint16_t type, std::span<const std::uint8_t> value) {
    mnl_attr_put(message_, type, value.size(), value.data());
    return *this;
  }
  std::size_t size() const { return message_->nlmsg_len; }
  std::span<const std::byte> bytes() const {
    return std::as_bytes(std::span(bytes_)).first(message_->nlmsg_len);
  }
  // A copy whose header says `bytes`.
  Message of_length(std::size_t bytes) const {
    Message copy(*this);
    copy.message_->nlmsg_len = static_cast<std::uint32_t>(bytes);
    return copy;
  }

 private:
  alignas(nlmsghdr) std::array<char, 256> bytes_{};
  nlmsghdr* message_ = nullptr;  // at the begin of bytes_
};

RouteAnswer route_of(const Message& message) {
  return read_route(message.bytes(), kTarget);
}

std::span<const std::uint8_t> ipv4_of(const IpAddress& address) {
  return std::span(address).subspan(12);
}

TEST(ReadRoute, TakesTheTargetOrItsGateway) {
  EXPECT_EQ(route_of(Message::route()).hop, kTarget);
  EXPECT_EQ(route_of(Message::route().with(RTA_GATEWAY, ipv4_of(kGateway))).hop, kGateway);
  EXPECT_EQ(route_of(Message::route().with(RTA_GATEWAY, kGateway6)).hop, kGateway6);
  std::array<std::uint8_t, sizeof(rtvia) + sizeof kGateway6> via{AF_INET6, 0};
  std::memcpy(&via[sizeof(rtvia)], kGateway6.data(), kGateway6.size());
  EXPECT_EQ(route_of(Message::route().with(RTA_VIA, via)).hop, kGateway6);
}

TEST(ReadRoute, AGatewayOfAnotherLengthIsNone) {
  for (const std::size_t bytes : {0, 1, 3, 5, 15}) {
    const auto part = std::span(kGateway6).first(bytes);
    EXPECT_FALSE(route_of(Message::route().with(RTA_GATEWAY, part)).hop) << bytes;
    EXPECT_FALSE(route_of(Message::route().with(RTA_VIA, part)).hop) << bytes;
  }
}

TEST(ReadRoute, AnErrorAboutTheRouteIsAnAnswer) {
  for (const int code : {ENETUNREACH, EHOSTUNREACH, EACCES, EINVAL, ENODEV}) {
    EXPECT_TRUE(route_of(Message::error(code)).is_answered) << code;
    EXPECT_FALSE(route_of(Message::error(code)).hop) << code;
  }
  EXPECT_TRUE(route_of(Message::route(RTN_LOCAL)).is_answered);
  EXPECT_FALSE(route_of(Message::route(RTN_LOCAL)).hop);
  EXPECT_FALSE(route_of(Message::route(RTN_BLACKHOLE)).hop);
}

TEST(ReadRoute, OtherErrorsAreNoAnswer) {
  EXPECT_FALSE(route_of(Message::error(ENOBUFS)).is_answered);
  EXPECT_FALSE(route_of(Message::error(0)).is_answered);
  EXPECT_FALSE(route_of(Message::entry(NUD_REACHABLE)).is_answered);
  EXPECT_FALSE(read_route({}, kTarget).is_answered);
}

TEST(ReadEntry, ReadsEachStateOfAnEntry) {
  const auto state = [](std::uint16_t bits, const MacAddress& mac = kMac) {
    return read_entry(Message::entry(bits).with(NDA_LLADDR, mac).bytes()).state;
  };
  for (const int bits : {NUD_REACHABLE, NUD_PERMANENT, NUD_NOARP, NUD_DELAY, NUD_PROBE}) {
    EXPECT_EQ(state(static_cast<std::uint16_t>(bits)), HopState::kKnown) << bits;
  }
  EXPECT_EQ(state(NUD_STALE), HopState::kStale);
  EXPECT_EQ(state(NUD_INCOMPLETE), HopState::kAsking);
  EXPECT_EQ(state(NUD_FAILED), HopState::kFailed);
  EXPECT_EQ(state(NUD_NONE), HopState::kNone);
  EXPECT_EQ(read_entry(Message::entry(NUD_REACHABLE).with(NDA_LLADDR, kMac).bytes()).mac, kMac);
}

// Any host on the link can send one, and an operator can write one.
TEST(ReadEntry, AMacOfAGroupIsUnusable) {
  for (const MacAddress& mac : {kGroup, MacAddress{}}) {
    EXPECT_EQ(read_entry(Message::entry(NUD_PERMANENT).with(NDA_LLADDR, mac).bytes()).state,
              HopState::kUnusable);
    EXPECT_EQ(read_entry(Message::entry(NUD_STALE).with(NDA_LLADDR, mac).bytes()).state,
              HopState::kFailed);
  }
  EXPECT_EQ(read_entry(Message::entry(NUD_NOARP).bytes()).state, HopState::kUnusable);
}

TEST(ReadEntry, OnlyOneErrorMeansThatThereIsNone) {
  EXPECT_EQ(read_entry(Message::error(ENOENT).bytes()).state, HopState::kNone);
  EXPECT_EQ(read_entry(Message::error(ENOBUFS).bytes()).state, HopState::kNotRead);
  EXPECT_EQ(read_entry(Message::error(ENODEV).bytes()).state, HopState::kNotRead);
  EXPECT_EQ(read_entry(Message::route().bytes()).state, HopState::kNotRead);
  EXPECT_EQ(read_entry({}).state, HopState::kNotRead);
}

TEST(NetlinkAnswer, TruncatedMessagesAreNone) {
  const Message entry = Message::entry(NUD_PERMANENT).with(NDA_LLADDR, kMac);
  const Message route = Message::route().with(RTA_GATEWAY, ipv4_of(kGateway));
  const Message error = Message::error(ENOENT);
  for (std::size_t bytes = 0; bytes < entry.size(); ++bytes) {
    EXPECT_EQ(read_entry(entry.bytes().first(bytes)).state, HopState::kNotRead) << bytes;
  }
  for (std::size_t bytes = 0; bytes < route.size(); ++bytes) {
    EXPECT_FALSE(read_route(route.bytes().first(bytes), kTarget).is_answered) << bytes;
  }
  for (std::size_t bytes = 0; bytes < error.size(); ++bytes) {
    EXPECT_EQ(read_entry(error.bytes().first(bytes)).state, HopState::kNotRead) << bytes;
  }
  // The same with a header that says so.
  for (std::size_t bytes = 0; bytes < sizeof(nlmsghdr) + sizeof(ndmsg); ++bytes) {
    EXPECT_EQ(read_entry(entry.of_length(bytes).bytes()).state, HopState::kNotRead) << bytes;
  }
  for (std::size_t bytes = 0; bytes < sizeof(nlmsghdr) + sizeof(rtmsg); ++bytes) {
    EXPECT_FALSE(route_of(route.of_length(bytes)).is_answered) << bytes;
  }
  // An attribute that ends behind the message does not count.
  EXPECT_EQ(read_entry(entry.of_length(entry.size() - 4).bytes()).state, HopState::kUnusable);
  EXPECT_EQ(route_of(route.of_length(route.size() - 4)).hop, kTarget);
}

}  // namespace
}  // namespace tally::transport::roce
