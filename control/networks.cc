#include "control/networks.h"

#include <fmt/format.h>

#include <algorithm>

#include "client/address.h"
#include "control/log.h"
#include "control/shard_set.h"

namespace tally::control {
namespace {

constexpr std::uint64_t kWidestElement = 8;

// The widest job's largest tile, and the window.
onesided::LandingOptions landing(const Config& config) {
  const std::uint64_t tile =
      config.tile_bytes != 0 ? config.tile_bytes
                             : std::clamp<std::uint64_t>(config.window_bytes / 64, 4096, 256 << 10);
  const std::uint64_t least = protocol::kCutElements * kWidestElement;  // tiles are whole cuts
  const std::uint64_t checksums = onesided::LandingMemory::kAlignment;  // at most a page each
  const std::uint64_t each = std::max(tile, least) + checksums;
  return {.landing_bytes = 2 * config.window_bytes + each * config.limits.max_ranks};
}

Outcome open_fabric(const Config& config, const std::string& host, Networks& networks) {
  transport::fabric::PortOptions options;
  options.domain.address = host;
  options.domain.provider = config.provider;
  options.landing = landing(config);
  std::vector<std::unique_ptr<transport::fabric::Port>> ports;
  for (std::uint32_t i = 0; i < config.shards; ++i) {
    auto port = transport::fabric::Port::open(options);
    if (!port) return port.error();
    ports.push_back(std::move(port).value());
  }
  networks.fabric = {ports.front()->provider(), ports.front()->host()};
  for (std::uint32_t i = 0; i < config.shards; ++i) networks.ports[i].fabric = std::move(ports[i]);
  return Unit{};
}

Outcome open_verbs(const Config& config, const std::string& host, std::span<std::byte> memory,
                   Networks& networks) {
  auto api = transport::verbs::system_api();
  if (!api) return api.error();
  transport::verbs::PortOptions options;
  options.device = {.device = config.device, .host = host};
  options.credit = config.credit;
  options.landing = landing(config);
  std::vector<std::unique_ptr<transport::verbs::Port>> ports;
  for (std::uint32_t i = 0; i < config.shards; ++i) {
    options.tiles = ShardSet::share_of(memory, i, config.shards);
    auto port = transport::verbs::Port::open(**api, options);
    if (!port) return port.error();
    ports.push_back(std::move(port).value());
  }
  const transport::verbs::Choice& choice = ports.front()->choice();
  log::info("verbs", {{"device", choice.why}});
  networks.verbs = {choice.device, transport::verbs::to_text(choice.gid)};
  for (std::uint32_t i = 0; i < config.shards; ++i) networks.ports[i].verbs = std::move(ports[i]);
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

Result<Networks> open_networks(const Config& config, std::span<std::byte> memory) {
  Networks networks;
  if (config.listen_tcp.empty()) return networks;
  const auto addresses = client::resolve_tcp(config.listen_tcp, true);
  if (!addresses) return addresses.error();
  const std::string host = client::host_of(addresses->front().socket);
  networks.ports.resize(config.shards);
  std::string why;
  if (config.verbs != Offer::kOff) {
    const auto opened = open_verbs(config, host, memory, networks);
    if (!opened) why += "; verbs: " + opened.error().message;
    if (auto fine = settle("verbs", config.verbs, opened); !fine) return fine.error();
  }
  if (config.fabric != Offer::kOff) {
    const auto opened = open_fabric(config, host, networks);
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
