// The regions that the node knows over libfabric, by key. The connection stores into them the
// results that come with completions. Threads: the session's thread adds and withdraws regions, and
// the connection's thread stores results. A mutex protects the map.
#pragma once

#include <cstddef>
#include <map>
#include <mutex>
#include <span>

#include "client/memory/region.h"
#include "dataplane/transport/fabric/domain.h"
#include "dataplane/transport/fabric/message.h"

namespace tally::client {

class ExposedMemory {
 public:
  // `base` is the address that the node uses for the first byte of the region. `region` must stay
  // until withdraw() or clear().
  void add(const Region& region, transport::fabric::Fid<fid_mr> exposed, std::uint64_t base);
  void withdraw(const Region& region);
  void clear();

  // Copies each result behind a completion to its address. False when a result cannot be read or is
  // not for memory that the node knows; the results before it are stored.
  bool store(std::span<const std::byte> results);

 private:
  struct Exposed {
    const Region* region = nullptr;
    std::byte* data = nullptr;
    std::uint64_t bytes = 0;
    std::uint64_t base = 0;
    transport::fabric::Fid<fid_mr> registered;
  };

  bool place(const transport::fabric::SmallResult& result);

  std::mutex mutex_;
  std::map<std::uint64_t, Exposed> by_key_;
};

}  // namespace tally::client
