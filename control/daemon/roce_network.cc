#include "control/daemon/roce_network.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>

#include "base/log/log.h"
#include "control/config/roce_device.h"
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

// An address without a port, IPv4 or IPv6.
std::optional<roce::IpAddress> parse_ip(const std::string& text) {
  roce::IpAddress address{};
  address[10] = address[11] = 0xff;
  if (::inet_pton(AF_INET, text.c_str(), &address[12]) == 1) return address;
  if (::inet_pton(AF_INET6, text.c_str(), address.data()) == 1) return address;
  return std::nullopt;
}

Result<roce::LocalAddress> parse_local(const Config& config) {
  const auto wrong = [&](const char* key, const std::string& value, const char* example) {
    return invalid(
        fmt::format("network.{} is \"{}\": write an address, like {}", key, value, example));
  };
  const std::string& text = config.roce_address;
  const std::size_t slash = text.find('/');
  const auto address = parse_ip(text.substr(0, slash));
  constexpr const char* kExample = "\"10.9.0.2/24\"";
  if (!address || slash == std::string::npos) return wrong("roce_address", text, kExample);
  roce::LocalAddress local;
  local.address = *address;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data() + slash + 1, end, local.prefix_bits);
  const unsigned most = roce::is_ipv4(*address) ? 32 : 128;
  if (error != std::errc() || stop != end || local.prefix_bits > most) {
    return wrong("roce_address", text, kExample);
  }
  if (config.roce_gateway.empty()) return local;
  local.gateway = parse_ip(config.roce_gateway);
  if (!local.gateway) return wrong("roce_gateway", config.roce_gateway, "\"10.9.0.1\"");
  return local;
}

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
  const auto local = parse_local(config);
  if (!local) return local.error();
  roce::PortOptions options;
  options.device = config.roce;
  options.addresses = {local->address};
  options.queues = config.shards;
  options.mtu = port_mtu_for(config.mtu);
  options.held_buffers = kHeldFrames;
  options.vlan = static_cast<std::uint16_t>(config.roce_vlan);
  auto opened = roce::Port::open(options);
  if (!opened) return opened.error();
  const std::shared_ptr<roce::Port> port = std::move(*opened);
  const roce::PortFacts& facts = port->facts();
  roce::TransportOptions transport;
  transport.address = local->address;
  transport.mtu = payload_of(facts.mtu, config.mtu);
  transport.ack_timeout = kAckUnit << config.ack_timeout;
  transport.landing_bytes = landing_bytes;
  transport.kept_frames = kHeldFrames / 4 * 3;  // the others are for messages
  transport.hugepages = config.hugepages != engine::Hugepages::kOff;
  roce::ResolverOptions resolver;
  resolver.mac = facts.mac;
  resolver.vlan = options.vlan;
  resolver.addresses = {*local};
  const auto shared = std::make_shared<roce::SharedResolver>(resolver);
  RoceNetwork network;
  for (std::uint32_t shard = 0; shard < config.shards; ++shard) {
    before(shard);
    transport.tiles = ShardSet::share_of(memory, shard, config.shards);
    network.transports.push_back(std::make_unique<roce::RoceTransport>(
        std::make_unique<roce::PortLink>(port, shared, shard), transport));
  }
  log::info("roce", {{"device", facts.name},
                     {"driver", facts.driver},
                     {"address", config.roce_address},
                     {"mtu", transport.mtu},
                     {"multi_segment", facts.has_multi_segment},
                     {"steering", facts.has_steering},
                     {"link", port->link().is_up}});
  const std::string gid = config.roce_address.substr(0, config.roce_address.find('/'));
  network.offer = {
      .device = facts.name, .gid = gid, .ack_timeout = config.ack_timeout, .in_user_space = true};
  return network;
}

}  // namespace tally::control
