// Plain bytes over plain sockets: what a collective could have of a network if nothing but its
// bytes had to be moved. A worker's end of it, and the loop that both ends have.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <vector>

#include "perf/channel.h"
#include "perf/options.h"

namespace tally::perf {

// Bytes that a rank sends (or receives) in the row at least.
std::uint64_t bytes_sent(const Options& options, const Row& row, std::uint32_t rank);
std::uint64_t bytes_received(const Options& options, const Row& row, std::uint32_t rank);

// Of a socket that is to carry a stream: it blocks, for a while at most.
void make_stream(int socket);

// Moves `bytes` through `buffer`, chunk after chunk and again from its front. False when the stream
// broke or stood still. Precondition: the buffer is not empty.
bool send_stream(int socket, std::span<const std::byte> buffer, std::uint64_t bytes);
bool receive_stream(int socket, std::span<std::byte> buffer, std::uint64_t bytes);

// What a worker does while it stands still and the conductor measures (socket_meter.h).
class WorkerStreams {
 public:
  explicit WorkerStreams(const Options& options) : options_(options) {}

  // Outlives the next begin().
  void begin(const Row& row) { row_ = &row; }
  // {"event":"connect","port":P,"key":K} or {"event":"stream","passes":N}; answers. Messages that
  // cannot be read throw a json::exception.
  void obey(const nlohmann::json& message, Channel& conductor);

 private:
  bool connect(const nlohmann::json& message, const Channel& conductor);
  bool stream(std::uint64_t passes);

  const Options& options_;
  const Row* row_ = nullptr;
  UniqueFd up_;
  UniqueFd down_;
  std::vector<std::byte> in_;
  std::vector<std::byte> out_;
};

}  // namespace tally::perf
