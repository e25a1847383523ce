#include "control/networks.h"

#include <fmt/format.h>

#include "client/address.h"
#include "control/log.h"
#include "control/shard_set.h"

namespace tally::control {
namespace {

std::size_t landing_bytes(const protocol::AggregatorConfig& protocol, std::uint32_t max_ranks) {
  const std::uint64_t checksums = onesided::LandingMemory::kAlignment;  // at most a page each
  return 2 * protocol.window_bytes + protocol::largest_tile(protocol, max_ranks) +
         checksums * max_ranks;
}

// All shards have the port, or none. `open(shard)` opens one.
template <typename Port, typename Open>
Outcome open_each(Networks& networks, std::unique_ptr<Port> NetworkPorts::*port, Open open) {
  std::vector<std::unique_ptr<Port>> ports;
  for (std::uint32_t i = 0; i < networks.ports.size(); ++i) {
    auto opened = open(i);
    if (!opened) return opened.error();
    ports.push_back(std::move(opened).value());
  }
  for (std::size_t i = 0; i < ports.size(); ++i) networks.ports[i].*port = std::move(ports[i]);
  return Unit{};
}

Outcome open_fabric(const Config& config, const std::string& host, std::size_t landing,
                    std::span<std::byte> memory, Networks& networks) {
  transport::fabric::PortOptions options;
  options.domain.address = host;
  options.domain.provider = config.provider;
  // Devices that transport verbs serves, or that are not meant, are not taken by another way.
  options.domain.verbs = config.verbs == Offer::kAuto && !networks.verbs;
  options.landing_bytes = landing;
  auto opened = open_each(networks, &NetworkPorts::fabric, [&](std::uint32_t shard) {
    options.tiles = ShardSet::share_of(memory, shard, config.shards);
    auto port = transport::fabric::Port::open(options);
    if (port) options.domain.provider = (*port)->provider();  // one for all
    return port;
  });
  if (!opened) return opened;
  const transport::fabric::Port& first = *networks.ports.front().fabric;
  log::info("fabric", {{"provider", first.provider()}, {"why", first.why_provider()}});
  networks.fabric = {first.provider(), first.host(), first.eager_bytes()};
  return Unit{};
}

Outcome open_verbs(const Config& config, const std::string& host, std::size_t landing,
                   std::span<std::byte> memory, Networks& networks) {
  auto api = transport::verbs::system_api();
  if (!api) return api.error();
  transport::verbs::PortOptions options;
  options.device = {.device = config.device, .host = host, .ack_timeout = config.ack_timeout};
  options.credit = config.credit;
  options.landing_bytes = landing;
  auto opened = open_each(networks, &NetworkPorts::verbs, [&](std::uint32_t shard) {
    options.tiles = ShardSet::share_of(memory, shard, config.shards);
    return transport::verbs::Port::open(**api, options);
  });
  if (!opened) return opened;
  const transport::verbs::Choice& choice = networks.ports.front().verbs->choice();
  log::info("verbs", {{"device", choice.why}});
  networks.verbs = {choice.device, transport::verbs::to_text(choice.gid), choice.ack_timeout};
  return Unit{};
}

// An error when the transport has to be there.
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

Result<Networks> open_networks(const Config& config, const protocol::AggregatorConfig& protocol,
                               std::span<std::byte> memory) {
  Networks networks;
  if (config.listen_tcp.empty()) return networks;
  const auto addresses = client::resolve_tcp(config.listen_tcp, true);
  if (!addresses) return addresses.error();
  const std::string host = client::host_of(addresses->front().socket);
  networks.ports.resize(config.shards);
  const std::size_t landing = landing_bytes(protocol, config.limits.max_ranks);
  std::string why;
  if (config.verbs != Offer::kOff) {
    const auto opened = open_verbs(config, host, landing, memory, networks);
    if (!opened) why += "; verbs: " + opened.error().message;
    if (auto fine = settle("verbs", config.verbs, opened); !fine) return fine.error();
  }
  if (config.fabric != Offer::kOff) {
    const auto opened = open_fabric(config, host, landing, memory, networks);
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
