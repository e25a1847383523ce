// Plain bytes over plain sockets: the speed that a collective could reach in a network if it only
// had to move its bytes. This file has the worker's end, and the loop of both ends.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <vector>

#include "net/line_channel.h"
#include "perf/options/options.h"

namespace tally::perf {

// The least number of bytes that a rank sends (or receives) in the row.
std::uint64_t bytes_sent(const Options& options, const Row& row, std::uint32_t rank);
std::uint64_t bytes_received(const Options& options, const Row& row, std::uint32_t rank);

// Prepares a socket for a stream. It blocks, but only for a limited time.
void make_stream(int socket);

// Moves `bytes` bytes in chunks through `buffer`, and starts again at its front when it is used up.
// False when the stream broke or stood still. Precondition: the buffer is not empty.
bool send_stream(int socket, std::span<const std::byte> buffer, std::uint64_t bytes);
bool receive_stream(int socket, std::span<std::byte> buffer, std::uint64_t bytes);

// The worker's streams during a pause in which the conductor measures (socket_meter.h).
class WorkerStreams {
 public:
  explicit WorkerStreams(const Options& options) : options_(options) {}

  // `row` must outlive the next begin().
  void begin(const Row& row) { row_ = &row; }
  // Obeys {"event":"connect","port":P,"key":K} or {"event":"stream","passes":N}, and answers.
  // Throws a json::exception when it cannot read the message.
  void obey(const nlohmann::json& message, net::Channel& conductor);

 private:
  bool connect(const nlohmann::json& message);
  bool stream(std::uint64_t passes);

  const Options& options_;
  const Row* row_ = nullptr;
  UniqueFd up_;
  UniqueFd down_;
  std::vector<std::byte> in_;
  std::vector<std::byte> out_;
};

}  // namespace tally::perf
