#include "base/system/peer_process.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>

namespace tally {
namespace {

bool ended(const UniqueFd& process, int timeout_ms) {
  pollfd waiter{process.get(), POLLIN, 0};
  return ::poll(&waiter, 1, timeout_ms) > 0;
}

// A message of one byte with room for one descriptor.
struct OneDescriptor {
  OneDescriptor() {
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
  }
  OneDescriptor(const OneDescriptor&) = delete;
  OneDescriptor& operator=(const OneDescriptor&) = delete;

  bool send(int socket, int descriptor) {
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    *reinterpret_cast<int*>(CMSG_DATA(header)) = descriptor;
    return ::sendmsg(socket, &message, 0) == 1;
  }

  UniqueFd receive(int socket) {
    if (::recvmsg(socket, &message, 0) != 1) return {};
    return UniqueFd(*reinterpret_cast<int*>(CMSG_DATA(CMSG_FIRSTHDR(&message))));
  }

  char control[CMSG_SPACE(sizeof(int))] = {};
  char byte = 0;
  iovec part{&byte, 1};
  msghdr message{};
};

// The socket is kept open by this process: only the process's end shows that the peer has ended.
TEST(PeerProcess, EndsWithTheProcessNotWithTheSocket) {
  int pair[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
  const UniqueFd ours(pair[0]), theirs(pair[1]);
  const pid_t child = ::fork();
  if (child == 0) {
    int own[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM, 0, own) != 0) ::_exit(1);
    // A socket of the child's making, handed to the parent.
    if (!OneDescriptor().send(pair[1], own[0])) ::_exit(1);
    char byte = 0;
    static_cast<void>(!::read(pair[1], &byte, 1));
    ::_exit(0);
  }
  const UniqueFd socket = OneDescriptor().receive(ours.get());
  ASSERT_TRUE(socket);
  const UniqueFd process = process_behind(socket.get());
  if (!process) GTEST_SKIP() << "this kernel gives no pidfd";
  EXPECT_FALSE(has_ended(process.get()));
  ASSERT_EQ(::write(ours.get(), "x", 1), 1);
  EXPECT_TRUE(ended(process, 10'000));
  EXPECT_TRUE(has_ended(process.get()));
  ::waitpid(child, nullptr, 0);
}

TEST(PeerProcess, NoneBehindWhatIsNoUnixSocket) {
  EXPECT_FALSE(process_behind(STDIN_FILENO));
  EXPECT_FALSE(process_behind(-1));
  EXPECT_FALSE(has_ended(-1));
}

}  // namespace
}  // namespace tally
