#include "net/server/connection_limits.h"

#include <algorithm>

namespace tally::rpc {
namespace {

// Descriptors of the process besides connections: of its log, its event loop, its shards.
constexpr std::uint64_t kOwnDescriptors = 64;
constexpr std::uint64_t kFewest = 4;

std::size_t at_most(std::size_t limit, std::uint64_t share) {
  return std::min<std::uint64_t>(limit, std::max(share, kFewest));
}

}  // namespace

Limits fit_descriptors(Limits limits, std::uint64_t descriptors) {
  AnonymousLimits& anonymous = limits.anonymous;
  anonymous.connections = at_most(anonymous.connections, descriptors / 8);
  anonymous.operators = at_most(anonymous.operators, descriptors / 16);
  // One source must not take all connections.
  anonymous.per_source = at_most(anonymous.per_source, anonymous.connections / 2);
  const std::uint64_t others = kOwnDescriptors + anonymous.operators;
  limits.connections = at_most(limits.connections, descriptors - std::min(descriptors, others));
  return limits;
}

std::uint64_t descriptors_without_sessions(const Limits& limits) {
  return kOwnDescriptors + limits.anonymous.connections + limits.anonymous.operators;
}

}  // namespace tally::rpc
