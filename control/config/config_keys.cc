#include "control/config/config_keys.h"

#include <fmt/format.h>

#include <type_traits>

#include "base/units.h"
#include "dataplane/wire/notice.h"

namespace tally::control {
namespace {

constexpr std::uint64_t kPage = 4096;
constexpr std::uint64_t kDayMs = 24 * 3600 * 1000;
constexpr std::uint64_t kMinMtu = 256;  // the smallest MTU of RDMA
constexpr std::uint64_t kMaxMtu = 4096;

// Follows these members, each inside the one before.
template <auto... Members>
struct At {
  auto& operator()(Config& config) const { return (config.*....*Members); }
};

// `at` finds the number in a Config.
template <typename At>
NumberKey number(At at, std::uint64_t min, std::uint64_t max) {
  NumberKey key;
  key.min = min;
  key.max = max;
  key.set = [at](Config& config, std::uint64_t value) {
    auto& place = at(config);
    place = static_cast<std::remove_reference_t<decltype(place)>>(value);
  };
  key.get = [at](Config& config) -> std::uint64_t { return at(config); };
  return key;
}

NumberKey or_zero(NumberKey key) {
  key.zero_allowed = true;
  return key;
}

template <typename At>
NumberKey bytes(At at, std::uint64_t min, std::uint64_t max) {
  NumberKey key = number(at, min, max);
  key.measure = Measure::kBytes;
  key.multiple_of = kPage;
  return key;
}

template <typename At>
NumberKey speed(At at, std::uint64_t min, std::uint64_t max) {
  NumberKey key = number(at, min, max);
  key.measure = Measure::kSpeed;
  return key;
}

template <typename At>
NumberKey mode(At at) {
  NumberKey key = number(at, 0, 0777);
  key.measure = Measure::kMode;
  return key;
}

// A choice for an enum whose values are the indices of its names.
template <typename At>
ChoiceKey choice(At at, std::vector<std::string_view> names) {
  return {std::move(names),
          [at](Config& config, std::size_t index) {
            auto& place = at(config);
            place = static_cast<std::remove_reference_t<decltype(place)>>(index);
          },
          [at](Config& config) { return static_cast<std::size_t>(at(config)); }};
}

ChoiceKey isa_choice() {
  std::vector<std::string_view> names = {"auto"};
  names.insert(names.end(), summation::kIsaNames.begin(), summation::kIsaNames.end());
  return {std::move(names),
          [](Config& config, std::size_t index) {
            config.isa =
                index == 0 ? std::nullopt : std::optional(static_cast<summation::Isa>(index - 1));
          },
          [](Config& config) {
            return config.isa ? static_cast<std::size_t>(*config.isa) + 1 : std::size_t{0};
          }};
}

std::vector<Key> node_keys() {
  return {
      {"", "listen", "listen",
       "where clients connect: unix:/path (default: unix:/run/tally/tallyd.sock as root, else in "
       "$XDG_RUNTIME_DIR/tally or /tmp/tally-<uid>)",
       TextKey{At<&Config::listen>{}}},
      {"", "listen_tcp", "listen-tcp",
       "where clients on other machines connect, besides: tcp:host:port, tcp:*:port for every "
       "address "
       "of this machine; transport fabric is offered at the same address",
       TextKey{At<&Config::listen_tcp>{}, true}},
      {"", "listen_mode", "", "permissions of that socket: who may connect",
       mode(At<&Config::listen_mode>{})},
      {"", "log_level", "log-level", "what is logged",
       choice(At<&Config::log_level>{}, {"debug", "info", "warning", "error"})},
      {"", "open_jobs", "",
       "a job that is not listed is made by its first rank, whose token becomes the job's; over "
       "TCP "
       "the rank needs a token for the job, or the secret",
       TruthKey{At<&Config::limits, &AdmissionLimits::open_jobs>{}}},
      {"", "exit_when_idle_s", "exit-when-idle",
       "ends when nobody has had a session, or connected, for so many seconds; 0: never",
       or_zero(number(At<&Config::exit_when_idle_s>{}, 1, kDayMs / 1000))},
      {"", "fault_timeout_s", "fault-timeout",
       "how long a fault may last before operations fail because of it; all time-outs of the "
       "cluster follow; the coordinator's counts",
       number(At<&Config::fault_timeout_s>{}, FaultTimeouts::kLeast / kSecond,
              FaultTimeouts::kMost / kSecond)},
      {"", "default_deadline_ms", "",
       "deadline of operations that bring none; 0: as long as fault_timeout_s",
       or_zero(number(At<&Config::default_deadline_ms>{}, 1, kDayMs))},
      {"shards", "count", "shards", "polling threads; 0: one per core, at most 8",
       or_zero(number(At<&Config::shards>{}, 1, engine::kMaxShards))},
      {"shards", "per_job", "shards-per-job",
       "of them that serve a job, at most: those with the fewest jobs",
       number(At<&Config::limits, &AdmissionLimits::shards_per_job>{}, 1, engine::kMaxShards)},
      {"shards", "poll", "poll",
       "how a shard waits; busy only where every shard has a core of its own",
       choice(At<&Config::poll>{}, {kPollModeNames.begin(), kPollModeNames.end()})},
      {"shards", "isa", "isa",
       "instruction set of the sums; the result's bits are the same on each", isa_choice()},
      {"shards", "tile_bytes", "tile-bytes",
       "input that is pulled and summed at a time; 0: derived from window and ranks",
       or_zero(bytes(At<&Config::tile_bytes>{}, kPage, 4 * kMib))},
      {"shards", "window_bytes", "window-bytes",
       "bytes in flight per shard, each way; heights of trees above 1 have twice that each",
       bytes(At<&Config::window_bytes>{}, 64 * kKib, kGib)},
      {"shards", "credit", "credit", "operations a session may have outstanding per shard",
       number(At<&Config::credit>{}, 1, 4096)},
      {"shards", "job_credit", "job-credit",
       "operations of all ranks of a job outstanding per shard: each has its part, credit at most "
       "and 28 at least",
       number(At<&Config::limits, &AdmissionLimits::job_credit>{}, 1, 1 << 24)},
      {"shards", "split_bytes", "split-bytes",
       "operations from this size on are divided over all shards of their job",
       bytes(At<&Config::split_bytes>{}, kPage, wire::kMaxBytes)},
      {"shards", "stream_bytes", "stream-bytes",
       "results are stored past the caches while a shard has this much to read and store",
       bytes(At<&Config::stream_bytes>{}, kPage, wire::kMaxBytes)},
  };
}

std::vector<Key> network_keys() {
  return {
      {"network", "rails", "rails",
       "addresses of this machine's NICs, one of each, with commas between them: each gets shards "
       "of its own; empty: the one of listen_tcp",
       TextKey{At<&Config::rails>{}, true}},
      {"network", "speeds", "speeds",
       "of these NICs, as 100Gbit or 12.5GB, in the same order: jobs are cut accordingly; empty: "
       "all alike",
       TextKey{At<&Config::rail_speeds>{}, true}},
      {"network", "verbs", "verbs",
       "transport verbs for workers on other machines; auto: where there is an RDMA device",
       choice(At<&Config::verbs>{}, {"auto", "on", "off"})},
      {"network", "device", "device",
       "the RDMA device, as NAME[:PORT[:GID-INDEX]]; empty: the first that fits",
       TextKey{At<&Config::device>{}, true}},
      {"network", "ack_timeout", "",
       "RDMA: a packet that is not acknowledged is sent again after 4.096 us x 2^N, six times",
       number(At<&Config::ack_timeout>{}, transport::verbs::kMinAckTimeout,
              transport::verbs::kMaxAckTimeout)},
      {"network", "mtu", "",
       "RDMA: bytes that a packet carries at most: 256, 512, 1024, 2048 or 4096; 0: what the port "
       "does",
       or_zero(number(At<&Config::mtu>{}, kMinMtu, kMaxMtu))},
      {"network", "roce", "roce",
       "instead of an RDMA device: an Ethernet port for transport verbs, by its name for DPDK, as "
       "0000:3b:00.0 or net_vhost0,iface=/run/wire.sock",
       TextKey{At<&Config::roce>{}, true}},
      {"network", "roce_address", "",
       "IP address of that port. With a prefix, as 10.9.0.2/24, only the port has the address. "
       "With "
       "net_af_xdp also without a prefix: the port shares this address of the interface with the "
       "kernel; empty: the first address of the interface",
       TextKey{At<&Config::roce_address>{}, true}},
      {"network", "roce_gateway", "",
       "gateway of that port, where roce_address has a prefix: for addresses outside of it; empty: "
       "none",
       TextKey{At<&Config::roce_gateway>{}, true}},
      {"network", "roce_vlan", "", "VLAN of that port, where roce_address has a prefix; 0: none",
       or_zero(number(At<&Config::roce_vlan>{}, 1, 4094))},
      {"network", "fabric", "fabric",
       "transport fabric for workers on other machines; auto: where libfabric is installed",
       choice(At<&Config::fabric>{}, {"auto", "on", "off"})},
      {"network", "provider", "",
       "of libfabric, for transport fabric; empty: the best that is there",
       TextKey{At<&Config::provider>{}, true}},
  };
}

std::vector<Key> limit_keys() {
  return {
      {"memory", "hugepages", "hugepages",
       "hugepages for the engine's memory; auto: if enough are free",
       choice(At<&Config::hugepages>{}, {"auto", "on", "off"})},
      {"memory", "engine_mib", "", "MiB set aside at start for tiles; 0: derived",
       or_zero(number(At<&Config::engine_mib>{}, 16, 1 << 20))},
      {"limits", "max_jobs", "", "jobs at a time",
       number(At<&Config::limits, &AdmissionLimits::max_jobs>{}, 1, 4096)},
      {"limits", "max_ranks", "", "ranks of a job",
       number(At<&Config::limits, &AdmissionLimits::max_ranks>{}, 1, wire::kMaxRanks)},
      {"limits", "max_region_bytes", "",
       "memory that the ranks of a job may register together; 0: as much as all jobs",
       or_zero(bytes(At<&Config::limits, &AdmissionLimits::max_region_bytes>{}, kPage,
                     wire::kMaxBytes))},
      {"limits", "node_region_bytes", "",
       "memory that all jobs may register together; 0: what the node may use and does not need",
       or_zero(bytes(At<&Config::limits, &AdmissionLimits::node_region_bytes>{}, kPage,
                     wire::kMaxBytes))},
      {"limits", "max_regions", "", "regions that the ranks of a job may register together",
       number(At<&Config::limits, &AdmissionLimits::max_regions>{}, 1, wire::kMaxRegions)},
      {"limits", "max_table_bytes", "",
       "memory that the shards may reserve for the operations of all jobs",
       bytes(At<&Config::limits, &AdmissionLimits::max_table_bytes>{}, kMib, 1024 * kGib)},
      {"limits", "max_slot_bytes", "",
       "memory between this node and those above it in trees, of all jobs",
       bytes(At<&Config::limits, &AdmissionLimits::max_slot_bytes>{}, kMib, 1024 * kGib)},
  };
}

std::vector<Key> connection_keys() {
  using rpc::AnonymousLimits;
  constexpr std::uint64_t kMost = 1 << 20;
  return {
      {"limits", "connections", "",
       "connections of clients, nodes and tools, at most as many as files can be open",
       number(At<&Config::connections, &rpc::Limits::connections>{}, 16, kMost)},
      {"limits", "anonymous_connections", "",
       "of these without a session, a place in a job or a token; the oldest is closed "
       "for the next",
       number(At<&Config::connections, &rpc::Limits::anonymous, &AnonymousLimits::connections>{}, 4,
              kMost)},
      {"limits", "anonymous_per_source", "",
       "of these that come from one IPv4 address, IPv6 /64 network or local user",
       number(At<&Config::connections, &rpc::Limits::anonymous, &AnonymousLimits::per_source>{}, 1,
              kMost)},
      {"limits", "anonymous_idle_s", "",
       "such a connection that asks nothing for so long is closed",
       number(At<&Config::anonymous_idle_s>{}, 1, 3600)},
      {"limits", "operator_connections", "",
       "besides, by the Unix socket: of root and of the node's own user, without a session",
       number(At<&Config::connections, &rpc::Limits::anonymous, &AnonymousLimits::operators>{}, 4,
              kMost)},
  };
}

std::vector<Key> cluster_keys() {
  return {
      {"cluster", "coordinators", "cluster",
       "where nodes meet: addresses of coordinators, with commas between them; this node's own may "
       "be one; empty: this node stands alone",
       TextKey{At<&Config::cluster, &ClusterConfig::coordinators>{}, true}},
      {"cluster", "name", "cluster-name", "of this node there; empty: the host's name",
       TextKey{At<&Config::cluster, &ClusterConfig::name>{}, true}},
      {"cluster", "host", "cluster-host",
       "this machine: workers that say the same are on it; empty: the host's name",
       TextKey{At<&Config::cluster, &ClusterConfig::host>{}, true}},
      {"cluster", "role", "cluster-role",
       "worker: workers run on this machine too; helper: it sums and does nothing else",
       choice(At<&Config::cluster, &ClusterConfig::role>{}, {"helper", "worker"})},
      {"cluster", "speed", "cluster-speed",
       "bytes per second of this machine's NIC, each way; 0: unknown",
       or_zero(speed(At<&Config::cluster, &ClusterConfig::speed>{}, kPage, 1024 * kGib))},
      {"cluster", "rack", "cluster-rack",
       "this machine's rack: the coordinator then plans trees by itself; empty: unknown",
       TextKey{At<&Config::cluster, &ClusterConfig::rack>{}, true}},
      {"cluster", "rack_speed", "cluster-rack-speed",
       "bytes per second of the link between the rack's switch and the others, each way; 0: "
       "unknown",
       or_zero(speed(At<&Config::cluster, &ClusterConfig::rack_speed>{}, kPage, 1024 * kGib))},
      {"cluster", "store", "cluster-store",
       "where nodes elect their coordinator and keep its state: etcd:https://host:2379, with "
       "commas "
       "between several; empty: in the coordinator's memory",
       TextKey{At<&Config::cluster, &ClusterConfig::store>{}, true}},
      {"cluster", "store_prefix", "", "of this cluster's keys in the store",
       TextKey{At<&Config::cluster, &ClusterConfig::store_prefix>{}}},
      {"cluster", "store_user", "", "user in the store; empty: none",
       TextKey{At<&Config::cluster, &ClusterConfig::store_user>{}, true}},
      {"cluster", "store_password_file", "", "a file with that user's password",
       TextKey{At<&Config::cluster, &ClusterConfig::store_password_file>{}, true}},
      {"cluster", "store_authority", "",
       "PEM file with the authority that signs the store's certificates; empty: the system's",
       TextKey{At<&Config::cluster, &ClusterConfig::store_authority>{}, true}},
  };
}

std::vector<Key> security_keys() {
  const auto file = [](auto at) { return TextKey{at, true}; };
  using Files = net::tls::CertificateFiles;
  return {
      {"security", "secret_file", "secret-file",
       "a file with the cluster's secret, which `tallyctl token secret` makes; the same at all "
       "nodes",
       file(At<&Config::security, &SecurityConfig::secret_file>{})},
      {"security", "insecure", "insecure",
       "serve peers over TCP that show neither a token nor the secret, in clear",
       TruthKey{At<&Config::security, &SecurityConfig::insecure>{}}},
      {"security", "certificate", "", "PEM file with this node's certificate and its chain",
       file(At<&Config::security, &SecurityConfig::certificates, &Files::certificate>{})},
      {"security", "private_key", "", "PEM file with the certificate's key",
       file(At<&Config::security, &SecurityConfig::certificates, &Files::private_key>{})},
      {"security", "authority", "",
       "PEM file with the authority that signs other nodes' and operators' certificates",
       file(At<&Config::security, &SecurityConfig::certificates, &Files::authority>{})},
      {"security", "revoked_file", "",
       "a file where the node keeps the ids of revoked tokens; empty: until it ends",
       file(At<&Config::security, &SecurityConfig::revoked_file>{})},
  };
}

}  // namespace

std::string Key::path() const {
  return table.empty() ? std::string(name) : fmt::format("{}.{}", table, name);
}

const std::vector<Key>& config_keys() {
  static const std::vector<Key> keys = [] {
    std::vector<Key> all = node_keys();
    for (const auto& more :
         {network_keys(), limit_keys(), connection_keys(), cluster_keys(), security_keys()}) {
      all.insert(all.end(), more.begin(), more.end());
    }
    return all;
  }();
  return keys;
}

}  // namespace tally::control
