// What a session is opened with.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "base/clock.h"

struct ibv_pd;  // of libibverbs; NOLINT(readability-identifier-naming)

namespace tally::client {

struct SessionOptions {
  std::string address;  // of a node, or of several that coordinate: "tcp:a:7733,tcp:b:7733"
  std::string job;
  std::string token;
  std::string transport;     // "shm", "fabric"; empty: the best that works
  ibv_pd* domain = nullptr;  // the caller's, for verbs; borrowed for the session's life
  std::uint16_t rank = 0;
  std::uint16_t ranks = 1;
  Nanos connect_timeout = 10 * kSecond;
  std::uint32_t deadline_ms = 0;  // of operations that name none; 0: the node's
  std::optional<bool> checksums;  // of what this rank contributes; none: as $TALLY_CHECKSUMS says
  std::function<void(int level, const std::string& text)> log;
};

}  // namespace tally::client
