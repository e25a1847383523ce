#include "dataplane/transport/roce/port/port.h"

#include <fmt/format.h>
#include <rte_dev.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/crc32.h"
#include "dataplane/transport/roce/port/drivers.h"
#include "dataplane/transport/roce/port/steering.h"

namespace tally::transport::roce {
namespace {

constexpr std::uint32_t kLeastBuffer = 128;
constexpr std::uint32_t kBurstBuffers = 256;  // of bursts, pending frames and caches
// Frames in a row that are copied where payloads can be borrowed: joined ones, those of the
// resolver, and those of many pieces.
constexpr std::uint32_t kFewCopies = 256;
constexpr std::uint16_t kAnySegments = 64;  // for drivers that do not report a limit

Error failed(const std::string& what, const std::string& device, int code) {
  return {Status::kUnavailable, fmt::format("{} of port {} failed: {}", what, device,
                                            rte_strerror(code < 0 ? -code : code))};
}

std::string name_of(const std::string& device) {
  return device.substr(0, device.find(','));
}

Outcome validate(const PortOptions& options) {
  if (options.addresses.empty() || options.addresses.size() > kMostAddresses) {
    return invalid(fmt::format("port {} has {} addresses: give 1 to {}", options.device,
                               options.addresses.size(), kMostAddresses));
  }
  if (options.queues == 0 || options.queues > RTE_MAX_QUEUES_PER_PORT) {
    return invalid(fmt::format("port {} has {} queues: give 1 to {}", options.device,
                               options.queues, RTE_MAX_QUEUES_PER_PORT));
  }
  if (options.mtu < RTE_ETHER_MIN_MTU || options.mtu > kMostMtu) {
    return invalid(fmt::format("the MTU of port {} is {}: give {} to {}", options.device,
                               options.mtu, RTE_ETHER_MIN_MTU, kMostMtu));
  }
  const std::uint32_t buffer = options.receive_buffer_bytes;
  if (buffer != 0 && (buffer < kLeastBuffer || buffer > kMostMtu + kBufferStep)) {
    return invalid(fmt::format("receive buffers of port {} have {} bytes: give {} to {}",
                               options.device, buffer, kLeastBuffer, kMostMtu + kBufferStep));
  }
  constexpr std::uint32_t kMostEntries = 32768;
  for (const std::uint32_t entries : {options.receive_entries, options.transmit_entries}) {
    if (entries == 0 || entries > kMostEntries) {
      return invalid(fmt::format("a queue of port {} has {} entries: give 1 to {}", options.device,
                                 entries, kMostEntries));
    }
  }
  return Unit{};
}

}  // namespace

Result<std::unique_ptr<Port>> Port::open(const PortOptions& options) {
  if (auto valid = validate(options); !valid) return valid.error();
  std::unique_ptr<Port> port(new Port());
  port->kept_ = options.kept;
  if (auto done = port->find(options); !done) return done.error();
  if (auto done = port->configure(options); !done) return done.error();
  if (options.queues > 1) {
    auto handover = Handover::create(fmt::format("roce_{}", port->id_), options.queues);
    if (!handover) return handover.error();
    port->handover_ = std::move(handover).value();
  }
  for (std::uint32_t i = 0; i < options.queues; ++i) {
    if (auto done = port->add_queue(options, i); !done) return done.error();
  }
  if (auto done = port->start(options); !done) return done.error();
  return port;
}

Outcome Port::find(const PortOptions& options) {
  facts_.name = name_of(options.device);
  if (rte_eth_dev_get_port_by_name(facts_.name.c_str(), &id_) == 0) return Unit{};
  id_ = kNone;
  if (auto fit = fits(options.device, options.queues); !fit) return fit.error();
  if (const int code =
          rte_dev_probe(arguments_of(options.device, options.mtu, options.queues).c_str());
      code != 0) {
    return Error{
        Status::kUnavailable,
        fmt::format("DPDK has no driver here that opens port {} ({}): give the PCI address of a "
                    "NIC that is bound to vfio-pci, or a virtual device; tallyd-nics has the "
                    "drivers of mlx5 and af_xdp",
                    options.device, rte_strerror(-code))};
  }
  if (rte_eth_dev_get_port_by_name(facts_.name.c_str(), &id_) != 0) {
    id_ = kNone;
    return Error{Status::kUnavailable, fmt::format("{} is no Ethernet port", options.device)};
  }
  is_added_ = true;
  return Unit{};
}

Outcome Port::configure(const PortOptions& options) {
  rte_eth_dev_info info{};
  if (const int code = rte_eth_dev_info_get(id_, &info); code != 0) {
    return failed("a query", options.device, code);
  }
  facts_.driver = info.driver_name == nullptr ? "" : info.driver_name;
  const std::uint16_t most = std::min(info.max_rx_queues, info.max_tx_queues);
  if (options.queues > most || (options.queues < most && fills_all_queues(facts_.driver))) {
    return Error{Status::kUnsupported,
                 fmt::format("port {} has {} queues, and {} are needed, one for each shard: set "
                             "shards.count, or leave qpairs= or queues= out",
                             options.device, most, options.queues)};
  }
  facts_.queues = options.queues;
  facts_.vlan = options.vlan;
  facts_.mtu = std::min(options.mtu, most_mtu(info, facts_.driver));
  facts_.has_multi_segment = (info.tx_offload_capa & RTE_ETH_TX_OFFLOAD_MULTI_SEGS) != 0;
  facts_.has_scatter = (info.rx_offload_capa & RTE_ETH_RX_OFFLOAD_SCATTER) != 0;
  may_borrow_ = options.may_borrow && facts_.has_multi_segment && uses_virtual_addresses(info);
  const std::uint16_t limit = info.tx_desc_lim.nb_seg_max;
  most_segments_ = may_borrow_ ? (limit == 0 ? kAnySegments : std::min(limit, kAnySegments)) : 1;

  const std::uint32_t whole = receive_buffer(facts_.driver, options.mtu, facts_.mtu);
  receive_buffer_bytes_ = options.receive_buffer_bytes == 0 ? whole : options.receive_buffer_bytes;
  rte_eth_conf conf{};
  conf.rxmode.mtu = std::min<std::uint32_t>(
      facts_.mtu, info.max_rx_pktlen - RTE_ETHER_HDR_LEN - RTE_ETHER_CRC_LEN);
  if (receive_buffer_bytes_ < whole && facts_.has_scatter) {
    conf.rxmode.offloads |= RTE_ETH_RX_OFFLOAD_SCATTER;
  }
  if (facts_.has_multi_segment) conf.txmode.offloads |= RTE_ETH_TX_OFFLOAD_MULTI_SEGS;
  if (options.queues > 1 && info.flow_type_rss_offloads != 0) {
    // A connection has one UDP source port, so all its packets get to one queue.
    conf.rxmode.mq_mode = RTE_ETH_MQ_RX_RSS;
    conf.rx_adv_conf.rss_conf.rss_hf =
        info.flow_type_rss_offloads & (RTE_ETH_RSS_IP | RTE_ETH_RSS_UDP);
  }
  const auto queues = static_cast<std::uint16_t>(options.queues);
  if (const int code = rte_eth_dev_configure(id_, queues, queues, &conf); code != 0) {
    return failed("the configuration", options.device, code);
  }
  receive_entries_ = static_cast<std::uint16_t>(options.receive_entries);
  transmit_entries_ = static_cast<std::uint16_t>(options.transmit_entries);
  if (const int code = rte_eth_dev_adjust_nb_rx_tx_desc(id_, &receive_entries_, &transmit_entries_);
      code != 0) {
    return failed("the number of queue entries", options.device, code);
  }
  return set_mac(options);
}

Outcome Port::set_mac(const PortOptions& options) {
  rte_ether_addr mac{};
  if (options.mac) {
    std::memcpy(mac.addr_bytes, options.mac->data(), options.mac->size());
    // Not every virtual device can. It then has to take all frames.
    if (rte_eth_dev_default_mac_addr_set(id_, &mac) != 0) rte_eth_promiscuous_enable(id_);
  } else if (const int code = rte_eth_macaddr_get(id_, &mac); code != 0) {
    return failed("a query of the MAC", options.device, code);
  }
  std::memcpy(facts_.mac.data(), mac.addr_bytes, facts_.mac.size());
  return Unit{};
}

Outcome Port::add_queue(const PortOptions& options, std::uint32_t index) {
  const auto create = [&](const char* use, std::uint32_t buffers, std::uint32_t bytes) {
    return FrameMemory::create(fmt::format("roce_{}_{}_{}", use, id_, index), buffers, bytes);
  };
  const auto crc = Crc32::open();
  if (!crc) return crc.error();
  const std::uint32_t frame = facts_.mtu + kEthernetBytes;
  const std::uint32_t per_frame =
      (frame + RTE_ETHER_CRC_LEN + receive_buffer_bytes_ - 1) / receive_buffer_bytes_;
  const std::uint32_t sending = transmit_entries_ + kBurstBuffers;
  const std::uint32_t passed_on = options.queues > 1 ? Handover::kEntries : 0;
  auto received = create(
      "rx", (receive_entries_ + options.held_buffers + passed_on + kBurstBuffers) * per_frame,
      receive_buffer_bytes_);
  if (!received) return received.error();
  // Each frame with a borrowed payload has a begin and an end.
  auto headers = create("tx", 2 * sending, PortQueue::kHeaderBuffer);
  if (!headers) return headers.error();
  auto payloads = create("ext", may_borrow_ ? sending : 1, 0);
  if (!payloads) return payloads.error();
  auto copies = create("copy", may_borrow_ ? kFewCopies : sending, frame + 3 + kIcrcBytes);
  if (!copies) return copies.error();

  const auto queue = static_cast<std::uint16_t>(index);
  const unsigned socket = rte_socket_id();
  receive_memory_.push_back(std::move(received).value());
  if (const int code = rte_eth_rx_queue_setup(id_, queue, receive_entries_, socket, nullptr,
                                              receive_memory_.back().pool());
      code != 0) {
    Error error = failed("a receive queue", options.device, code);
    error.message += needs_of_queue(facts_.driver);
    return error;
  }
  if (const int code = rte_eth_tx_queue_setup(id_, queue, transmit_entries_, socket, nullptr);
      code != 0) {
    return failed("a transmit queue", options.device, code);
  }
  PortQueue::Setup setup{.port = id_,
                         .queue = queue,
                         .queues = options.queues,
                         .handover = handover_.get(),
                         .mac = facts_.mac,
                         .vlan = options.vlan,
                         .address_count = options.addresses.size(),
                         .crc = *crc,
                         .most_segments = most_segments_,
                         .frame_bytes = frame,
                         .headers = std::move(headers).value(),
                         .payloads = std::move(payloads).value(),
                         .copies = std::move(copies).value()};
  std::copy(options.addresses.begin(), options.addresses.end(), setup.addresses.begin());
  queues_.push_back(std::make_unique<PortQueue>(std::move(setup)));
  return Unit{};
}

Outcome Port::start(const PortOptions& options) {
  if (const int code = rte_eth_dev_start(id_); code != 0) {
    return failed("the start", options.device, code);
  }
  is_started_ = true;
  facts_.can_reclaim =
      copies_what_it_sends(facts_.driver) || rte_eth_tx_done_cleanup(id_, 0, 0) != -ENOTSUP;
  // IPv6 asks for MAC addresses by multicast. A virtual device that has no filter passes them
  // anyway.
  rte_eth_allmulticast_enable(id_);
  facts_.has_steering = facts_.queues > 1 && steer_by_pair(id_, facts_.queues);
  return Unit{};
}

// Frees what waits in a device that keeps its frames when it is closed, as net_ring does.
void Port::drain() {
  constexpr std::size_t kBurst = 32;
  std::array<rte_mbuf*, kBurst> burst;
  for (std::uint16_t queue = 0; queue < queues_.size(); ++queue) {
    for (std::uint32_t left = receive_entries_; left > 0;) {
      const std::uint16_t count = rte_eth_rx_burst(id_, queue, burst.data(), kBurst);
      if (count == 0) break;
      rte_pktmbuf_free_bulk(burst.data(), count);
      left -= std::min<std::uint32_t>(left, count);
    }
  }
}

Port::~Port() {
  if (id_ == kNone) return;
  rte_eth_dev_info info{};
  const bool has_device = rte_eth_dev_info_get(id_, &info) == 0 && info.device != nullptr;
  if (is_started_ && keeps_frames_at_close(facts_.driver)) drain();
  close_device(id_, facts_.driver);
  if (is_added_ && has_device) rte_dev_remove(info.device);
}

LinkState Port::link() const {
  rte_eth_link link{};
  if (rte_eth_link_get_nowait(id_, &link) != 0) return {};
  const bool is_known = link.link_speed != RTE_ETH_SPEED_NUM_UNKNOWN;
  return {.is_up = link.link_status == RTE_ETH_LINK_UP,
          .mbit_per_second = is_known ? link.link_speed : 0};
}

std::uint64_t Port::missed() const {
  rte_eth_stats stats{};
  return rte_eth_stats_get(id_, &stats) == 0 ? stats.imissed + stats.rx_nombuf : 0;
}

}  // namespace tally::transport::roce
