// Facts about the machine that the checks do not get from files. Tests replace this interface with
// fixed answers.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "control/cli/doctor/path_probe.h"
#include "control/config/rails.h"
#include "control/machine/cpu_assignment.h"

namespace tally::control::doctor {

// A device as libibverbs sees it. libibverbs needs more than the kernel: a driver in user space and
// a device file.
struct VerbsDevice {
  std::string name;
  std::string failure;  // why the library cannot open it; empty when it can
  // Payload bytes per packet, one entry per port from the first port on; 0 when unknown.
  std::vector<std::uint32_t> active_mtus;
};

struct VerbsLibrary {
  std::string version;
  std::vector<VerbsDevice> devices;
  // The device that transport verbs would choose, with the reason, or the reason why it would
  // choose none. One of the two is empty.
  std::string chosen;
  std::string none_chosen;
};

// The device that a configuration asks for. Empty fields ask for nothing.
struct VerbsWish {
  std::string device;  // NAME[:PORT[:GID-INDEX]]
  std::string host;    // numeric address at which the node listens
};

using Statistics = std::vector<std::pair<std::string, std::uint64_t>>;

class System {
 public:
  virtual ~System() = default;

  // Returns the bytes that this process may lock (the soft limit of RLIMIT_MEMLOCK). UINT64_MAX
  // means no limit.
  virtual Result<std::uint64_t> memory_lock_limit() = 0;
  // Succeeds when this user may open the file for reading and writing. The error has the reason.
  virtual Outcome may_use(const std::string& path) = 0;
  // Returns the CPUs on which this process may run.
  virtual Result<std::vector<int>> cpus() = 0;
  // Returns which parts of the machine belong together; no value when unknown.
  virtual std::optional<Hardware> hardware() = 0;
  // Returns the machine's interfaces with their addresses.
  virtual std::vector<Interface> interfaces() = 0;
  // Returns the version of the library that is opened at run time.
  virtual Result<std::string> libfabric_version() = 0;
  virtual Result<VerbsLibrary> verbs_library(const VerbsWish& wish) = 0;
  // Returns the statistics of a network interface that `ethtool -S` shows.
  virtual Result<Statistics> ethtool_statistics(const std::string& interface) = 0;
  // Returns the path to a host for each address family of its name. May take seconds.
  virtual Result<std::vector<PathMtu>> path_mtus(const std::string& host) = 0;
  // Returns the answer to node.status. `timeout` is in seconds.
  virtual Result<nlohmann::json> node_status(const std::string& address, double timeout) = 0;
};

// The real machine.
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
