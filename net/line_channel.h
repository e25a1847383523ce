// Messages between a worker and the conductor of its run: one JSON document per line over a socket.
//   to the worker: the options of a spawned worker (lobby.h has the start on another host);
//     {"event":"start"} when all workers are ready; {"event":"connect" | "stream"} during a pause
//     (streams.h); {"event":"resume"} after each pause
//   to the conductor: {"event": ready | progress | pause | streamed | row | log | failed | done,
//   ...}
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/system/fd.h"

namespace tally::net {

class Channel {
 public:
  // Bytes. The channel rejects longer lines, because any process can be the other side. A row of a
  // thousand ranks fits.
  static constexpr std::size_t kMaxLine = 16 << 20;

  explicit Channel(UniqueFd socket, std::size_t max_line = kMaxLine)
      : socket_(std::move(socket)), max_line_(max_line) {}

  // Allows the longest lines from now on, because the other side is known.
  void allow_longest_lines() { max_line_ = kMaxLine; }

  int fd() const { return socket_.get(); }
  // Returns the socket. Precondition: no data has arrived that next() has not taken.
  UniqueFd release() { return std::move(socket_); }

  // False when the other side is gone, or does not read.
  bool send(const nlohmann::json& message);

  // Waits for the next message. nullopt when the other side is gone, sent something that is not
  // JSON, or sent nothing until the deadline.
  std::optional<nlohmann::json> receive(Nanos deadline = kForever);

  // Reads the data that has arrived, without waiting. False at the end of the stream, or when the
  // data cannot be read.
  bool read_available();
  // Returns the next message of the data that read_available() read.
  std::optional<nlohmann::json> next();
  // Whether data could not be read. No more messages come.
  bool broken() const { return broken_; }

 private:
  UniqueFd socket_;
  std::size_t max_line_;
  std::string received_;
  std::size_t searched_ = 0;  // bytes of received_ that contain no end of a line
  bool broken_ = false;
};

}  // namespace tally::net
