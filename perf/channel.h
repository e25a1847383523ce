// One JSON document a line over a socket: how a worker and the conductor of its run talk.
//   to the worker: its options (spawned ones; joiner.h has what comes before from another host);
//     {"event":"resume" | "streams"} after each pause
//   to the conductor: {"event": ready | progress | pause | streamed | row | log | failed | done,
//   ...}
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/fd.h"

namespace tally::perf {

class Channel {
 public:
  // Longer lines are not taken: the other side may be anybody. A row of a thousand ranks fits.
  static constexpr std::size_t kMaxLine = 16 << 20;

  explicit Channel(UniqueFd socket) : socket_(std::move(socket)) {}

  int fd() const { return socket_.get(); }
  // The socket, to be handed on. Precondition: nothing has arrived that was not taken.
  UniqueFd release() { return std::move(socket_); }

  // False when the other side is gone, or does not read what it is sent.
  bool send(const nlohmann::json& message);

  // Waits for the next message; nullopt when the other side is gone, sent what is no JSON, or sent
  // nothing until the deadline.
  std::optional<nlohmann::json> receive(Nanos deadline = kForever);

  // Reads what has arrived, waiting for nothing; false at the end of the stream, or when what came
  // cannot be read.
  bool read_available();
  // The next message of what read_available() read.
  std::optional<nlohmann::json> next();
  // What came cannot be read; nothing more will be.
  bool broken() const { return broken_; }

 private:
  UniqueFd socket_;
  std::string received_;
  std::size_t searched_ = 0;  // bytes of it that hold no end of a line
  bool broken_ = false;
};

}  // namespace tally::perf
