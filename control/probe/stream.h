// Measures how fast plain TCP moves bytes between machines. Senders send meaningless bytes to a
// receiver that expects them, for a limited time. The functions block, so threads that may wait
// must call them.
//
// The receiver makes up a key, and each sender shows it. The receiver lets all its senders begin at
// the same time. It counts the bytes in a span that begins after `warm_up`, and reports to each
// sender its count. A sender streams only to an endpoint that answers as a receiver does.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "base/system/fd.h"
#include "net/tcp.h"

namespace tally::control::probe {

inline constexpr std::size_t kMostStreams = 256;  // of one sender or one receiver
inline constexpr std::size_t kKeyBytes = 32;      // hexadecimal digits

struct Pace {
  Nanos warm_up = kSecond / 2;  // for slow start, bursts, and the start of the other senders
  Nanos measure = kSecond;
  std::uint64_t max_bytes = std::uint64_t{1} << 38;  // bytes of one stream
};

// The bytes of one stream in the span that counts.
struct Carried {
  std::uint64_t bytes = 0;
  Nanos time = 0;  // more than 0

  double per_second() const {
    return static_cast<double>(bytes) * kSecond / static_cast<double>(time);
  }
};

class Receiver {
 public:
  // Listens at a port that the system chooses. `host` has the form of net/tcp.h. `streams` is
  // the number of expected streams.
  static Result<Receiver> listen(const std::string& host, std::size_t streams);

  std::uint16_t port() const;
  const std::string& key() const { return key_; }

  // Runs until all streams have ended, until 10 s have passed and not all have come, or until
  // `stop`. Returns what each stream carried. Returns an error when a stream did not come or broke.
  Result<std::vector<Carried>> run(const Pace& pace, const std::atomic<bool>& stop) const;

 private:
  UniqueFd listener_;
  std::string key_;
  std::size_t streams_ = 0;
};

struct Target {
  net::HostPort where;
  std::string key;
};

// Sends one stream to each target at the same time, each on a thread of its own. Returns, per
// target, the receiver's count or the reason why it is unknown.
std::vector<Result<Carried>> send_streams(const std::vector<Target>& targets, const Pace& pace,
                                          const std::atomic<bool>& stop);

}  // namespace tally::control::probe
