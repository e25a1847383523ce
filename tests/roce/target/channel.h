// The TCP connection to the program at the other end. While it waits, the target goes on.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/system/fd.h"
#include "tests/roce/target/target.h"

namespace tally::transport::roce::target {

// Both protocols end with this text and its zero byte.
inline constexpr std::string_view kEnd{"done", 5};

class Channel {
 public:
  // Connects or waits for a connection, as the target's options say. target is borrowed.
  static Result<Channel> open(Target& target, int listener);

  Outcome write(std::string_view bytes);
  Result<std::string> read(std::size_t bytes);
  // The next bytes, which stay for read().
  Result<std::string> peek(std::size_t bytes);

 private:
  Channel(Target& target, UniqueFd socket) : target_(&target), socket_(std::move(socket)) {}
  Result<std::string> receive(std::size_t bytes, int flags);

  Target* target_;
  UniqueFd socket_;
};

// Calls progress() until the condition holds. Fails when a connection fails, or nothing has
// happened for the timeout of the options; what: for the message.
template <typename Condition>
Outcome run_until(Target& target, const std::string& what, Condition condition) {
  Nanos last = monotonic_now();
  while (!condition()) {
    const bool has_worked = target.progress();
    if (std::string text = target.failure(); !text.empty()) {
      return Error{Status::kPeerLost, what + ": " + text};
    }
    const Nanos now = monotonic_now();
    if (has_worked) last = now;
    if (now - last > target.options().timeout) {
      return Error{Status::kUnavailable, what + ": nothing came from the other end"};
    }
  }
  return Unit{};
}

}  // namespace tally::transport::roce::target
