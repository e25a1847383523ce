// The regions that the node knows over libfabric, by key: to be withdrawn, and to store the results
// in that come with completions. The session's thread exposes and withdraws, the link's own stores.
#pragma once

#include <cstddef>
#include <map>
#include <mutex>
#include <span>

#include "client/region.h"
#include "dataplane/transport/fabric/domain.h"
#include "dataplane/transport/fabric/message.h"

namespace tally::client {

class ExposedMemory {
 public:
  // `base`: where the node is told that the region begins.
  void add(const Region& region, transport::fabric::Fid<fid_mr> exposed, std::uint64_t base);
  void withdraw(const Region& region);
  void clear();

  // Every result behind a completion goes where it says. False: one is not of memory that the node
  // knows, or cannot be read; those before it have been stored.
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
