#include "control/daemon/daemon.h"

#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <asio/executor_work_guard.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <chrono>
#include <new>
#include <span>

#include "control/config/config_keys.h"
#include "control/config/rails.h"
#include "control/coordinator/records/tree_buffers.h"
#include "control/daemon/leadership_options.h"
#include "control/daemon/networks.h"
#include "control/daemon/node_security.h"
#include "control/daemon/roce_network.h"
#include "control/machine/memory_limit.h"
#include "control/machine/process_limits.h"
#include "control/plan/size_classes/rack_plan.h"
#include "dataplane/transport/shm/fault_guard.h"
#include "net/address.h"
#include "net/tcp.h"

namespace tally::control {
namespace {

constexpr auto kStopTimeout = std::chrono::seconds(5);

Result<summation::Isa> choose_isa(const Config& config) {
  const summation::Isa isa = config.isa.value_or(summation::best_isa());
  if (summation::kernels(isa) != nullptr) return isa;
  return Error{
      Status::kUnsupported,
      fmt::format("shards.isa is \"{}\" and this processor does not have it: it has \"{}\"; "
                  "or leave it at \"auto\"",
                  summation::kIsaNames[static_cast<std::size_t>(isa)],
                  summation::kIsaNames[static_cast<std::size_t>(summation::best_isa())])};
}

engine::ShardConfig shard_config(const Config& config, summation::Isa isa) {
  engine::ShardConfig shard;
  shard.kernels = summation::kernels(isa);
  shard.crc32c = Crc32c::open() ? *Crc32c::open() : nullptr;
  shard.max_ranks = config.limits.max_ranks;
  shard.protocol.plan = protocol::even_partition(config.shards, config.split_bytes);
  shard.protocol.window_bytes = config.window_bytes;
  // Only members of a cluster have child nodes and parent nodes.
  if (!config.cluster.coordinators.empty()) shard.protocol.max_height = kMaxHeight;
  shard.protocol.upper_tiles = kMostBuffers;
  shard.protocol.upper_inputs = kMostChildren;
  shard.protocol.stream_bytes = config.stream_bytes;
  shard.protocol.tile_bytes = config.tile_bytes;
  shard.protocol.default_deadline = config.timeouts().deadline();
  return shard;
}

probe::ProbeOptions probe_options(const Config& config, const summation::Kernels* kernels) {
  const auto listen = net::parse_host_port("listen_tcp", config.listen_tcp, true);
  return {.host = listen ? listen->host : "",
          .kernels = kernels,
          .shards = std::min(config.shards, config.limits.shards_per_job),
          .window = config.window_bytes};
}

rpc::Limits connection_limits(const Config& config, std::uint64_t descriptors) {
  rpc::Limits limits = config.connections;
  limits.anonymous.idle = config.anonymous_idle_s * kSecond;
  return rpc::fit_descriptors(limits, descriptors);
}

void log_cpus(const std::vector<int>& cpus, std::string_view why) {
  log::info("shard-cpus", {{"cpus", fmt::format("{}", fmt::join(cpus, ","))}, {"why", why}});
}

}  // namespace

Result<std::unique_ptr<Daemon>> Daemon::start(const Config& config) {
  std::unique_ptr<Daemon> daemon(new Daemon());
  try {
    if (auto built = daemon->build(config); !built) return built.error();
    if (auto running = daemon->launch(config.poll == PollMode::kBusy); !running) {
      return running.error();
    }
    if (auto joins = daemon->join_cluster(config); !joins) return joins.error();
  } catch (const std::bad_alloc&) {
    return Error{Status::kNoMemory,
                 "no memory for the shards: use fewer shards, or lower limits.max_ranks"};
  }
  return daemon;
}

// Assigns CPUs near the shards' NICs, on machines where that makes a difference.
void Daemon::choose_places(const Config& config) {
  topology_ = Topology::of_this_machine();
  if (topology_ == nullptr) return;
  const auto nics = nics_of_shards(config, rails_, interfaces());
  places_ = place_shards(topology_->hardware(), nics, claims_.of_others(usable_cpus()));
  for (std::uint32_t i = 0; i < places_.size(); ++i) {
    log::info("shard-place", {{"shard", i},
                              {"cpu", places_[i].cpu},
                              {"node", places_[i].node},
                              {"nic", nics[i]},
                              {"nic_node", node_of_nic(topology_->hardware(), nics[i])}});
  }
}

// The CPUs by shard. Empty for a single shard, for more shards than CPUs, or when too few CPUs can
// be claimed.
std::vector<int> Daemon::claim_cpus(const Config& config) {
  const auto all = usable_cpus();
  std::vector<int> cpus;
  for (const CpuAssignment& place : places_) {
    cpus.push_back(place.cpu);
    claims_.take(std::span(&place.cpu, 1), 1);
  }
  if (!cpus.empty() || config.shards == 1) return cpus;
  const auto theirs = claims_.of_others(all);
  cpus = claims_.take(all, config.shards);
  if (config.shards > all.size())
    return log_cpus(all, "shards are more than the CPUs"), std::vector<int>();
  if (cpus.size() < config.shards)
    return log_cpus(all, "no CPU can be claimed"), std::vector<int>();
  const bool shared = std::any_of(cpus.begin(), cpus.end(), [&](int cpu) {
    return std::find(theirs.begin(), theirs.end(), cpu) != theirs.end();
  });
  log_cpus(cpus, shared ? "other nodes have some of them too" : "a CPU for each shard");
  return cpus;
}

void Daemon::move_lone_shard(const std::vector<int>& cpus, std::string_view why) {
  log_cpus(cpus, why);
  shards_->on_each(
      [cpus](auto, auto&, auto&) {
        cpu_set_t set;
        CPU_ZERO(&set);
        for (const int cpu : cpus) CPU_SET(cpu, &set);
        ::sched_setaffinity(0, sizeof set, &set);
      },
      [] {});
}

Outcome Daemon::build(const Config& config) {
  const auto isa = choose_isa(config);
  if (!isa) return isa.error();
  exit_when_idle_ = config.exit_when_idle_s * kSecond;
  isa_ = summation::kIsaNames[static_cast<std::size_t>(*isa)];
  auto rails = open_rails(config);
  if (!rails) return rails.error();
  rails_ = std::move(rails).value();
  choose_places(config);
  const RoceNeeds roce = needs_of_roce(config);
  auto eal = engine::Eal::start({.shards = config.shards,
                                 .hugepages = config.hugepages,
                                 .memory_mib = config.engine_mib + roce.memory_mib,
                                 .cpus = claim_cpus(config),
                                 .pci_device = roce.pci_device,
                                 .verbose = config.log_level == log::Level::kDebug});
  if (!eal) return eal.error();
  eal_ = std::move(eal).value();

  transport::shm::survive_memory_faults();
  const engine::ShardConfig shard = shard_config(config, *isa);
  // The other half is for the EAL itself.
  auto allocated = eal_->allocate((std::size_t{config.engine_mib} << 20) / 2, kCacheLine);
  if (!allocated) return allocated.error();
  memory_ = std::move(allocated).value();
  const std::span<std::byte> memory(memory_.data(), memory_.size());
  for (std::uint32_t i = 0; i < places_.size(); ++i) {
    topology_->bind(ShardSet::share_of(memory, i, config.shards), places_[i].node);
  }
  Topology::Near near(topology_.get());
  const BeforeShard before = [&](std::uint32_t i) {
    if (i < places_.size()) near.at(places_[i].node);
  };
  auto networks = open_networks(config, rails_, shard.protocol, memory, before);
  if (!networks) return networks.error();
  shards_ = std::make_unique<ShardSet>(io_, config.shards, shard, memory,
                                       std::move(networks->transports), before);
  NodeOptions options;
  options.facts = {.address = config.listen,
                   .isa = isa_,
                   .poll = std::string(kPollModeNames[static_cast<std::size_t>(config.poll)]),
                   .hugepages = eal_->on_hugepages(),
                   .connections = [this] { return server_->counts(); }};
  options.split_bytes = config.split_bytes;
  options.credit = config.credit;
  options.checksums = shard.crc32c != nullptr;
  options.timeouts = config.timeouts();
  options.limits = config.limits;
  options.limits.max_mappings = mapping_limit();
  options.limits.max_descriptors = raise_descriptor_limit();
  const rpc::Limits connections = connection_limits(config, options.limits.max_descriptors);
  options.limits.own_descriptors =
      std::max(options.limits.own_descriptors, rpc::descriptors_without_sessions(connections));
  options.limits.network = !config.listen_tcp.empty();
  options.limits.max_slot_bytes =
      std::min(options.limits.max_slot_bytes, memory_for_peers(memory_limit()));
  options.jobs = config.jobs;
  auto security = make_security(config);
  if (!security) return security.error();
  credentials_ = security->credentials;
  options.access = security->access;
  options.credentials = security->credentials;
  options.coordinators = config.cluster.coordinators;
  options.is_elected = !config.cluster.store.empty();
  options.status = [this] { return member_ ? member_->status() : CoordinatorStatus{}; };
  options.plan_for_racks = plan::plan_for_racks;
  options.name = config.cluster.name;
  options.probe = probe_options(config, shard.kernels);
  options.peer_of = [this](rpc::ConnectionId connection) {
    return server_->peer(connection).value_or(rpc::Peer());
  };
  options.fabric = std::move(networks->fabric);
  options.verbs = std::move(networks->verbs);
  options.rails = rails_;
  node_ = std::make_unique<Node>(std::move(options), io_, *shards_, *store_,
                                 [this](rpc::ConnectionId connection, std::string_view reason) {
                                   server_->disconnect(connection, reason);
                                 });
  server_ = std::make_unique<rpc::Server>(io_, *node_, connections, security->server);
  // The directory of the user's default socket is for that user alone. Elsewhere, the mode of the
  // socket decides which users may connect.
  const bool is_private = ::geteuid() != 0 && config.listen == net::default_listen_address();
  auto listening = server_->listen(
      {.address = config.listen, .mode = config.listen_mode, .private_directory = is_private});
  if (!listening) return listening.error();
  if (config.listen_tcp.empty()) return Unit{};
  auto tcp = server_->listen({.address = config.listen_tcp});
  if (!tcp) return tcp.error();
  tcp_address_ = *tcp;
  listen_at_rails();
  return Unit{};
}

// A worker with several NICs connects from each of them to prove where its endpoints are.
void Daemon::listen_at_rails() {
  const auto listening = net::parse_host_port("listen_tcp", tcp_address_);
  if (!listening) return;
  const auto everywhere = {"*", "0.0.0.0", "[::]"};
  if (std::find(everywhere.begin(), everywhere.end(), listening->host) != everywhere.end()) return;
  for (const Rail& rail : rails_) {
    const net::HostPort there{net::bracketed(rail.address), listening->port};
    if (rail.shards == 0 || there.host == listening->host) continue;
    const auto opened = server_->listen({.address = there.tcp_address()});
    if (opened) continue;
    log::warning("rail-not-listened-at",
                 {{"address", there.text()}, {"why", opened.error().message}});
  }
}

Outcome Daemon::launch(bool busy) {
  running_ = true;
  for (std::uint32_t i = 0; i < shards_->size(); ++i) {
    auto launched = eal_->launch(i, [shards = shards_.get(), i, busy] { shards->run(i, busy); });
    if (!launched) return launched;
  }
  if (shards_->size() == 1 && places_.empty()) {
    lone_ = std::make_unique<LoneShard>(
        io_, CpuClaims(), usable_cpus(),
        [this](const auto& cpus, std::string_view why) { move_lone_shard(cpus, why); });
  }
  return Unit{};
}

Outcome Daemon::join_cluster(const Config& config) {
  if (config.cluster.coordinators.empty()) return Unit{};
  const bool has_scheme = config.listen.starts_with("unix:");
  ClusterMember::Options options;
  options.cluster = config.cluster;
  options.tcp = tcp_address_;
  options.local = has_scheme ? config.listen : "unix:" + config.listen;
  options.shards = std::min(config.shards, config.limits.shards_per_job);
  options.rails = rails_;
  options.credentials = credentials_;
  options.timeouts = config.timeouts();
  member_ = std::make_unique<ClusterMember>(std::move(options), io_, *node_);
  return config.cluster.store.empty() ? Unit{} : take_part_in_election(config);
}

Outcome Daemon::take_part_in_election(const Config& config) {
  auto options = leadership_options(config.cluster);
  if (!options) return options.error();
  options->timeouts = config.timeouts();
  auto leadership = Leadership::start(
      io_, std::move(options).value(),
      {.begin =
           [this](Store& store, std::uint64_t term) {
             node_->coordinator().begin_term(store, term);
             member_->set_term(term);
           },
       .end = [this](const Error& why) { node_->coordinator().end_term(why.message); },
       .other = [this](std::uint64_t term) { member_->set_term(term); }});
  if (!leadership) return leadership.error();
  leadership_ = std::move(leadership).value();
  return Unit{};
}

Daemon::~Daemon() {
  stop();
  leadership_.reset();
  server_.reset();
  node_.reset();
  member_.reset();
  shards_.reset();
  memory_ = {};
  eal_.reset();
}

// Checks once a second.
void Daemon::watch_for_idleness() {
  if (idle_limit_.is_over(monotonic_now(), node_->has_sessions(), server_->latest())) {
    idle_for_too_long_ = true;
    return io_.stop();
  }
  idle_timer_.expires_after(std::chrono::seconds(1));
  idle_timer_.async_wait([this](const std::error_code& error) {
    if (!error) watch_for_idleness();
  });
}

// A lost rail carries nothing of jobs that form from then on. A rail that is back carries them
// again.
void Daemon::watch_rails() {
  const auto changed = refresh(rails_, interfaces());
  for (const std::uint32_t rail : changed) {
    const bool up = rails_[rail].up;
    log::event(up ? log::Level::kInfo : log::Level::kWarning, up ? "rail-back" : "rail-lost",
               {{"address", rails_[rail].address}, {"shards", rails_[rail].shards}});
  }
  if (!changed.empty()) {
    node_->set_rails(rails_);
    if (member_ != nullptr) member_->set_rails(rails_);
  }
  rail_timer_.expires_after(std::chrono::seconds(1));
  rail_timer_.async_wait([this](const std::error_code& error) {
    if (!error) watch_rails();
  });
}

// A request whose answer has no memory is dropped. Its dropped reply reports that to the
// connection, and the loop goes on.
template <typename Run>
void Daemon::serve(const Run& run) {
  while (!within_memory(run)) {
    static_cast<void>(within_memory([] { log::error("no-memory", {{"in", "a request"}}); }));
  }
}

bool Daemon::run_until_readable(int fd) {
  if (exit_when_idle_ > 0) {
    idle_limit_ = IdleLimit(exit_when_idle_, monotonic_now());
    watch_for_idleness();
  }
  if (!rails_.empty()) watch_rails();
  asio::posix::stream_descriptor event(io_, ::dup(fd));
  event.async_wait(asio::posix::stream_descriptor::wait_read, [this](const std::error_code& error) {
    if (!error) io_.stop();
  });
  serve([this] { io_.run(); });
  io_.restart();
  idle_timer_.cancel();
  rail_timer_.cancel();
  return !idle_for_too_long_;
}

void Daemon::stop() {
  if (!running_) return;
  running_ = false;
  lone_.reset();
  if (leadership_ != nullptr) leadership_->stop();
  if (member_ != nullptr) member_->stop();
  server_->stop_listening();
  node_->hang_up([this] {
    server_->stop();
    // The shards have tasks that end every session. Their answer to this task shows that they have
    // run them.
    shards_->on_each([](auto, auto&, auto&) {}, [this] { io_.stop(); });
  });
  const auto guard = asio::make_work_guard(io_);
  serve([this] { io_.run_for(kStopTimeout); });
  shards_->stop();
  eal_->join();
}

}  // namespace tally::control
