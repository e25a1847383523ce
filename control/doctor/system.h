// What the checks ask of the machine other than by reading files: a seam, which the tests fill with
// answers of their own.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "control/doctor/path_probe.h"
#include "control/rails.h"
#include "control/shard_places.h"

namespace tally::control::doctor {

// As libibverbs sees it, which needs more than the kernel: a driver in user space, a device file.
struct VerbsDevice {
  std::string name;
  std::string failure;  // why it cannot be opened; empty: it can
  // Bytes of payload in a packet, of each port from the first on; 0: unknown.
  std::vector<std::uint32_t> active_mtus;
};

struct VerbsLibrary {
  std::string version;
  std::vector<VerbsDevice> devices;
  // What transport verbs would take, and why; or why it would take none. One of them is empty.
  std::string chosen;
  std::string none_chosen;
};

// What a configuration says of the device; empty: nothing.
struct VerbsWish {
  std::string device;  // NAME[:PORT[:GID-INDEX]]
  std::string host;    // numeric, where the node listens
};

using Statistics = std::vector<std::pair<std::string, std::uint64_t>>;

class System {
 public:
  virtual ~System() = default;

  // Bytes that this process may lock (RLIMIT_MEMLOCK, the soft limit); UINT64_MAX: no limit.
  virtual Result<std::uint64_t> memory_lock_limit() = 0;
  // May this user open the file for reading and writing? The error says why not.
  virtual Outcome may_use(const std::string& path) = 0;
  // The CPUs that this process may run on.
  virtual Result<std::vector<int>> cpus() = 0;
  // What of it belongs together; none: unknown.
  virtual std::optional<Hardware> hardware() = 0;
  // Its addresses.
  virtual std::vector<Interface> interfaces() = 0;
  // Version of the library that is opened at run time.
  virtual Result<std::string> libfabric_version() = 0;
  virtual Result<VerbsLibrary> verbs_library(const VerbsWish& wish) = 0;
  // What `ethtool -S` shows of a network interface.
  virtual Result<Statistics> ethtool_statistics(const std::string& interface) = 0;
  // The way to a host, for each family of addresses that the name has. May take seconds.
  virtual Result<std::vector<PathMtu>> path_mtus(const std::string& host) = 0;
  // The answer to node.status.
  virtual Result<nlohmann::json> node_status(const std::string& address, double timeout) = 0;
};

// This machine.
class ThisSystem : public System {
 public:
  Result<std::uint64_t> memory_lock_limit() override;
  Outcome may_use(const std::string& path) override;
  Result<std::vector<int>> cpus() override;
  std::optional<Hardware> hardware() override;
  std::vector<Interface> interfaces() override;
  Result<std::string> libfabric_version() override;
  Result<VerbsLibrary> verbs_library(const VerbsWish& wish) override;
  Result<Statistics> ethtool_statistics(const std::string& interface) override;
  Result<std::vector<PathMtu>> path_mtus(const std::string& host) override;
  Result<nlohmann::json> node_status(const std::string& address, double timeout) override;
};

}  // namespace tally::control::doctor
