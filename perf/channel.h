// One JSON document a line over a socket: how a spawned worker and its parent talk.
//   parent to worker: the options; then {"event":"resume"} after each pause
//   worker to parent: {"event": ready | progress | pause | row | log | failed | done, ...}
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "base/fd.h"

namespace tally::perf {

class Channel {
 public:
  explicit Channel(UniqueFd socket) : socket_(std::move(socket)) {}

  int fd() const { return socket_.get(); }

  // False when the other side is gone.
  bool send(const nlohmann::json& message);

  // Waits for the next message; nullopt when the other side is gone, or sent what is no JSON.
  std::optional<nlohmann::json> receive();

  // Reads what has arrived, waiting for nothing; false at the end of the stream.
  bool read_available();
  // The next message of what read_available() read.
  std::optional<nlohmann::json> next();

 private:
  bool read_some(int flags);

  UniqueFd socket_;
  std::string received_;
};

}  // namespace tally::perf
