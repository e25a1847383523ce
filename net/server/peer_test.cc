#include "net/server/peer.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <unistd.h>

#include <cstring>

#include "tests/support/net/rpc_test_support.h"

namespace tally::rpc {
namespace {

std::string source(const char* text) {
  sockaddr_storage storage{};
  sockaddr_in inet{};
  sockaddr_in6 inet6{};
  if (::inet_pton(AF_INET, text, &inet.sin_addr) == 1) {
    inet.sin_family = AF_INET;
    std::memcpy(&storage, &inet, sizeof inet);
  } else if (::inet_pton(AF_INET6, text, &inet6.sin6_addr) == 1) {
    inet6.sin6_family = AF_INET6;
    std::memcpy(&storage, &inet6, sizeof inet6);
  }
  return source_of(storage);
}

TEST(Peer, ASourceIsAnAddressOrAnIpv6Network) {
  EXPECT_EQ(source("10.0.0.1"), "10.0.0.1");
  EXPECT_EQ(source("::ffff:10.0.0.1"), "10.0.0.1");
  EXPECT_EQ(source("fd00:0:0:1::1"), source("fd00::1:2:3:4:5"));
  EXPECT_EQ(source("fd00:0:0:1::1"), "fd00:0:0:1::/64");
  EXPECT_NE(source("fd00:0:0:1::1"), source("fd00:0:0:2::1"));
  EXPECT_EQ(source("nonsense"), "unknown");
}

TEST(Peer, OfAUnixSocketIsAUser) {
  const auto [one, other] = socket_pair();
  const Peer peer = peer_of(one.get());
  EXPECT_EQ(peer.source, "uid " + std::to_string(::geteuid()));
  EXPECT_EQ(peer.pid, ::getpid());
  EXPECT_TRUE(peer.is_local());
  EXPECT_TRUE(peer.is_operator);
}

TEST(Peer, WithoutASocketIsNobody) {
  const Peer peer = peer_of(-1);
  EXPECT_FALSE(peer.is_local());
  EXPECT_FALSE(peer.is_operator);
  EXPECT_EQ(peer.source, "unknown");
}

}  // namespace
}  // namespace tally::rpc
