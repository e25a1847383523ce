// The listening socket in the file system: made with care for what is there already, removed at the
// end.
#pragma once

#include <sys/stat.h>

#include <string>
#include <string_view>

#include "base/fd.h"
#include "base/result.h"

namespace tally::rpc {

struct ListenOptions {
  std::string address;  // "unix:/path" or "tcp:host:port"
  mode_t mode = 0666;   // of a Unix socket: who may connect. What they may do, tokens decide
  // The directory is for this user alone: made with mode 0700, refused when somebody else owns it.
  // Else it is made with mode 0755. Only the last directory of the path is ever made.
  bool private_directory = false;
};

class Listener {
 public:
  // A socket that nobody answers at is left over, and is replaced; anything else at the path stays
  // and is an error.
  static Result<Listener> open(const ListenOptions& options);
  // Where it listens: "tcp:0.0.0.0:7733", also when port 0 was asked for.
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
  std::string path_;  // of a Unix socket
  // Of the socket file: what somebody else put at the path meanwhile is not removed.
  dev_t device_ = 0;
  ino_t inode_ = 0;
};

}  // namespace tally::rpc
