// The tables of the running kernel, in a network namespace of the test.
#include "dataplane/transport/roce/kernel/rtnetlink.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <linux/if.h>
#include <linux/sockios.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include "base/system/fd.h"

namespace tally::transport::roce {
namespace {

constexpr MacAddress kHopMac = {2, 0, 0, 0, 0, 9};
constexpr IpAddress kOwn6 = {0xfd, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};

constexpr IpAddress ipv4(std::uint8_t net, std::uint8_t host) {
  return {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 10, 9, net, host};
}
constexpr IpAddress ipv6(std::uint8_t net, std::uint8_t host) {
  return {0xfd, net, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, host};
}
constexpr IpAddress link_local(std::uint8_t host) {
  return {0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, host};
}

class RtnetlinkTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (::unshare(CLONE_NEWNET) != 0) GTEST_SKIP() << "network namespaces need root";
    if (!ip("link add v0 type veth peer name v1")) GTEST_SKIP() << "needs ip and veth";
    for (const char* name : {"v0", "v1"}) ASSERT_TRUE(ip(fmt::format("link set {} up", name)));
    ASSERT_TRUE(ip("address add 10.9.0.1/24 dev v0"));
    ASSERT_TRUE(ip("address add fd01::1/64 dev v0 nodad"));
    open(ipv4(0, 1));
  }
  void open(const IpAddress& own) {
    ifreq request{.ifr_ifrn = {"v0"}};
    const UniqueFd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    ASSERT_EQ(::ioctl(socket.get(), SIOCGIFINDEX, &request), 0);
    auto opened = Rtnetlink::open(static_cast<unsigned>(request.ifr_ifindex), own);
    ASSERT_TRUE(opened.ok()) << opened.error().message;
    tables_ = std::move(*opened);
  }
  static bool ip(const std::string& words) {
    return std::system(("ip " + words + " 2>/dev/null").c_str()) == 0;
  }
  // As `ip neigh` shows it.
  static std::string shown(const std::string& hop) {
    const std::string command = "ip neigh show to " + hop + " dev v0";
    const std::unique_ptr<FILE, int (*)(FILE*)> pipe(::popen(command.c_str(), "r"), &::pclose);
    std::array<char, 256> line{};
    if (pipe == nullptr || std::fgets(line.data(), line.size(), pipe.get()) == nullptr) return "";
    return line.data();
  }
  Resolution look_up(const IpAddress& target) { return roce::look_up(*tables_, target); }

  std::unique_ptr<Rtnetlink> tables_;
};

TEST_F(RtnetlinkTest, TheKernelAsksForAHopThatItDoesNotKnow) {
  EXPECT_EQ(tables_->entry(ipv4(0, 9)).state, HopState::kNone);
  EXPECT_EQ(look_up(ipv4(0, 9)).reach, Reach::kAsked);
  EXPECT_NE(shown("10.9.0.9").find("INCOMPLETE"), std::string::npos) << shown("10.9.0.9");
  EXPECT_EQ(tables_->entry(ipv4(0, 9)).state, HopState::kAsking);
}

TEST_F(RtnetlinkTest, TheKernelVerifiesAStaleHop) {
  ASSERT_TRUE(ip("neigh add 10.9.0.9 lladdr 02:00:00:00:00:09 dev v0 nud stale"));
  EXPECT_EQ(look_up(ipv4(0, 9)), (Resolution{.reach = Reach::kKnown, .mac = kHopMac}));
  EXPECT_NE(shown("10.9.0.9").find("DELAY"), std::string::npos) << shown("10.9.0.9");
}

TEST_F(RtnetlinkTest, AnOperatorsEntryStaysAsItIs) {
  ASSERT_TRUE(ip("neigh add 10.9.0.9 lladdr 02:00:00:00:00:09 dev v0 nud permanent"));
  ASSERT_TRUE(ip("neigh add 10.9.0.8 lladdr 03:00:00:00:00:09 dev v0 nud permanent"));
  EXPECT_EQ(look_up(ipv4(0, 9)).mac, kHopMac);
  EXPECT_EQ(look_up(ipv4(0, 8)).reach, Reach::kUnreachable);
  for (const char* hop : {"10.9.0.9", "10.9.0.8"}) {
    EXPECT_NE(shown(hop).find("PERMANENT"), std::string::npos) << shown(hop);
  }
}

TEST_F(RtnetlinkTest, FindsGatewaysOfBothFamilies) {
  ASSERT_TRUE(ip("route add 10.9.1.0/24 via 10.9.0.9"));
  ASSERT_TRUE(ip("route add 10.9.2.0/24 via inet6 fe80::9 dev v0"));
  ASSERT_TRUE(ip("-6 route add fd02::/64 via fe80::9 dev v0"));
  ASSERT_TRUE(ip("neigh add fe80::9 lladdr 02:00:00:00:00:09 dev v0 nud permanent"));
  EXPECT_EQ(tables_->route_to(ipv4(1, 1)).hop, ipv4(0, 9));
  EXPECT_EQ(tables_->route_to(ipv4(2, 1)).hop, link_local(9));
  EXPECT_EQ(look_up(ipv4(2, 1)).mac, kHopMac);
  EXPECT_EQ(look_up(ipv6(2, 1)).reach, Reach::kNoRoute);  // not of the port's family
  open(kOwn6);
  EXPECT_EQ(look_up(ipv6(2, 1)).mac, kHopMac);
  EXPECT_EQ(tables_->route_to(link_local(9)).hop, link_local(9));
}

// The same link-local address may be that of another host on another interface.
TEST_F(RtnetlinkTest, AHopIsOfThePortsInterface) {
  open(kOwn6);
  ASSERT_TRUE(ip("neigh add fe80::9 lladdr 02:00:00:00:00:09 dev v1 nud permanent"));
  EXPECT_EQ(tables_->entry(link_local(9)).state, HopState::kNone);
}

TEST_F(RtnetlinkTest, ReportsThatThereIsNoRoute) {
  open(kOwn6);
  ASSERT_TRUE(ip("-6 route add prohibit fd02::/64"));
  ASSERT_TRUE(ip("-6 route add blackhole fd03::/64"));
  ASSERT_TRUE(ip("-6 route add unreachable fd04::/64"));
  for (const std::uint8_t net : {2, 3, 4, 5}) {
    EXPECT_EQ(look_up(ipv6(net, 1)).reach, Reach::kNoRoute) << int{net};
  }
  EXPECT_EQ(look_up(kOwn6).reach, Reach::kNoRoute);
}

TEST_F(RtnetlinkTest, AnInterfaceThatIsDownOrGoneHasNoRoute) {
  ASSERT_TRUE(ip("link set v0 down"));
  EXPECT_EQ(look_up(ipv4(0, 9)).reach, Reach::kNoRoute);
  ASSERT_TRUE(ip("link delete v0"));
  EXPECT_EQ(look_up(ipv4(0, 9)).reach, Reach::kNoRoute);
  EXPECT_EQ(tables_->entry(ipv4(0, 9)).state, HopState::kNotRead);
}

}  // namespace
}  // namespace tally::transport::roce
