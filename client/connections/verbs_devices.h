// The RDMA devices of a session. Each device is open once, with one protection domain, for all
// nodes that the session reaches through it. Each device therefore registers a region, and pins its
// memory, only once.
//
// Several nodes know the same key, and the fence is still safe. A key opens memory only to the
// queue pairs of its domain, and each node has its own queue pairs. A node whose queue pairs are
// destroyed reaches nothing, with any key.
//
// One thread at a time uses it, as with the session.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "client/memory/region.h"
#include "dataplane/transport/verbs/device.h"

namespace tally::client {

class VerbsDevice {
 public:
  explicit VerbsDevice(std::unique_ptr<transport::verbs::Device> device)
      : device_(std::move(device)) {}

  transport::verbs::Device& operator*() const { return *device_; }
  transport::verbs::Device* operator->() const { return device_.get(); }

  // Returns the key by which nodes reach the region. The key is valid until withdraw() was called
  // as often as expose().
  Result<std::uint32_t> expose(const Region& region);
  void withdraw(const Region* region);

  // Takes the events of the device. A device failure ends the sessions that use it, and failure()
  // returns the reason.
  void read_events();
  const std::string& failure() const { return failure_; }

 private:
  struct Exposed {
    transport::verbs::MemoryRegion registered;
    std::uint32_t users = 0;
  };

  std::unique_ptr<transport::verbs::Device> device_;
  std::map<const Region*, Exposed> exposed_;
  std::string failure_;
};

class VerbsDevices {
 public:
  // Returns the device that is open with these options, or opens it. Every call passes the same
  // `api`.
  Result<std::shared_ptr<VerbsDevice>> open(transport::verbs::Api& api,
                                            const transport::verbs::DeviceOptions& options);

 private:
  struct Opened {
    transport::verbs::DeviceOptions options;
    std::weak_ptr<VerbsDevice> device;
  };
  std::vector<Opened> opened_;
};

}  // namespace tally::client
