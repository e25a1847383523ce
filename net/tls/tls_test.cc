#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <filesystem>
#include <thread>

#include "base/system/fd.h"
#include "net/auth/key_ring.h"
#include "net/tls/tls_context.h"
#include "net/tls/tls_stream.h"
#include "net/tls/tunnel.h"
#include "tests/support/net/certificates.h"

namespace tally::net::tls {
namespace {

using auth::KeyRing;
using auth::Proof;
using auth::Secret;
using ::testing::HasSubstr;
using ::testing::Not;
using Failure = Stream::Failure;

constexpr std::int64_t kNow = 1'800'000'000;
constexpr const char* kHost = "127.0.0.1";

// A client and a server in one thread. Keeps all bytes that cross the wire.
class TlsTest : public ::testing::Test {
 protected:
  TlsTest() {
    EXPECT_TRUE(ring.add_secret(secret));
    int ends[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
    client_socket.reset(ends[0]);
    server_socket.reset(ends[1]);
  }
  ~TlsTest() override { std::filesystem::remove_all(folder); }

  std::shared_ptr<const ServerContext> accepting(const CertificateFiles& files = {}) {
    auto context = ServerContext::make(
        [this](std::string_view identity) { return ring.find(identity, kNow); }, files);
    EXPECT_TRUE(context) << context.error().message;
    return *context;
  }
  static std::shared_ptr<const ClientContext> showing(std::string_view text) {
    return *ClientContext::with_key(*auth::shown(text));
  }
  std::string token(std::int64_t expires = 0) {
    return *secret.make_token({.id = {}, .job = "bert", .expires = expires});
  }
  const std::string& folder_of_files() {
    if (folder.empty()) {
      std::string made = std::filesystem::temp_directory_path() / "tally-tls-XXXXXX";
      folder = ::mkdtemp(made.data());
    }
    return folder;
  }

  // What the client sends first (RFC 8446, section 4.1.2).
  std::string hello() {
    client.emplace(Stream::client(showing(token()), client_socket.get(), kHost).value());
    EXPECT_EQ(client->handshake(), Handshake::kWantsRead);
    std::string bytes(4096, '\0');
    const ssize_t size = ::recv(server_socket.get(), bytes.data(), bytes.size(), 0);
    EXPECT_GT(size, 0);
    bytes.resize(static_cast<std::size_t>(size));
    return bytes;
  }
  // Gives the server these bytes as the first ones of a client.
  Handshake take(const std::string& bytes) {
    EXPECT_GT(::send(client_socket.get(), bytes.data(), bytes.size(), 0), 0);
    server.emplace(Stream::server(accepting(), server_socket.get()).value());
    return server->handshake();
  }
  // Does the handshake of both as far as it goes.
  void meet(std::shared_ptr<const ClientContext> showing,
            std::shared_ptr<const ServerContext> accepting) {
    client.emplace(Stream::client(std::move(showing), client_socket.get(), kHost).value());
    server.emplace(Stream::server(std::move(accepting), server_socket.get()).value());
    for (int i = 0; i < 10; ++i) {
      at_client = client->handshake();
      if (at_client == Handshake::kFailed) ::shutdown(client_socket.get(), SHUT_WR);
      at_server = server->handshake();
      if (at_server == Handshake::kFailed) ::shutdown(server_socket.get(), SHUT_WR);
    }
    char byte = 0;
    // A client of TLS 1.3 learns with its first read whether the server accepted what it showed.
    if (at_client == Handshake::kDone && (client->read(&byte, 1) >= 0 || errno != EAGAIN)) {
      at_client = Handshake::kFailed;
    }
  }

  Secret secret = Secret::generate();
  KeyRing ring;
  UniqueFd client_socket;
  UniqueFd server_socket;
  std::optional<Stream> client;
  std::optional<Stream> server;
  Handshake at_client = Handshake::kFailed;
  Handshake at_server = Handshake::kFailed;
  std::string folder;
};

TEST_F(TlsTest, BothEndsProveThatTheyHaveTheSecret) {
  meet(showing(secret.text()), accepting());
  ASSERT_EQ(at_client, Handshake::kDone);
  ASSERT_EQ(at_server, Handshake::kDone);
  EXPECT_EQ(server->proof()->kind, Proof::Kind::kSecret);
}

TEST_F(TlsTest, ATokenProvesItsRights) {
  meet(showing(token()), accepting());
  ASSERT_EQ(at_server, Handshake::kDone);
  EXPECT_TRUE(server->proof()->covers("bert"));
  EXPECT_FALSE(server->proof()->covers("gpt"));
}

TEST_F(TlsTest, CarriesDataBothWays) {
  meet(showing(secret.text()), accepting());
  char buffer[16];
  ASSERT_EQ(client->write("question"), 8);
  ASSERT_EQ(server->read(buffer, sizeof buffer), 8);
  EXPECT_EQ(std::string_view(buffer, 8), "question");
  ASSERT_EQ(server->write("answer"), 6);
  ASSERT_EQ(client->read(buffer, sizeof buffer), 6);
  EXPECT_EQ(std::string_view(buffer, 6), "answer");
  EXPECT_EQ(client->read(buffer, sizeof buffer), -1);
  EXPECT_EQ(errno, EAGAIN);
  server->close();
  EXPECT_EQ(client->read(buffer, sizeof buffer), 0);
}

TEST_F(TlsTest, AFullSocketTakesNoMore) {
  meet(showing(secret.text()), accepting());
  const std::string much(1 << 20, 'x');
  ssize_t sent = 0;
  for (int i = 0; i < 1000 && sent >= 0; ++i) sent = client->write(much);
  EXPECT_EQ(sent, -1);
  EXPECT_EQ(errno, EAGAIN);
}

TEST_F(TlsTest, RefusesAWrongSecret) {
  meet(showing(Secret::generate().text()), accepting());
  EXPECT_EQ(at_client, Handshake::kFailed);
  EXPECT_EQ(at_server, Handshake::kFailed);
  EXPECT_EQ(server->failure(), Failure::kUnknown);
  EXPECT_EQ(client->failure(), Failure::kKey);
  EXPECT_FALSE(server->proof());
}

TEST_F(TlsTest, RefusesWhoNamesAKeyAndDoesNotHaveIt) {
  auto stolen = *auth::shown(token());
  stolen.key = crypto::Key::random();
  meet(*ClientContext::with_key(stolen), accepting());
  EXPECT_EQ(at_server, Handshake::kFailed);
  EXPECT_EQ(server->failure(), Failure::kWrongKey);
  EXPECT_THAT(server->why(), HasSubstr("token "));
  EXPECT_EQ(client->failure(), Failure::kKey);
}

TEST_F(TlsTest, RefusesAnExpiredToken) {
  meet(showing(token(kNow)), accepting());
  EXPECT_EQ(server->failure(), Failure::kExpired);
  EXPECT_THAT(server->why(), HasSubstr("has expired"));
  EXPECT_EQ(client->failure(), Failure::kKey);
}

TEST_F(TlsTest, RefusesARevokedToken) {
  const std::string text = token();
  ring.revoke(auth::rights_of(secret, text)->id);
  meet(showing(text), accepting());
  EXPECT_EQ(server->failure(), Failure::kRevoked);
  EXPECT_EQ(at_client, Handshake::kFailed);
}

TEST_F(TlsTest, AClientRefusesAServerThatDoesNotHaveTheKey) {
  KeyRing impostor;
  const auto context = *ServerContext::make(
      [](std::string_view) {
        return KeyRing::Found{.refusal = {}, .key = crypto::Key::random(), .proof = {}};
      },
      {});
  meet(showing(secret.text()), context);
  EXPECT_EQ(at_client, Handshake::kFailed);
}

TEST_F(TlsTest, ReplayedHelloProvesNothing) {
  // What a client sends is kept, and sent again to another connection.
  const std::string kept = hello();
  EXPECT_EQ(take(kept), Handshake::kWantsRead);  // for the client's Finished, which needs the key
  std::string guess("\x17\x03\x03\x00\x35", 5);
  guess.resize(5 + 0x35, 'x');
  ASSERT_GT(::send(client_socket.get(), guess.data(), guess.size(), 0), 0);
  EXPECT_EQ(server->handshake(), Handshake::kFailed);
  EXPECT_FALSE(server->proof());
}

TEST_F(TlsTest, PlaintextAndGarbageFail) {
  auto attacked = Stream::server(accepting(), server_socket.get()).value();
  const std::string line = R"({"jsonrpc":"2.0","id":1,"method":"node.info"})"
                           "\n";
  ASSERT_GT(::send(client_socket.get(), line.data(), line.size(), 0), 0);
  EXPECT_EQ(attacked.handshake(), Handshake::kFailed);
  EXPECT_EQ(attacked.failure(), Failure::kProtocol);
}

TEST_F(TlsTest, AHangUpIsNoWrongKey) {
  auto attacked = Stream::server(accepting(), server_socket.get()).value();
  EXPECT_EQ(attacked.handshake(), Handshake::kWantsRead);
  client_socket.reset();
  EXPECT_EQ(attacked.handshake(), Handshake::kFailed);
  EXPECT_EQ(attacked.failure(), Failure::kNetwork);
}

TEST_F(TlsTest, NothingCrossesInClear) {
  EXPECT_THAT(hello(), Not(HasSubstr("bert")));
}

// The extensions of a ClientHello: type, length and contents (RFC 8446, section 4.2).
constexpr std::string_view kVersions("\0\x2b\0\x03\x02\x03\x04", 7);
constexpr std::string_view kPskWithDheAlone("\0\x2d\0\x02\x01\x01", 6);
constexpr std::string_view kEarlyData("\0\x2a\0\0", 4);

TEST_F(TlsTest, AClientOffersTls13WithDiffieHellmanAlone) {
  const std::string sent = hello();
  EXPECT_THAT(sent, HasSubstr(std::string(kVersions)));
  EXPECT_THAT(sent, HasSubstr(std::string(kPskWithDheAlone)));
  EXPECT_THAT(sent, Not(HasSubstr(std::string(kEarlyData))));
}

TEST_F(TlsTest, RefusesAnEarlierVersion) {
  std::string sent = hello();
  sent.at(sent.find(kVersions) + kVersions.size() - 1) = '\x03';  // TLS 1.2
  EXPECT_EQ(take(sent), Handshake::kFailed);
  EXPECT_EQ(server->failure(), Failure::kProtocol);
}

TEST_F(TlsTest, RefusesAKeyWithoutDiffieHellman) {
  std::string sent = hello();
  sent.at(sent.find(kPskWithDheAlone) + kPskWithDheAlone.size() - 1) = '\0';  // psk_ke
  EXPECT_EQ(take(sent), Handshake::kFailed);
  EXPECT_NE(server->failure(), Failure::kWrongKey) << "the server looked at the key";
}

TEST_F(TlsTest, GivesNoTicketToResumeWith) {
  client.emplace(Stream::client(showing(token()), client_socket.get(), kHost).value());
  server.emplace(Stream::server(accepting(), server_socket.get()).value());
  for (int i = 0; i < 3; ++i) {
    at_client = client->handshake();
    at_server = server->handshake();
  }
  ASSERT_EQ(at_client, Handshake::kDone);
  ASSERT_EQ(at_server, Handshake::kDone);
  char byte = 0;
  EXPECT_EQ(::recv(client_socket.get(), &byte, 1, 0), -1) << "the server sends more";
  EXPECT_EQ(errno, EAGAIN);
}

TEST_F(TlsTest, CertificatesOfTheAuthorityCountAsTheSecret) {
  const testing::CertificateAuthority authority(folder_of_files(), "authority");
  meet(*ClientContext::with_certificates(authority.sign("client", "10.0.0.9")),
       accepting(authority.sign("node", kHost)));
  ASSERT_EQ(at_client, Handshake::kDone);
  ASSERT_EQ(at_server, Handshake::kDone);
  EXPECT_EQ(server->proof()->kind, Proof::Kind::kSecret);
}

TEST_F(TlsTest, RefusesACertificateOfAnotherAuthority) {
  const testing::CertificateAuthority authority(folder_of_files(), "authority");
  const testing::CertificateAuthority other(folder_of_files(), "other");
  auto forged = other.sign("client", "10.0.0.9");
  forged.authority = authority.sign("unused", "10.0.0.8").authority;
  meet(*ClientContext::with_certificates(forged), accepting(authority.sign("node", kHost)));
  EXPECT_EQ(at_server, Handshake::kFailed);
  EXPECT_EQ(server->failure(), Failure::kCertificate);
  EXPECT_EQ(at_client, Handshake::kFailed);
}

TEST_F(TlsTest, AClientRefusesACertificateForAnotherHost) {
  const testing::CertificateAuthority authority(folder_of_files(), "authority");
  meet(*ClientContext::with_certificates(authority.sign("client", "10.0.0.9")),
       accepting(authority.sign("node", "10.0.0.1")));
  EXPECT_EQ(at_client, Handshake::kFailed);
  EXPECT_EQ(client->failure(), Failure::kCertificate);
}

TEST_F(TlsTest, AClientWithAKeyTakesNoCertificateInstead) {
  const testing::CertificateAuthority authority(folder_of_files(), "authority");
  meet(showing(Secret::generate().text()), accepting(authority.sign("node", kHost)));
  EXPECT_EQ(at_client, Handshake::kFailed);
  EXPECT_EQ(at_server, Handshake::kFailed);
}

TEST_F(TlsTest, ATunnelCarriesAPlainStream) {
  auto from = Tunnel::client(showing(secret.text()), std::move(client_socket), kHost).value();
  auto to = Tunnel::server(accepting(), std::move(server_socket), {}).value();
  UniqueFd here = from->local_end();
  const UniqueFd there = to->local_end();
  const std::string much(3 << 20, 'x');
  std::thread writer([&] {
    for (std::size_t sent = 0; sent < much.size();) {
      const ssize_t count =
          ::send(here.get(), much.data() + sent, much.size() - sent, MSG_NOSIGNAL);
      if (count <= 0) break;
      sent += static_cast<std::size_t>(count);
    }
    here.reset();
    from.reset();
  });
  std::string got;
  std::string buffer(64 << 10, '\0');
  for (ssize_t count = 1; count > 0;) {
    count = ::recv(there.get(), buffer.data(), buffer.size(), 0);
    if (count > 0) got.append(buffer, 0, static_cast<std::size_t>(count));
  }
  writer.join();
  EXPECT_EQ(got, much);
}

TEST_F(TlsTest, ATunnelEndsWhenTheOtherSideHasAnotherSecret) {
  auto from =
      Tunnel::client(showing(Secret::generate().text()), std::move(client_socket), kHost).value();
  auto to = Tunnel::server(accepting(), std::move(server_socket), {}).value();
  const UniqueFd here = from->local_end();
  char byte = 0;
  EXPECT_EQ(::recv(here.get(), &byte, 1, 0), 0);
  const UniqueFd there = to->local_end();
  EXPECT_EQ(::recv(there.get(), &byte, 1, 0), 0);
  EXPECT_THAT(from->failure(), HasSubstr("does not accept the key"));
  EXPECT_FALSE(to->failure().empty());
}

TEST_F(TlsTest, ATunnelAnswersAPeerThatSpeaksInClear) {
  auto to = Tunnel::server(accepting(), std::move(server_socket), "speak TLS\n").value();
  ASSERT_EQ(::fcntl(client_socket.get(), F_SETFL, 0), 0);  // the test waits for the answer
  ASSERT_EQ(::send(client_socket.get(), "{}\n", 3, 0), 3);
  std::array<char, 32> answer{};
  ASSERT_EQ(::recv(client_socket.get(), answer.data(), answer.size(), MSG_WAITALL), 10);
  EXPECT_STREQ(answer.data(), "speak TLS\n");
  EXPECT_EQ(to->failure(), "it speaks in clear");
}

TEST_F(TlsTest, NamesFilesThatCannotBeUsed) {
  const auto missing = ClientContext::with_certificates(
      {.certificate = "/no/such.pem", .private_key = "x", .authority = "y"});
  ASSERT_FALSE(missing);
  EXPECT_THAT(missing.error().message, HasSubstr("/no/such.pem"));
  EXPECT_THAT(
      ClientContext::with_certificates({.certificate = "a", .private_key = {}, .authority = {}})
          .error()
          .message,
      HasSubstr("all three"));
}

}  // namespace
}  // namespace tally::net::tls
