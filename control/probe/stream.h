// What plain TCP carries from machine to machine: bytes that mean nothing, for a bounded time, from
// senders to a receiver that has expected them. Blocking; for threads that may wait.
//
// A sender shows the key that the receiver made up; the receiver lets all of its senders begin at
// once, counts what comes in a span that begins after `warm_up`, and tells each what it counted.
// Nothing is sent to who does not answer as a receiver does.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/fd.h"
#include "base/result.h"
#include "client/tcp.h"

namespace tally::control::probe {

inline constexpr std::size_t kMostStreams = 256;  // of a sender, or of a receiver
inline constexpr std::size_t kKeyBytes = 32;      // hexadecimal

struct Pace {
  Nanos warm_up = kSecond / 2;  // slow start, bursts, and the others' beginning
  Nanos measure = kSecond;
  std::uint64_t max_bytes = std::uint64_t{1} << 38;  // of a stream
};

// In the span that counts.
struct Carried {
  std::uint64_t bytes = 0;
  Nanos time = 0;  // above 0

  double per_second() const {
    return static_cast<double>(bytes) * kSecond / static_cast<double>(time);
  }
};

class Receiver {
 public:
  // Listens at a port of the system's choice. `host` as in client/tcp.h. `streams`: how many come.
  static Result<Receiver> listen(const std::string& host, std::size_t streams);

  std::uint16_t port() const;
  const std::string& key() const { return key_; }

  // Until all streams have ended, not all have come within 10 s, or `stop`. What each carried; an
  // error where some did not come or broke off.
  Result<std::vector<Carried>> run(const Pace& pace, const std::atomic<bool>& stop) const;

 private:
  UniqueFd listener_;
  std::string key_;
  std::size_t streams_ = 0;
};

struct Target {
  client::HostPort where;
  std::string key;
};

// A stream to each target at once, each on a thread of its own. By target: what its receiver
// counted, or why it is not known.
std::vector<Result<Carried>> send_streams(const std::vector<Target>& targets, const Pace& pace,
                                          const std::atomic<bool>& stop);

}  // namespace tally::control::probe
