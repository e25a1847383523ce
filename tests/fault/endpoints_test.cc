// Tenants on other machines that lie about where they are: a node must connect to nobody but them,
// and say so. Real processes; another job on the same shards runs on meanwhile, with right results.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <cstring>

#include "base/clock.h"
#include "net/rpc/rpc_channel.h"
#include "net/tcp.h"
#include "tests/fault/cluster.h"
#include "tests/support/transport/random.h"

namespace tally::testing {
using ::testing::AllOf;
using ::testing::HasSubstr;

namespace {

using nlohmann::json;
using rpc::RpcChannel;

constexpr const char* kHere = "127.0.0.1";       // the tenant's address, and the node's
constexpr const char* kElsewhere = "127.0.0.2";  // somebody else's
constexpr Nanos kTimeout = 10 * kSecond;

Nanos soon() {
  return monotonic_now() + kTimeout;
}

std::string in_hex(const void* data, std::size_t bytes) {
  constexpr const char* kDigits = "0123456789abcdef";
  std::string text;
  for (std::size_t i = 0; i < bytes; ++i) {
    const unsigned char byte = static_cast<const unsigned char*>(data)[i];
    text += {kDigits[byte >> 4], kDigits[byte & 15]};
  }
  return text;
}

// As libfabric's TCP providers name an endpoint.
std::string endpoint(const char* host, std::uint16_t port) {
  sockaddr_in socket{};
  socket.sin_family = AF_INET;
  socket.sin_port = htons(port);
  ::inet_pton(AF_INET, host, &socket.sin_addr);
  return in_hex(&socket, sizeof socket);
}
std::string endpoint6(const char* host, std::uint16_t port) {
  sockaddr_in6 socket{};
  socket.sin6_family = AF_INET6;
  socket.sin6_port = htons(port);
  ::inet_pton(AF_INET6, host, &socket.sin6_addr);
  return in_hex(&socket, sizeof socket);
}

std::uint16_t free_port() {
  return net::local_port(net::listen_tcp({kHere, 0})->get());
}

class Endpoints : public ::testing::Test, protected Cluster {
 protected:
  Endpoints() {
    start_node("", {"--listen-tcp", node_address(), "--verbs", "off"});
    victim_ = net::listen_tcp({kElsewhere, 0}).value();
    healthy_ = job(2, "healthy", {.elements = 50'000});
    for (const auto& rank : healthy_) rank->send("loop 7 20000 200");
  }
  // Nobody has come to the victim, and the healthy job has had right results all the while.
  ~Endpoints() override {
    ::poll(nullptr, 0, 100);
    EXPECT_FALSE(net::accept_tcp(victim_.get())) << "the node has connected to a stranger";
    for (const auto& rank : healthy_) EXPECT_EQ(rank->line(120'000), "looped 200 wrong 0");
    for (const auto& rank : healthy_) rank->close_input();
    for (const auto& rank : healthy_) EXPECT_EQ(rank->wait(), 0);
    EXPECT_EQ(left_behind(), "");
  }

  std::string node_address() const {
    return "tcp:" + std::string(kHere) + ":" + std::to_string(port_);
  }
  std::uint16_t victims_port() const { return net::local_port(victim_.get()); }

  // A session of a job of its own.
  struct Tenant {
    RpcChannel channel;
    json opened;

    std::size_t shards() const { return opened.at("lanes").get<std::size_t>(); }
    Result<json> attach(json more) {
      more["transport"] = "fabric";
      return channel.call("session.attach", std::move(more), {}, soon());
    }
    Result<json> attach(const std::string& name) { return attach({{"name", name}, {"secret", 1}}); }
  };
  Tenant open(const std::string& name) const {
    RpcChannel channel = RpcChannel::connect(node_address(), soon()).value();
    json opened = channel
                      .call("session.open",
                            {{"version", 1}, {"job", name}, {"rank", 0}, {"ranks", 1}}, {}, soon())
                      .value();
    return {std::move(channel), std::move(opened)};
  }
  // One request on a connection that comes from elsewhere.
  std::string ask_from_elsewhere(const json& params) const {
    const UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in here{}, there{};
    here.sin_family = there.sin_family = AF_INET;
    ::inet_pton(AF_INET, kElsewhere, &here.sin_addr);
    ::inet_pton(AF_INET, kHere, &there.sin_addr);
    there.sin_port = htons(port_);
    const auto* from = reinterpret_cast<const sockaddr*>(&here);
    const auto* to = reinterpret_cast<const sockaddr*>(&there);
    EXPECT_EQ(::bind(socket.get(), from, sizeof here), 0);
    EXPECT_EQ(::connect(socket.get(), to, sizeof there), 0);
    const json request = {
        {"jsonrpc", "2.0"}, {"id", 1}, {"method", "session.prove"}, {"params", params}};
    const std::string line = request.dump() + "\n";
    EXPECT_EQ(::send(socket.get(), line.data(), line.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(line.size()));
    std::string answer;
    char byte = 0;
    while (byte != '\n' && net::wait_for(socket.get(), POLLIN, soon()) &&
           ::recv(socket.get(), &byte, 1, 0) == 1) {
      answer += byte;
    }
    return answer;
  }

  const std::uint16_t port_ = free_port();
  UniqueFd victim_;
  std::vector<std::unique_ptr<Process>> healthy_;
};

TEST_F(Endpoints, AForeignAddressIsRefusedByName) {
  Tenant tenant = open("liar");
  const auto attached = tenant.attach(endpoint(kElsewhere, victims_port()));
  EXPECT_EQ(attached.status(), Status::kRefused);
  EXPECT_THAT(attached.error().message, AllOf(HasSubstr(kElsewhere), HasSubstr(kHere)));
  const auto mapped = tenant.attach(endpoint6("::ffff:127.0.0.2", victims_port()));
  EXPECT_EQ(mapped.status(), Status::kRefused);
}

// They would lead to services of the node's own machine.
TEST_F(Endpoints, AnAddressThatIsTheNodesOwnIsRefused) {
  Tenant tenant = open("inward");
  EXPECT_EQ(tenant.attach(endpoint("0.0.0.0", port_)).status(), Status::kRefused);
  EXPECT_EQ(tenant.attach(endpoint6("::", port_)).status(), Status::kRefused);
  EXPECT_EQ(tenant.attach(endpoint6("::1", port_)).status(), Status::kRefused);
  EXPECT_EQ(tenant.attach(endpoint("255.255.255.255", port_)).status(), Status::kRefused);
}

TEST_F(Endpoints, OneForeignAddressAmongSeveralIsEnough) {
  Tenant tenant = open("rails");
  json rails = json::array();
  for (std::size_t shard = 0; shard < tenant.shards(); ++shard) {
    const char* host = shard + 1 == tenant.shards() ? kElsewhere : kHere;
    rails.push_back({{"name", endpoint(host, victims_port())}, {"secret", 1}, {"lanes", {shard}}});
  }
  const auto attached = tenant.attach(json{{"rails", std::move(rails)}});
  EXPECT_EQ(attached.status(), Status::kRefused);
}

TEST_F(Endpoints, NamesOfAnyLengthAndKindAreRefused) {
  transport::Random random(42);
  Tenant tenant = open("noise");
  for (int i = 0; i < 200; ++i) {
    std::string bytes(1 + random.below(200), 0);
    for (char& byte : bytes) byte = static_cast<char>(random.next());
    if (random.below(2) == 0) bytes.replace(0, 2, std::string{AF_INET, 0});
    EXPECT_FALSE(tenant.attach(in_hex(bytes.data(), bytes.size())).ok());
  }
}

// Another tenant's number is easily guessed; what it was told when it opened is not.
TEST_F(Endpoints, NobodyAddsAnAddressToAnothersSession) {
  Tenant tenant = open("target");
  const auto number = tenant.opened.at("session").get<std::uint64_t>();
  for (std::uint64_t guess = 0; guess < 200; ++guess) {
    const std::string answer = ask_from_elsewhere({{"session", number}, {"proof", guess}});
    ASSERT_THAT(answer, HasSubstr("no session has this number and proof"));
  }
  EXPECT_EQ(tenant.attach(endpoint(kElsewhere, victims_port())).status(), Status::kRefused);
}

// As a worker does with several NICs.
TEST_F(Endpoints, AnAddressThatTheSessionHasShownIsTaken) {
  Tenant tenant = open("two-nics");
  const std::string answer =
      ask_from_elsewhere({{"session", tenant.opened.at("session")},
                          {"proof", tenant.opened.at("fabric").at("proof")}});
  EXPECT_THAT(answer, HasSubstr(kElsewhere));
  const auto attached = tenant.attach(endpoint(kElsewhere, victims_port()));
  EXPECT_TRUE(attached.ok()) << attached.error().message;
}

}  // namespace
}  // namespace tally::testing
