#include "control/node/endpoints/endpoint_host.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "net/address.h"

namespace tally::control {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using transport::fabric::Name;

template <typename Socket>
Name as_name(const Socket& socket) {
  Name name(sizeof socket);
  std::memcpy(name.data(), &socket, sizeof socket);
  return name;
}
Name v4(const char* host) {
  sockaddr_in socket{};
  socket.sin_family = AF_INET;
  socket.sin_port = htons(40'000);
  EXPECT_EQ(::inet_pton(AF_INET, host, &socket.sin_addr), 1);
  return as_name(socket);
}
Name v6(const char* host) {
  sockaddr_in6 socket{};
  socket.sin6_family = AF_INET6;
  socket.sin6_port = htons(40'000);
  EXPECT_EQ(::inet_pton(AF_INET6, host, &socket.sin6_addr), 1);
  return as_name(socket);
}
Outcome check(const Name& name, std::vector<std::string> proven, const char* provider = "net") {
  return check_endpoint(name, provider, proven);
}

TEST(EndpointHost, IsReadOfEitherFamily) {
  EXPECT_EQ(host_of(v4("10.0.0.2")), "10.0.0.2");
  EXPECT_EQ(host_of(v6("fd00::2")), "fd00::2");
  EXPECT_EQ(host_of(v6("::ffff:10.0.0.2")), "10.0.0.2")
      << "as a socket for both families reports it";
}

TEST(EndpointHost, IsWhereTheSessionHasComeFrom) {
  EXPECT_TRUE(check(v4("10.0.0.2"), {"10.0.0.2"}));
  EXPECT_TRUE(check(v6("fd00::2"), {"10.0.0.2", "fd00::2"})) << "another NIC that was shown";
  const Outcome foreign = check(v4("10.0.0.3"), {"10.0.0.2"});
  EXPECT_EQ(foreign.status(), Status::kRefused);
  EXPECT_THAT(foreign.error().message, AllOf(HasSubstr("10.0.0.3"), HasSubstr("10.0.0.2")));
}

TEST(EndpointHost, ASessionProvesEachHostOnceAndNotTooMany) {
  std::vector<std::string> proven{"10.0.0.2"};
  EXPECT_TRUE(add_proven(proven, "10.0.0.3"));
  EXPECT_TRUE(add_proven(proven, "10.0.0.2"));
  EXPECT_THAT(proven, ::testing::ElementsAre("10.0.0.2", "10.0.0.3"));
  EXPECT_THAT(add_proven(proven, "").error().message, HasSubstr("not TCP"));
  for (int i = 0; i < 100; ++i) {
    static_cast<void>(add_proven(proven, "10.0.1." + std::to_string(i)));
  }
  EXPECT_EQ(proven.size(), 32U);
  EXPECT_THAT(add_proven(proven, "10.0.2.1").error().message, HasSubstr("32 addresses"));
}

// Where they lead from the node is not where they lead from its client.
TEST(EndpointHost, NoAddressInParticularIsNotTheClients) {
  EXPECT_EQ(check(v4("0.0.0.0"), {"10.0.0.2"}).status(), Status::kRefused);
  EXPECT_EQ(check(v6("::"), {"10.0.0.2"}).status(), Status::kRefused);
  EXPECT_EQ(check(v4("127.0.0.1"), {"10.0.0.2"}).status(), Status::kRefused);
  EXPECT_EQ(check(v6("::1"), {"10.0.0.2"}).status(), Status::kRefused);
}

TEST(EndpointHost, NamesThatAreNoAddressesAreRefused) {
  Name other_family = v4("10.0.0.2");
  const sa_family_t unix_family = AF_UNIX, wrong_size = AF_INET6;
  std::memcpy(other_family.data(), &unix_family, sizeof unix_family);
  Name longer = v4("10.0.0.2");
  std::memcpy(longer.data(), &wrong_size, sizeof wrong_size);
  for (const Name& name : {Name(1), Name(16), Name(32), Name(128), other_family, longer}) {
    EXPECT_EQ(host_of(name), "") << name.size();
    EXPECT_EQ(check(name, {"10.0.0.2", ""}).status(), Status::kInvalidArgument) << name.size();
  }
}

// EFA's are a device's GID and a queue pair.
TEST(EndpointHost, NamesOfEfaContainNoHost) {
  EXPECT_TRUE(check(Name(32), {"10.0.0.2"}, "efa"));
}

}  // namespace
}  // namespace tally::control
