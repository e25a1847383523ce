#include "net/server/listener.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/tcp.h>
#include <sys/resource.h>

#include <fstream>
#include <optional>

#include "base/clock.h"
#include "net/tcp.h"
#include "tests/support/net/rpc_test_support.h"

namespace tally::rpc {
namespace {

ListenOptions at(const std::string& path) {
  return {.address = "unix:" + path};
}

bool exists(const std::string& path) {
  return ::access(path.c_str(), F_OK) == 0;
}

mode_t mode_of(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 ? info.st_mode & 07777 : 0;
}

TEST(Listener, MakesItsDirectoryAndRemovesItsSocket) {
  const TemporaryDirectory directory;
  const std::string path = directory / "run/tallyd.sock";
  {
    auto listener = Listener::open({.address = "unix:" + path, .private_directory = true});
    ASSERT_TRUE(listener.ok()) << listener.error().message;
    EXPECT_EQ(mode_of(path), 0666u);
    EXPECT_EQ(mode_of(directory / "run"), 0700u);
    Listener moved = std::move(listener).value();
    EXPECT_TRUE(exists(path));
  }
  EXPECT_FALSE(exists(path));
}

TEST(Listener, ConnectionsOverTcpNoticeVanishedPeers) {
  auto listener = Listener::open({.address = "tcp:127.0.0.1:0"});
  ASSERT_TRUE(listener.ok()) << listener.error().message;
  const auto client = net::connect_tcp({"127.0.0.1", net::local_port(listener->fd())},
                                       monotonic_now() + 10 * kSecond);
  ASSERT_TRUE(client.ok()) << client.error().message;
  std::optional<UniqueFd> accepted;
  for (int i = 0; i < 1000 && !accepted; ++i) {
    accepted = net::accept_tcp(listener->fd());
    if (!accepted) ::usleep(1000);
  }
  ASSERT_TRUE(accepted);
  const auto option = [&](int level, int name) {
    int value = 0;
    socklen_t bytes = sizeof value;
    ::getsockopt(accepted->get(), level, name, &value, &bytes);
    return value;
  };
  EXPECT_EQ(option(SOL_SOCKET, SO_KEEPALIVE), 1);
  EXPECT_EQ(option(IPPROTO_TCP, TCP_NODELAY), 1);
  EXPECT_EQ(option(IPPROTO_TCP, TCP_KEEPIDLE), 5);
  EXPECT_EQ(option(IPPROTO_TCP, TCP_USER_TIMEOUT), 10'000);
}

TEST(Listener, NamesTheCauseWhenNoDescriptorIsLeft) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none{0, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  const auto listener = Listener::open({.address = "tcp:127.0.0.1:0"});
  const auto other = net::listen_tcp({"127.0.0.1", 0});
  ::setrlimit(RLIMIT_NOFILE, &before);
  ASSERT_FALSE(listener.ok());
  EXPECT_THAT(listener.error().message, ::testing::HasSubstr("Too many open files"));
  ASSERT_FALSE(other.ok());
  EXPECT_THAT(other.error().message, ::testing::HasSubstr("Too many open files"));
}

TEST(Listener, SetsTheModeThatWasAsked) {
  const TemporaryDirectory directory;
  auto options = at(directory / "s");
  options.mode = 0660;
  auto listener = Listener::open(options);
  ASSERT_TRUE(listener.ok());
  EXPECT_EQ(mode_of(directory / "s"), 0660u);
}

TEST(Listener, ReplacesASocketThatNobodyAnswersAt) {
  const TemporaryDirectory directory;
  const std::string path = directory / "s";
  {
    auto dead = Listener::open(at(path));
    ASSERT_TRUE(dead.ok());
    // As after a crash: the name stays, the socket is gone.
    ASSERT_EQ(::rename(path.c_str(), (directory / "kept").c_str()), 0);
  }
  ASSERT_EQ(::rename((directory / "kept").c_str(), path.c_str()), 0);
  auto listener = Listener::open(at(path));
  EXPECT_TRUE(listener.ok()) << listener.error().message;
}

TEST(Listener, RefusesWhereAnotherAnswers) {
  const TemporaryDirectory directory;
  const std::string path = directory / "s";
  auto first = Listener::open(at(path));
  ASSERT_TRUE(first.ok());
  auto second = Listener::open(at(path));
  ASSERT_EQ(second.status(), Status::kUnavailable);
  EXPECT_NE(second.error().message.find("another tallyd answers at " + path), std::string::npos);
  EXPECT_TRUE(exists(path));
}

TEST(Listener, KeepsWhatIsNoSocket) {
  const TemporaryDirectory directory;
  const std::string path = directory / "s";
  std::ofstream(path) << "precious";
  auto listener = Listener::open(at(path));
  ASSERT_EQ(listener.status(), Status::kInvalidArgument);
  EXPECT_NE(listener.error().message.find("not a socket"), std::string::npos);
  EXPECT_TRUE(exists(path));
}

TEST(Listener, LeavesASocketThatSomebodyElsePutThere) {
  const TemporaryDirectory directory;
  const std::string path = directory / "s";
  auto first = Listener::open(at(path));
  ASSERT_TRUE(first.ok());
  ASSERT_EQ(::unlink(path.c_str()), 0);
  auto second = Listener::open(at(path));
  ASSERT_TRUE(second.ok());
  first.value() = Listener();
  EXPECT_TRUE(exists(path));
}

TEST(Listener, ReportsWhatIsWrongWithAnAddress) {
  const std::string long_path = "/tmp/" + std::string(120, 'x');
  auto too_long = Listener::open(at(long_path));
  ASSERT_EQ(too_long.status(), Status::kInvalidArgument);
  EXPECT_NE(too_long.error().message.find("allow 107"), std::string::npos);
  EXPECT_EQ(Listener::open({.address = "udp:host:1"}).status(), Status::kInvalidArgument);
  EXPECT_EQ(Listener::open({.address = "unix:"}).status(), Status::kInvalidArgument);
  auto nowhere = Listener::open(at("/tmp/tally-no-such/dir/s"));
  ASSERT_EQ(nowhere.status(), Status::kUnavailable);
  EXPECT_NE(nowhere.error().message.find("/tmp/tally-no-such/dir"), std::string::npos);
}

TEST(Listener, RefusesAPrivateDirectoryThatOthersCanWrite) {
  const TemporaryDirectory directory;
  ASSERT_EQ(::mkdir((directory / "d").c_str(), 0700), 0);
  ASSERT_EQ(::chmod((directory / "d").c_str(), 0777), 0);
  auto options = at(directory / "d/s");
  options.private_directory = true;
  EXPECT_EQ(Listener::open(options).status(), Status::kRefused);
}

}  // namespace
}  // namespace tally::rpc
