// Counts of the server's connections.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tally::rpc {

// The present connections, and the connections that were closed or refused since the start.
struct ConnectionCounts {
  std::size_t identified = 0;  // the peer has a session, a rank in a job, or another Grant
  std::size_t anonymous = 0;   // anonymous connections of strangers
  std::size_t operators = 0;   // anonymous connections of local operators
  std::size_t limit = 0;       // limit of identified and anonymous ones together
  std::uint64_t closed_idle = 0;
  std::uint64_t closed_for_newer = 0;  // for a newer one, of the same source or of any
  std::uint64_t closed_for_memory = 0;
  std::uint64_t closed_for_descriptors = 0;
  std::uint64_t refused = 0;
  std::uint64_t refused_keys = 0;  // the peer showed a wrong key over TCP, or none
};

}  // namespace tally::rpc
