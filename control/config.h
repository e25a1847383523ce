// What a node is told: one typed struct, read in one place from a TOML file and from flags (which
// override the file). docs/control.md has the same table for people; `tallyd --check-config` prints
// what is in force.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "control/admission.h"
#include "control/coordinator/store.h"
#include "control/log.h"
#include "dataplane/engine/eal.h"
#include "dataplane/transport/verbs/device.h"
#include "summation/reduce.h"

namespace tally::control {

// How a shard waits. kBusy spins and never sleeps: only where every shard and waiter has a core of
// its own.
enum class PollMode : std::uint8_t { kAdaptive, kBusy };
inline constexpr std::array<std::string_view, 2> kPollModeNames = {"adaptive", "busy"};

// Whether workers on other machines are offered a transport. kOn: or the node does not start.
enum class Offer : std::uint8_t { kAuto, kOn, kOff };

// This node as a member of several.
struct ClusterConfig {
  std::string coordinators;  // addresses, with commas between them; empty: it stands alone
  std::string name;          // derived when not given, and so is `host`
  std::string host;          // workers that say the same are on its machine
  Role role = Role::kHelper;
  std::uint64_t speed = 0;  // bytes per second of its NIC, each way; 0: unknown
  std::string token;        // of coordinator and members

  std::vector<std::string> addresses() const;  // of the coordinators
};

struct Config {
  std::string listen;      // "unix:/path"; derived when not given
  std::string listen_tcp;  // "tcp:host:port"; empty: this host's processes alone
  std::uint32_t listen_mode = 0666;
  std::uint32_t exit_when_idle_s = 0;  // 0: never
  log::Level log_level = log::Level::kInfo;
  std::uint32_t default_deadline_ms = 60'000;

  // [shards]
  std::uint32_t shards = 0;  // 0 in the file: derived
  PollMode poll = PollMode::kAdaptive;
  std::optional<summation::Isa> isa;      // none: the widest that the processor has
  std::uint32_t tile_bytes = 0;           // 0: the protocol derives it from window and ranks
  std::uint64_t window_bytes = 4 << 20;   // input in flight per shard
  std::uint32_t credit = 256;             // operations outstanding per session and shard
  std::uint64_t split_bytes = 256 << 10;  // operations from here on go to all shards
  std::uint64_t stream_bytes = 32 << 20;  // a backlog from here on bypasses the caches

  // [network]
  Offer verbs = Offer::kAuto;
  std::string device;  // RDMA: "NAME[:PORT[:GID-INDEX]]"; empty: the first that fits
  std::uint8_t ack_timeout = transport::verbs::kAckTimeout;  // RDMA: 4.096 us << so many
  std::uint32_t mtu = 0;  // RDMA: bytes that a packet carries at most; 0: what the port does
  Offer fabric = Offer::kAuto;
  std::string provider;
  std::string rails;        // addresses, with commas between them (control/rails.h reads them)
  std::string rail_speeds;  // likewise, by rail

  // [memory]
  engine::Hugepages hugepages = engine::Hugepages::kAuto;
  std::uint32_t engine_mib = 0;  // 0 in the file: derived

  // [limits], and open_jobs. 0 region bytes in the file: derived
  AdmissionLimits limits = {.max_region_bytes = 0, .node_region_bytes = 0};

  ClusterConfig cluster;  // [cluster]

  std::vector<ConfiguredJob> jobs;  // [[jobs]]

  std::vector<std::string> warnings;  // to be logged once there is a log
};

// One flag of the command line: its name without dashes, its text.
struct Override {
  std::string flag;
  std::string value;
};

// The file ("" for none), then the flags, then what is derived. Errors say where ("tally.toml:3:9"
// or "--shards"), what was found, what is allowed and what to do.
Result<Config> load_config(const std::string& path, std::span<const Override> overrides);

// As above, for a file's text; `path` is for messages.
Result<Config> parse_config(std::string_view text, std::string_view path,
                            std::span<const Override> overrides);

// "a, b" -> "a", "b"; what is empty is left out.
std::vector<std::string> between_commas(const std::string& text);

// The configuration as a file that gives it again; tokens are not shown.
std::string to_toml(const Config& config);

}  // namespace tally::control
