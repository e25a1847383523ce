// The configuration of a node: one typed struct. One place reads it from a TOML file and from
// flags, which override the file. docs/control.md has the same table for people; tallyd
// --check-config prints the values in force.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/log/log.h"
#include "base/result.h"
#include "base/timeouts/fault_timeouts.h"
#include "control/coordinator/records/store.h"
#include "control/node/jobs/admission.h"
#include "dataplane/engine/eal.h"
#include "dataplane/transport/verbs/device.h"
#include "net/server/connection_limits.h"
#include "net/tls/tls_context.h"
#include "summation/reduce.h"

namespace tally::control {

// How a shard waits. kBusy spins and never sleeps; use it only where every shard and every waiting
// client has a core of its own.
enum class PollMode : std::uint8_t { kAdaptive, kBusy };
inline constexpr std::array<std::string_view, 2> kPollModeNames = {"adaptive", "busy"};

// Whether the node offers a transport to workers on other machines. kOn: the node does not start
// without it.
enum class Offer : std::uint8_t { kAuto, kOn, kOff };

// This node as a member of a cluster.
struct ClusterConfig {
  std::string coordinators;  // addresses, with commas between them; empty: no cluster
  std::string name;          // derived when not given; the same holds for host
  std::string host;          // workers that give the same host are on its machine
  Role role = Role::kHelper;
  std::uint64_t speed = 0;       // bytes per second of its NIC, each way; 0: unknown
  std::string rack;              // name of this machine's rack; empty: not known
  std::uint64_t rack_speed = 0;  // bytes per second of the rack's link, each way; 0: unknown
  // Where the nodes of `coordinators` elect one of them and keep its state: "etcd:URL,URL"; empty:
  // in memory, without an election.
  std::string store;
  std::string store_prefix = "tally/";  // of the keys of this cluster there
  std::string store_user;               // empty: without a user
  std::string store_password_file;      // of that user
  std::string store_authority;          // PEM file for https; empty: the system's authorities

  std::vector<std::string> addresses() const;  // of the coordinators
};

// Whom the node serves over TCP (docs/security.md).
struct SecurityConfig {
  std::string secret_file;  // has the cluster's secret; empty: none
  bool insecure = false;    // serve peers that show nothing
  net::tls::CertificateFiles certificates{};
  std::string revoked_file;  // ids of revoked tokens, a line each; empty: kept in memory alone
};

struct Config {
  std::string listen;      // "unix:/path"; derived when not given
  std::string listen_tcp;  // "tcp:host:port"; empty: only processes of this host connect
  std::uint32_t listen_mode = 0666;
  std::uint32_t exit_when_idle_s = 0;  // 0: never
  log::Level log_level = log::Level::kInfo;
  // How long a fault may last before operations fail. A coordinator's counts for its nodes too.
  std::uint32_t fault_timeout_s = 60;
  std::uint32_t default_deadline_ms = 0;  // 0: it follows from fault_timeout_s

  // [shards]
  std::uint32_t shards = 0;  // 0 in the file means that Tally derives it
  PollMode poll = PollMode::kAdaptive;
  std::optional<summation::Isa> isa;      // none: the widest that the processor has
  std::uint32_t tile_bytes = 0;           // 0: the protocol derives it from window and ranks
  std::uint64_t window_bytes = 4 << 20;   // input in flight per shard
  std::uint32_t credit = 256;             // operations outstanding per session and shard
  std::uint64_t split_bytes = 256 << 10;  // operations of at least this size go to all shards
  std::uint64_t stream_bytes = 32 << 20;  // a backlog of at least this size bypasses the caches

  // [network]
  Offer verbs = Offer::kAuto;
  std::string device;  // RDMA: "NAME[:PORT[:GID-INDEX]]"; empty: the first that fits
  std::uint8_t ack_timeout = transport::verbs::kAckTimeout;  // RDMA: 4.096 us << ack_timeout
  std::uint32_t mtu = 0;  // RDMA: most bytes in a packet; 0: the port's own
  std::string roce;  // DPDK's name of an Ethernet port that serves clients of verbs; empty: none
  // "10.9.0.2/24": an address that only this port has. Without a prefix, or empty, with AF_XDP: one
  // of the kernel's addresses of the interface (roce_address.h).
  std::string roce_address;
  std::string roce_gateway;     // where roce_address has a prefix; empty: none
  std::uint32_t roce_vlan = 0;  // where roce_address has a prefix; 0: none
  Offer fabric = Offer::kAuto;
  std::string provider;
  std::string rails;  // addresses, with commas between them (control/config/rails.h reads them)
  std::string rail_speeds;  // by rail, with commas between them

  // [memory]
  engine::Hugepages hugepages = engine::Hugepages::kAuto;
  std::uint32_t engine_mib = 0;  // 0 in the file means that Tally derives it

  // [limits], and open_jobs. 0 for the region bytes in the file means that Tally derives them.
  AdmissionLimits limits = {.max_region_bytes = 0, .node_region_bytes = 0};
  rpc::Limits connections;  // of control connections; idle is anonymous_idle_s
  std::uint32_t anonymous_idle_s = 10;

  ClusterConfig cluster;    // [cluster]
  SecurityConfig security;  // [security]

  std::vector<ConfiguredJob> jobs;  // [[jobs]]

  std::vector<std::string> warnings;  // the daemon logs them once it has a log

  FaultTimeouts timeouts() const;
};

// One flag of the command line: its name without dashes, and its text.
struct Override {
  std::string flag;
  std::string value;
};

// Reads the file ("" for none), then the flags, then derives the rest. An error gives the location
// ("tally.toml:3:9" or "--shards"), the value found, the allowed values and the remedy.
Result<Config> load_config(const std::string& path, std::span<const Override> overrides);

// The same for a file's text; `path` appears in messages only.
Result<Config> parse_config(std::string_view text, std::string_view path,
                            std::span<const Override> overrides);

// "a, b" -> "a", "b"; empty items are left out.
std::vector<std::string> between_commas(const std::string& text);

// The configuration as TOML that load_config() reads back to the same values, except tokens, which
// are not shown.
std::string to_toml(const Config& config);

}  // namespace tally::control
