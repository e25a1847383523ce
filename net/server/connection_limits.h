// Limits for peers of the server.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/clock.h"

namespace tally::rpc {

// Limits for anonymous peers (anonymous.h).
struct AnonymousLimits {
  std::size_t connections = 512;  // connections of all strangers
  std::size_t per_source = 64;    // connections of one source
  std::size_t operators = 64;
  Nanos idle = 10 * kSecond;           // time between two activities of a stranger
  std::size_t unanswered = 8;          // unanswered requests of one stranger
  std::size_t reply_bytes = 64 << 10;  // unread reply bytes of one stranger, or one larger reply
  std::size_t all_bytes = 16 << 20;    // reply and request bytes that all strangers together hold
};

struct Limits {
  std::size_t connections = 4096;        // all except the anonymous ones of local operators
  std::size_t request_bytes = 64 << 10;  // including the newline
  std::size_t fds = 128;                 // per request
  std::size_t unanswered = 64;           // requests of one connection that the service holds
  std::size_t output_bytes = 4 << 20;    // reply bytes that wait for a peer that does not read
  AnonymousLimits anonymous;
};

// Lowers `limits` to fit a process that may open `descriptors` files. An eighth of the files is for
// strangers and a sixteenth for local operators. One source gets at most half of the strangers'
// share. All connections together leave out the process's own files and the operators' share. Each
// share is at least 4.
Limits fit_descriptors(Limits limits, std::uint64_t descriptors);

// Returns the descriptors that the process needs besides those of sessions: its own, those of
// strangers and those of operators.
std::uint64_t descriptors_without_sessions(const Limits& limits);

}  // namespace tally::rpc
