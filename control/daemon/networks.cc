#include "control/daemon/networks.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/log/log.h"
#include "control/config/rails.h"
#include "control/coordinator/records/tree_buffers.h"
#include "control/daemon/roce_network.h"
#include "control/node/shards/shard_set.h"
#include "net/address.h"

namespace tally::control {
namespace {

// Bytes for tiles of all heights together, with those of slow jobs, because tiles of one height may
// wait for tiles of another. A tile of the lowest height holds a group of its inputs here, and a
// page of checksums for each input.
std::size_t landing_bytes(const protocol::AggregatorConfig& protocol, std::uint32_t max_ranks) {
  const std::uint64_t group = std::min(max_ranks, protocol::kGroupSources);
  const std::uint64_t tiles = (1 + protocol::kSlowPool) * protocol.tiles;
  const std::uint64_t checksums = tiles * group * onesided::LandingMemory::kAlignment;
  constexpr std::uint64_t kWindows = 2 + protocol::kSlowPool;
  const std::uint64_t stars = kWindows * protocol.window_bytes + checksums;
  const std::uint64_t largest = protocol::largest_group(protocol, max_ranks);
  if (protocol.max_height == 1) return stars + largest;
  const std::uint64_t upper = kWindows * upper_window(protocol) +
                              most_tile_bytes(std::min<std::uint64_t>(max_ranks, kMostChildren));
  return stars + std::max(largest, most_tile_bytes(group)) + (protocol.max_height - 1) * upper;
}

// Gives the transport to all shards, or to none. `open(shard)` opens the transport of one shard.
template <typename T, typename Open>
Outcome open_each(Networks& networks, std::unique_ptr<T> NetworkTransports::*transport,
                  const BeforeShard& before, Open open) {
  std::vector<std::unique_ptr<T>> transports;
  for (std::uint32_t i = 0; i < networks.transports.size(); ++i) {
    before(i);
    auto opened = open(i);
    if (!opened) return opened.error();
    transports.push_back(std::move(opened).value());
  }
  for (std::size_t i = 0; i < transports.size(); ++i)
    networks.transports[i].*transport = std::move(transports[i]);
  return Unit{};
}

// "160 of 640 MiB on hugepages"
template <typename T>
std::string landing_text(const Networks& networks,
                         std::unique_ptr<T> NetworkTransports::*transport) {
  std::size_t all = 0, huge = 0;
  for (const NetworkTransports& transports : networks.transports) {
    const onesided::LandingMemory& memory = (transports.*transport)->landing_memory();
    all += memory.bytes();
    huge += memory.on_hugepages() ? memory.bytes() : 0;
  }
  return fmt::format("{} of {} MiB on hugepages", huge >> 20, all >> 20);
}

// Where each shard's transports are bound.
struct Place {
  std::uint32_t rail = 0;
  std::string host;
};
using Places = std::vector<Place>;

Result<Places> places_of(const Config& config, const std::vector<Rail>& rails) {
  Places places(config.shards);
  if (rails.empty()) {
    const auto addresses = net::resolve_tcp(config.listen_tcp, true);
    if (!addresses) return addresses.error();
    for (Place& place : places) place.host = net::host_of(addresses->front().socket);
    return places;
  }
  for (std::uint32_t i = 0; i < config.shards; ++i) {
    places[i].rail = rail_of(i, rails);
    places[i].host = rails[places[i].rail].address;
  }
  return places;
}

Outcome open_fabric(const Config& config, const Places& places, std::size_t landing,
                    std::span<std::byte> memory, const BeforeShard& before, Networks& networks) {
  transport::fabric::TransportOptions options;
  options.domain.provider = config.provider;
  // Fabric must not open devices that transport verbs serves, or that the configuration excludes.
  options.domain.verbs = config.verbs == Offer::kAuto && !networks.verbs;
  options.landing_bytes = landing;
  options.hugepages = config.hugepages != engine::Hugepages::kOff;
  auto opened = open_each(networks, &NetworkTransports::fabric, before, [&](std::uint32_t shard) {
    options.domain.address = places[shard].host;
    options.tiles = ShardSet::share_of(memory, shard, config.shards);
    auto transport = transport::fabric::FabricTransport::open(options);
    if (transport)
      options.domain.provider = (*transport)->provider();  // all shards use the same provider
    return transport;
  });
  if (!opened) return opened;
  const transport::fabric::FabricTransport& first = *networks.transports.front().fabric;
  log::info("fabric", {{"provider", first.provider()},
                       {"why", first.why_provider()},
                       {"keys", first.chooses_keys() ? "random" : "the provider's"},
                       {"landing", landing_text(networks, &NetworkTransports::fabric)}});
  networks.fabric = {first.provider(), first.host(), first.eager_bytes()};
  return Unit{};
}

Outcome open_verbs(const Config& config, const Places& places, std::size_t landing,
                   std::span<std::byte> memory, const BeforeShard& before, Networks& networks) {
  auto api = transport::verbs::system_api();
  if (!api) return api.error();
  transport::verbs::TransportOptions options;
  // One device for all rails, or one for each rail.
  std::vector<std::string> devices = between_commas(config.device);
  if (devices.empty()) devices.emplace_back();
  options.credit = config.credit;
  options.landing_bytes = landing;
  options.hugepages = config.hugepages != engine::Hugepages::kOff;
  auto opened = open_each(networks, &NetworkTransports::verbs, before, [&](std::uint32_t shard) {
    options.device = {.device = devices[places[shard].rail % devices.size()],
                      .host = places[shard].host,
                      .ack_timeout = config.ack_timeout,
                      .mtu = config.mtu};
    options.tiles = ShardSet::share_of(memory, shard, config.shards);
    return transport::verbs::VerbsTransport::open(**api, options);
  });
  if (!opened) return opened;
  const transport::verbs::Choice& choice = networks.transports.front().verbs->choice();
  for (std::size_t i = 0; i < places.size(); ++i) {
    if (i > 0 && places[i].rail <= places[i - 1].rail) break;  // log each rail once
    log::info("verbs", {{"device", networks.transports[i].verbs->choice().why},
                        {"landing", landing_text(networks, &NetworkTransports::verbs)}});
  }
  networks.verbs = {choice.device, transport::verbs::to_text(choice.gid), choice.ack_timeout};
  return Unit{};
}

// Why this machine cannot bind to the rail's address; empty when it can.
std::string why_unbindable(const Rail& rail) {
  const auto addresses = net::resolve_tcp(fmt::format("tcp:[{}]:0", rail.address), true);
  if (!addresses) return addresses.error().message;
  const net::SocketAddress& address = addresses->front();
  const UniqueFd socket(::socket(address.socket.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const auto* name = reinterpret_cast<const sockaddr*>(&address.socket);
  if (socket && ::bind(socket.get(), name, address.bytes) == 0) return {};
  return std::strerror(errno);
}

// Returns an error when the configuration requires the transport and it did not open.
Outcome settle(const char* transport, Offer wanted, const Outcome& opened) {
  if (opened) return Unit{};
  if (wanted == Offer::kOn) {
    return Error{opened.status(),
                 fmt::format("network.{} is \"on\": {}", transport, opened.error().message)};
  }
  log::info("not-offered", {{"transport", transport}, {"why", opened.error().message}});
  return Unit{};
}

}  // namespace

Result<std::vector<Rail>> open_rails(const Config& config) {
  auto rails = configured_rails(config);
  if (!rails || rails->empty()) return rails;
  std::string why;
  for (Rail& rail : *rails) {
    const std::string why_not = why_unbindable(rail);
    if (why_not.empty()) continue;
    log::warning("rail-left-out", {{"address", rail.address}, {"why", why_not}});
    rail.up = false;
    why = why_not;
  }
  deal_shards(*rails, config.shards);
  if (rails_in_use(*rails).empty()) {
    return Error{Status::kUnavailable,
                 fmt::format("network.rails = \"{}\": this machine can use none of these addresses "
                             "({}): `ip address` shows which it has",
                             config.rails, why)};
  }
  refresh(*rails, interfaces());
  for (const Rail& rail : *rails) {
    if (rail.shards == 0) continue;
    log::info("rail", {{"address", rail.address}, {"shards", rail.shards}, {"up", rail.up}});
  }
  return rails;
}

Result<Networks> open_networks(const Config& config, const std::vector<Rail>& rails,
                               const protocol::AggregatorConfig& protocol,
                               std::span<std::byte> memory, const BeforeShard& before) {
  Networks networks;
  if (config.listen_tcp.empty()) return networks;
  const auto located = places_of(config, rails);
  if (!located) return located.error();
  const Places& places = *located;
  networks.transports.resize(config.shards);
  const std::size_t landing = landing_bytes(protocol, config.limits.max_ranks);
  std::string why;
  if (!config.roce.empty()) {
    auto opened = open_roce(config, landing, memory, before);
    if (!opened) return opened.error();
    for (std::uint32_t i = 0; i < config.shards; ++i) {
      networks.transports[i].roce = std::move(opened->transports[i]);
    }
    networks.verbs = opened->offer;
  } else if (config.verbs != Offer::kOff) {
    const auto opened = open_verbs(config, places, landing, memory, before, networks);
    if (!opened) why += "; verbs: " + opened.error().message;
    if (auto fine = settle("verbs", config.verbs, opened); !fine) return fine.error();
  }
  if (config.fabric != Offer::kOff) {
    const auto opened = open_fabric(config, places, landing, memory, before, networks);
    if (!opened) why += "; fabric: " + opened.error().message;
    if (auto fine = settle("fabric", config.fabric, opened); !fine) return fine.error();
  }
  if (networks.fabric || networks.verbs) return networks;
  return Error{Status::kUnsupported,
               fmt::format("listen_tcp is \"{}\", and there is no transport for workers on other "
                           "machines{}",
                           config.listen_tcp, why)};
}

}  // namespace tally::control
