// A listening socket, on TCP or in the file system. On a Unix socket it replaces only a left-over
// socket file, and it removes its own file at the end.
#pragma once

#include <sys/stat.h>

#include <string>
#include <string_view>

#include "base/result.h"
#include "base/system/fd.h"

namespace tally::rpc {

struct ListenOptions {
  std::string address;  // "unix:/path" or "tcp:host:port"
  mode_t mode = 0666;   // of a Unix socket: which users may connect; tokens decide what they may do
  // True: the directory belongs to this user alone. It is made with mode 0700. It is refused when
  // another user owns it, or when its group or others may write it. False: it is made with mode
  // 0755. Only the last directory of the path is ever made.
  bool private_directory = false;
};

class Listener {
 public:
  // Opens the listener. A socket file at which no process answers is left over, and open() replaces
  // it. Anything else at the path stays and is an error.
  static Result<Listener> open(const ListenOptions& options);
  // Returns the address with the actual port: "tcp:0.0.0.0:7733", also when the options asked for
  // port 0.
  const std::string& address() const { return address_; }

  Listener() = default;
  Listener(Listener&& other) noexcept = default;
  Listener& operator=(Listener&& other) noexcept;
  ~Listener() { close(); }

  int fd() const { return socket_.get(); }

 private:
  static Result<Listener> open_unix(const ListenOptions& options);
  static Result<Listener> open_tcp(const ListenOptions& options);
  void close();

  UniqueFd socket_;
  std::string address_;
  std::string path_;  // path of a Unix socket
  // Identify the socket file. close() does not remove another file at the same path.
  dev_t device_ = 0;
  ino_t inode_ = 0;
};

}  // namespace tally::rpc
