#include "control/daemon/roce_network.h"

#include <algorithm>
#include <utility>

#include "base/log/log.h"
#include "control/config/rails.h"
#include "control/config/roce_address.h"
#include "control/config/roce_device.h"
#include "dataplane/transport/roce/kernel/xdp_interface.h"
#include "dataplane/transport/roce/port/shared_resolver.h"
#include "dataplane/transport/roce/port_link.h"

namespace tally::control {
namespace {

namespace roce = transport::roce;

constexpr Nanos kAckUnit = 4'096;  // InfiniBand's unit of timeouts
// Of each shard, between their arrival and the sum.
constexpr std::uint32_t kHeldFrames = 2048;
// IPv6, UDP, BTH, RETH, immediate data and ICRC around the payload of a packet.
constexpr std::uint32_t kHeaders = 84;
constexpr std::uint32_t kMostPayload = 4096;
constexpr std::uint32_t kEthernetMtu = 1500;

// The MTU that the port needs. A longer one would make the buffers of frames larger.
std::uint32_t port_mtu_for(std::uint32_t wanted) {
  return std::max(kEthernetMtu, (wanted == 0 ? kMostPayload : wanted) + kHeaders);
}

// The largest MTU of RoCE that fits into the port's.
std::uint32_t payload_of(std::uint32_t port_mtu, std::uint32_t wanted) {
  std::uint32_t bytes = wanted == 0 ? kMostPayload : wanted;
  while (bytes > 256 && bytes + kHeaders > port_mtu) bytes /= 2;
  return bytes;
}

// The interface, where the port takes one by AF_XDP.
Result<roce::XdpInterface> open_interface(const Config& config, const RoceAddress& address) {
  const RoceDevice device(config.roce);
  if (!device.is_xdp()) return roce::XdpInterface{};
  const auto shared =
      address.is_beside_kernel ? std::optional(address.local.address) : std::nullopt;
  return roce::open_xdp_interface(device.argument("iface"), shared);
}

roce::PortOptions options_of(const Config& config, const RoceAddress& address,
                             const roce::XdpInterface& xdp) {
  roce::PortOptions options;
  options.device = config.roce + xdp.arguments;
  options.addresses = {address.local.address};
  options.queues = config.shards;
  options.mtu = port_mtu_for(config.mtu);
  options.held_buffers = kHeldFrames;
  options.vlan = static_cast<std::uint16_t>(config.roce_vlan);
  options.kept = xdp.kept;
  return options;
}

// For a port that no kernel serves.
std::shared_ptr<roce::NextHops> resolver_of(const RoceAddress& address,
                                            const roce::PortFacts& facts) {
  roce::ResolverOptions resolver;
  resolver.mac = facts.mac;
  resolver.vlan = facts.vlan;
  resolver.addresses = {address.local};
  return std::make_shared<roce::SharedResolver>(resolver);
}

}  // namespace

RoceNeeds needs_of_roce(const Config& config) {
  constexpr std::uint32_t kFramesMib = 40;
  constexpr std::uint32_t kFramesMibPerShard = 32;
  if (config.roce.empty()) return {};
  return {kFramesMib + kFramesMibPerShard * config.shards,
          RoceDevice(config.roce).is_on_pci() ? config.roce : ""};
}

Result<RoceNetwork> open_roce(const Config& config, std::size_t landing_bytes,
                              std::span<std::byte> memory, const BeforeShard& before) {
  const auto address = roce_address(config, interfaces());
  if (!address) return address.error();
  auto xdp = open_interface(config, *address);
  if (!xdp) return xdp.error();
  auto opened = roce::Port::open(options_of(config, *address, *xdp));
  if (!opened) return opened.error();
  const std::shared_ptr<roce::Port> port = std::move(*opened);
  const roce::PortFacts& facts = port->facts();
  roce::TransportOptions transport;
  transport.address = address->local.address;
  transport.mtu = payload_of(facts.mtu, config.mtu);
  transport.ack_timeout = kAckUnit << config.ack_timeout;
  transport.landing_bytes = landing_bytes;
  transport.kept_frames = kHeldFrames / 4 * 3;  // the others are for messages
  transport.hugepages = config.hugepages != engine::Hugepages::kOff;
  const auto next_hops = address->is_beside_kernel ? xdp->next_hops : resolver_of(*address, facts);
  RoceNetwork network;
  for (std::uint32_t shard = 0; shard < config.shards; ++shard) {
    before(shard);
    transport.tiles = ShardSet::share_of(memory, shard, config.shards);
    network.transports.push_back(std::make_unique<roce::RoceTransport>(
        std::make_unique<roce::PortLink>(port, next_hops, shard), transport));
  }
  log::info("roce", {{"device", facts.name},
                     {"driver", facts.driver},
                     {"address", address->text},
                     {"beside_kernel", address->is_beside_kernel},
                     {"mtu", transport.mtu},
                     {"multi_segment", facts.has_multi_segment},
                     {"steering", facts.has_steering},
                     {"link", port->link().is_up}});
  network.offer = {.device = facts.name,
                   .gid = address->text,
                   .ack_timeout = config.ack_timeout,
                   .in_user_space = true};
  return network;
}

}  // namespace tally::control
