#include "control/config/roce_address.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace tally::control {
namespace {

using transport::roce::IpAddress;

constexpr IpAddress kIpv4 = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 10, 9, 0, 2};
constexpr IpAddress kIpv6 = {0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2};

class RoceAddressTest : public ::testing::Test {
 protected:
  RoceAddressTest() { config_.roce = "net_af_xdp0,iface=eth1"; }

  RoceAddress found() {
    auto result = roce_address(config_, interfaces_);
    EXPECT_TRUE(result.ok()) << result.error().message;
    return result ? *result : RoceAddress{};
  }
  void expect_error(std::string_view first, std::string_view second) {
    const auto result = roce_address(config_, interfaces_);
    ASSERT_FALSE(result.ok());
    const std::string& message = result.error().message;
    const std::size_t remedy = message.find(": ");
    ASSERT_NE(remedy, std::string::npos) << message;
    EXPECT_NE(message.substr(0, remedy).find(first), std::string::npos) << message;
    EXPECT_NE(message.find(second, remedy), std::string::npos) << message;
  }

  Config config_;
  std::vector<Interface> interfaces_{{"eth0", "10.9.0.7", true, 24},
                                     {"eth1", "fe80::1", true, 64},
                                     {"eth1", "fd00::2", true, 64},
                                     {"eth1", "10.9.0.2", true, 24}};
};

TEST_F(RoceAddressTest, WithoutAnAddressThePortHasTheKernelsAndPrefersIpv4) {
  EXPECT_TRUE(found().is_beside_kernel);
  EXPECT_EQ(found().local.address, kIpv4);
  EXPECT_EQ(found().text, "10.9.0.2");
  interfaces_.pop_back();
  EXPECT_EQ(found().local.address, kIpv6);
}

TEST_F(RoceAddressTest, AnAddressWithoutAPrefixIsOneOfTheKernels) {
  config_.roce_address = "fd00::2";
  EXPECT_TRUE(found().is_beside_kernel);
  EXPECT_EQ(found().local.address, kIpv6);
  config_.roce_address = "10.9.0.7";
  expect_error("the kernel has 10.9.0.2, fd00::2 on interface eth1",
               "add the prefix (\"10.9.0.7/24\")");
  config_.roce_address = "fd00::7";
  expect_error("network.roce_address is \"fd00::7\"", "add the prefix (\"fd00::7/64\")");
  config_.roce_address = "here";
  expect_error("network.roce_address is \"here\"", "10.9.0.2");
}

TEST_F(RoceAddressTest, FindsAnAddressWithALabel) {
  interfaces_.back().name = "eth1:1";
  EXPECT_EQ(found().local.address, kIpv4);
  interfaces_.back().name = "eth11";
  EXPECT_EQ(found().local.address, kIpv6);
}

TEST_F(RoceAddressTest, AnAddressWithAPrefixIsOfThePortAlone) {
  config_.roce_address = "10.9.0.2/20";
  config_.roce_gateway = "10.9.0.1";
  const RoceAddress alone = found();
  EXPECT_FALSE(alone.is_beside_kernel);
  EXPECT_EQ(alone.local.address, kIpv4);
  EXPECT_EQ(alone.local.prefix_bits, 20U);
  EXPECT_TRUE(alone.local.gateway.has_value());
  EXPECT_EQ(alone.text, "10.9.0.2");
}

TEST_F(RoceAddressTest, AGatewayIsOnTheLink) {
  config_.roce_address = "10.9.0.2/24";
  for (const char* gateway : {"here", "10.9.1.1", "fd00::1", "0.0.0.0"}) {
    config_.roce_gateway = gateway;
    expect_error(fmt::format("network.roce_gateway is \"{}\"", gateway), "on the port's link");
  }
  config_.roce_address = "fd00::2/64";
  config_.roce_gateway = "fd00::1";
  EXPECT_TRUE(found().local.gateway.has_value());
  config_.roce_gateway = "fe80::1";
  expect_error("network.roce_gateway is \"fe80::1\"", "on the port's link");
}

TEST_F(RoceAddressTest, OtherDevicesNeedAPrefix) {
  config_.roce = "net_af_packet0,iface=eth1";
  expect_error("network.roce_address is \"\"", "10.9.0.2/24");
  config_.roce_address = "10.9.0.2";
  expect_error("network.roce_address is \"10.9.0.2\", without a prefix", "10.9.0.2/24");
  config_.roce_address = "10.9.0.2/33";
  expect_error("network.roce_address is \"10.9.0.2/33\"", "10.9.0.2/24");
  config_.roce_address = "224.0.0.1/24";
  expect_error("network.roce_address is \"224.0.0.1/24\"", "10.9.0.2/24");
}

TEST_F(RoceAddressTest, TheInterfaceNeedsAnAddressThatIsNotLinkLocal) {
  interfaces_.resize(2);
  expect_error("interface eth1 of network.roce is not there, or has no address", "ip address add");
}

TEST_F(RoceAddressTest, WhatTheKernelDecidesIsRefused) {
  config_.roce_gateway = "10.9.0.1";
  expect_error("network.roce_gateway is \"10.9.0.1\"", "leave it out");
  config_.roce_gateway.clear();
  config_.roce_vlan = 7;
  expect_error("network.roce_vlan is 7", "ip link add link eth1 name eth1.7 type vlan id 7");
  config_.roce_vlan = 0;
  config_.roce = "net_af_xdp0,iface=eth1,xdp_prog=/tmp/x.o";
  expect_error("xdp_prog=/tmp/x.o", "leave xdp_prog= out");
  config_.roce = "net_af_xdp0";
  expect_error("network.roce is \"net_af_xdp0\"", "net_af_xdp0,iface=eth1");
  config_.roce_address = "10.9.0.9/24";
  expect_error("network.roce is \"net_af_xdp0\"", "net_af_xdp0,iface=eth1");
}

}  // namespace
}  // namespace tally::control
