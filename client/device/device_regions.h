// The regions of a session that are memory of devices, and the way of the nodes to each: an adapter
// reaches the memory itself, or the bytes travel through a copy in pinned host memory.
#pragma once

#include <cstddef>
#include <mutex>
#include <unordered_map>

#include "base/result.h"
#include "client/memory/region.h"
#include "client/session/session.h"
#include "gpu_bridge/memory/device_memory.h"
#include "gpu_bridge/memory/pinned_memory.h"

namespace tally::client {

struct DeviceRegion {
  gpu::DeviceMemory memory;
  // What the nodes use: the memory itself, or its copy, byte for byte. The session owns it.
  Region* region = nullptr;
  gpu::PinnedMemory pinned;  // of the copy
  bool staged = false;
  bool needs_flush = false;  // of what an adapter has written
  bool removing = false;     // not pinned any more, and of no use to operations
};

// One thread at a time uses it, together with the session, under a lock. Functions that take the
// lock give it up around calls of CUDA that may block until devices have done work.
class DeviceRegions {
 public:
  using Lock = std::unique_lock<std::mutex>;

  DeviceRegions(const cuda::Driver& driver, Session& session)
      : driver_(driver), session_(session) {}

  // Registers memory. A log line has the way to it, and why there is no shorter one. Precondition:
  // the calls of CUDA that made the memory have ended.
  Result<DeviceRegion*> add(Lock& lock, const gpu::DeviceMemory& memory);
  // Null: `region` is not memory of a device.
  const DeviceRegion* find(const Region* region) const;
  // Precondition: no operation uses the region. in_use: enqueued copies may still use it, so its
  // copy stays as by keep_pinned().
  Outcome remove(Lock& lock, Region* region, bool in_use);
  // The copies stay pinned and mapped until the process ends, because enqueued work may still use
  // them. CUDA would also refuse to pin other memory at their addresses.
  void keep_pinned();

 private:
  Result<DeviceRegion> direct(const gpu::DeviceMemory& memory);
  Result<DeviceRegion> staged(Lock& lock, const gpu::DeviceMemory& memory);
  static void keep_pinned(DeviceRegion& device);

  const cuda::Driver& driver_;
  Session& session_;
  std::unordered_map<const Region*, DeviceRegion> regions_;
};

}  // namespace tally::client
