// Slows down sources that show wrong keys. Pure: time is an argument.
//
// A source may be wrong kFree times. After that each of its handshakes waits before the server
// looks at it, and each further wrong key doubles the wait. A wrong key is forgiven after
// kForgiven.
#pragma once

#include <cstddef>
#include <string>
#include <unordered_map>

#include "base/clock.h"

namespace tally::rpc {

class WrongKeys {
 public:
  static constexpr int kFree = 4;
  static constexpr Nanos kFirstWait = 50 * kMillisecond;
  static constexpr Nanos kLongestWait = 2 * kSecond;
  static constexpr Nanos kForgiven = 5 * kSecond;
  static constexpr std::size_t kMostSources = 4096;

  // This source showed a wrong key.
  void add(const std::string& source, Nanos now);
  // How long a handshake of this source waits.
  Nanos wait_of(const std::string& source, Nanos now) const;
  // Whether the wait after this source's last wrong key is not over.
  bool must_wait(const std::string& source, Nanos now) const;
  std::size_t sources() const { return sources_.size(); }

 private:
  struct Source {
    int wrong = 0;
    Nanos since = 0;  // of `wrong`; it becomes less with time
  };

  static int wrong_now(const Source& source, Nanos now);

  std::unordered_map<std::string, Source> sources_;
};

}  // namespace tally::rpc
