#include "net/server/listener.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "base/clock.h"
#include "net/tcp.h"

namespace tally::rpc {
namespace {

using net::UnixAddress;

constexpr int kBacklog = 1024;

const sockaddr* generic(const sockaddr_un& address) {
  return reinterpret_cast<const sockaddr*>(&address);
}

Error failure(std::string_view what, std::string_view path) {
  const int number = errno;
  const Status status =
      number == EACCES || number == EPERM ? Status::kRefused : Status::kUnavailable;
  std::string_view remedy = "choose another path with --listen";
  if (number == EACCES || number == EPERM) {
    remedy = "give this user write access to its directory, or choose another path with --listen";
  } else if (number == ENOENT) {
    remedy = "make its directory, or choose another path with --listen";
  }
  return {status, fmt::format("cannot {} {}: {}; {}", what, path, std::strerror(number), remedy)};
}

Outcome prepare_directory(const std::string& directory, bool is_private) {
  if (::mkdir(directory.c_str(), is_private ? 0700 : 0755) == 0) return Unit{};
  if (errno != EEXIST) return failure("make directory", directory);
  if (!is_private) return Unit{};
  // In /tmp another user may have made the directory first, to put a socket into it.
  struct stat info {};
  if (::lstat(directory.c_str(), &info) != 0) return failure("look at directory", directory);
  if (!S_ISDIR(info.st_mode) || info.st_uid != ::geteuid() || (info.st_mode & 0022) != 0) {
    return Error{Status::kRefused,
                 fmt::format("{} is not a directory that user {} alone can write (owner {}, mode "
                             "{:04o}): remove it, or choose another path with --listen",
                             directory, ::geteuid(), info.st_uid, info.st_mode & 07777)};
  }
  return Unit{};
}

// The lock is held while a node looks for a left-over socket and replaces it. So when two nodes
// start at the same time, neither removes the other's socket. When another process holds the lock
// for long, the start goes on without it.
UniqueFd lock_directory(const std::string& directory) {
  constexpr int kTries = 100;
  UniqueFd fd(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  for (int i = 0; fd && i < kTries && ::flock(fd.get(), LOCK_EX | LOCK_NB) != 0; ++i) {
    const timespec pause{0, 10 * kMillisecond};
    ::nanosleep(&pause, nullptr);
  }
  return fd;
}

Outcome remove_left_over(const UnixAddress& address) {
  const char* path = address.path.c_str();
  struct stat info {};
  if (::lstat(path, &info) != 0) return Unit{};  // bind() reports what else is wrong
  if (!S_ISSOCK(info.st_mode)) {
    return Error{
        Status::kInvalidArgument,
        fmt::format("{} exists and is not a socket: remove it, or choose another path with "
                    "--listen",
                    address.path)};
  }
  UniqueFd probe(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!probe) return failure("make a socket for", address.path);
  const int failed = ::connect(probe.get(), generic(address.socket), sizeof address.socket);
  if (failed == 0 || errno == EAGAIN) {
    return Error{Status::kUnavailable,
                 fmt::format("another tallyd answers at {}: stop it (tallyctl --address unix:{} "
                             "status names its pid), or choose another path with --listen",
                             address.path, address.path)};
  }
  if (errno != ECONNREFUSED) return failure("see who listens at", address.path);
  if (::unlink(path) != 0) return failure("remove the left-over socket", address.path);
  return Unit{};
}

}  // namespace

Listener& Listener::operator=(Listener&& other) noexcept {
  if (this != &other) {
    close();
    socket_ = std::move(other.socket_);
    address_ = std::move(other.address_);
    path_ = std::move(other.path_);
    device_ = other.device_;
    inode_ = other.inode_;
  }
  return *this;
}

void Listener::close() {
  if (!socket_) return;
  struct stat info {};
  if (!path_.empty() && ::lstat(path_.c_str(), &info) == 0 && info.st_dev == device_ &&
      info.st_ino == inode_) {
    ::unlink(path_.c_str());
  }
  socket_.reset();
}

Result<Listener> Listener::open(const ListenOptions& options) {
  return options.address.starts_with(net::kTcpScheme) ? open_tcp(options) : open_unix(options);
}

Result<Listener> Listener::open_tcp(const ListenOptions& options) {
  auto targets = net::resolve_tcp(options.address, true);
  if (!targets) return targets.error();
  const net::SocketAddress& target = targets->front();
  const auto* address = reinterpret_cast<const sockaddr*>(&target.socket);
  UniqueFd socket(::socket(target.socket.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int on = 1;
  if (socket) net::notice_vanished_peers(socket.get());
  if (!socket || ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
      ::bind(socket.get(), address, target.bytes) != 0 || ::listen(socket.get(), kBacklog) != 0) {
    const int number = errno;
    return Error{Status::kUnavailable,
                 fmt::format("cannot listen at {}: {}; choose another address with --listen-tcp",
                             options.address, std::strerror(number))};
  }
  Listener listener;
  const int fd = socket.get();
  listener.address_ =
      fmt::format("tcp:{}:{}", net::bracketed(net::local_host(fd)), net::local_port(fd));
  listener.socket_ = std::move(socket);
  return listener;
}

Result<Listener> Listener::open_unix(const ListenOptions& options) {
  auto address = net::parse_address(options.address);
  if (!address) return address.error();
  const std::string& path = address->path;
  std::string directory = std::filesystem::path(path).parent_path().string();
  if (directory.empty()) directory.push_back('.');
  if (auto made = prepare_directory(directory, options.private_directory); !made) {
    return made.error();
  }
  const UniqueFd lock = lock_directory(directory);
  if (auto removed = remove_left_over(*address); !removed) return removed.error();

  Listener listener;
  UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return failure("make a socket for", path);
  // The file gets the mode of the socket: no other user can connect until chmod() sets the mode
  // that the options ask for.
  ::fchmod(socket.get(), 0600);
  if (::bind(socket.get(), generic(address->socket), sizeof address->socket) != 0) {
    return failure("listen at", path);
  }
  struct stat info {};
  if (::lstat(path.c_str(), &info) != 0) return failure("look at", path);
  listener.socket_ = std::move(socket);
  listener.address_ = options.address;
  listener.path_ = path;
  listener.device_ = info.st_dev;
  listener.inode_ = info.st_ino;
  if (::listen(listener.fd(), kBacklog) != 0) return failure("listen at", path);
  if (::chmod(path.c_str(), options.mode) != 0) return failure("set the mode of", path);
  return listener;
}

}  // namespace tally::rpc
