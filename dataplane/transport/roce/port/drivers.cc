#include "dataplane/transport/roce/port/drivers.h"

#include <fmt/format.h>
#include <linux/ethtool.h>
#include <linux/if.h>
#include <linux/sockios.h>
#include <rte_alarm.h>
#include <rte_bus.h>
#include <rte_eal.h>
#include <rte_ethdev.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <string_view>
#include <thread>

#include "base/system/fd.h"

namespace tally::transport::roce {
namespace {

constexpr std::string_view kMemif = "net_memif";
constexpr std::string_view kAfPacket = "net_af_packet";
constexpr std::string_view kAfXdp = "net_af_xdp";
constexpr std::string_view kVhost = "net_vhost";
constexpr std::string_view kVirtioUser = "net_virtio_user";

// Bytes of a buffer that holds a whole frame of this MTU.
std::uint32_t whole_frame(std::uint32_t mtu) {
  const std::uint32_t bytes = mtu + kEthernetBytes + RTE_ETHER_CRC_LEN;
  return (bytes + kBufferStep - 1) / kBufferStep * kBufferStep;
}

// Bytes of a frame in the ring of a packet socket: the kernel's headers precede the frame.
std::uint32_t packet_socket_frame(std::uint32_t mtu) {
  constexpr std::uint32_t kKernelHeaders = 80;
  return whole_frame(mtu + kKernelHeaders);
}

std::uint32_t interface_mtu(unsigned index) {
  ifreq request{};
  request.ifr_ifindex = static_cast<int>(index);
  const UniqueFd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const bool is_known = ::ioctl(socket.get(), SIOCGIFNAME, &request) == 0 &&
                        ::ioctl(socket.get(), SIOCGIFMTU, &request) == 0;
  return is_known ? static_cast<std::uint32_t>(request.ifr_mtu) : RTE_ETHER_MTU;
}

// 1 where the interface's driver does not say it.
std::uint32_t interface_queues(const std::string& name) {
  ethtool_channels channels{};
  channels.cmd = ETHTOOL_GCHANNELS;
  ifreq request{};
  name.copy(request.ifr_name, sizeof request.ifr_name - 1);
  request.ifr_data = reinterpret_cast<char*>(&channels);
  const UniqueFd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (::ioctl(socket.get(), SIOCETHTOOL, &request) != 0) return 1;
  return std::max({channels.combined_count, channels.rx_count, 1U});
}

void stop_and_close(std::uint16_t id) {
  rte_eth_dev_stop(id);
  rte_eth_dev_close(id);
}

// memif handles the end of a connection on the EAL's interrupt thread, without a lock against a
// close on another thread (DPDK 22.11): both free the connection's memory. So this closes on that
// thread.
void close_on_interrupt_thread(std::uint16_t id) {
  struct Call {
    std::uint16_t id;
    std::atomic<bool> is_done{false};
  } call{.id = id};
  const auto run = [](void* argument) {
    auto* const of_caller = static_cast<Call*>(argument);
    stop_and_close(of_caller->id);
    of_caller->is_done.store(true, std::memory_order_release);
  };
  constexpr std::uint64_t kMicroseconds = 1;
  if (rte_eal_alarm_set(kMicroseconds, run, &call) != 0) {
    stop_and_close(id);
    return;
  }
  // Acquire pairs with the release above.
  while (!call.is_done.load(std::memory_order_acquire)) std::this_thread::yield();
}

}  // namespace

// What the drivers need:
// - memif's buffers hold a whole frame, because the driver does not reset the mark of a frame that
//   goes on in the next buffer (DPDK 22.11): when the ring has gone around, frames get lost.
// - af_packet's frames are 2048 bytes by default. A block must be a multiple of a page and of a
//   frame, because the driver takes the frames of all blocks for one array.
// - af_xdp's buffers are at most a page, with what comes before the frame.
std::string arguments_of(const std::string& device, std::uint32_t mtu, std::uint32_t queues) {
  std::string all = device;
  const auto add = [&](std::string_view key, std::uint32_t value) {
    if (device.find(fmt::format(",{}=", key)) == std::string::npos) {
      all += fmt::format(",{}={}", key, value);
    }
  };
  if (device.starts_with(kMemif)) add("bsize", whole_frame(mtu));
  if (device.starts_with(kVhost) || device.starts_with(kVirtioUser)) add("queues", queues);
  if (device.starts_with(kAfPacket)) {
    constexpr std::uint32_t kPageSteps = 4;  // of kBufferStep bytes
    const std::uint32_t frame = packet_socket_frame(mtu);
    add("framesz", frame);
    add("blocksz", kPageSteps * frame);
    add("qpairs", queues);
  }
  if (device.starts_with(kAfXdp)) add("queue_count", queues);
  return all;
}

Outcome fits(const std::string& device, std::uint32_t queues) {
  constexpr std::string_view kKey = ",iface=";
  const std::size_t at = device.find(kKey);
  if (!device.starts_with(kAfXdp) || at == std::string::npos) return Unit{};
  const std::string begin = device.substr(at + kKey.size());
  const std::string name = begin.substr(0, begin.find(','));
  const std::uint32_t has = interface_queues(name);
  if (has == queues) return Unit{};
  return Error{Status::kUnsupported,
               fmt::format("interface {} of port {} has {} queues, and {} are needed, one for each "
                           "shard: ethtool -L {} combined {}, or set shards.count",
                           name, device, has, queues, name, queues)};
}

bool fills_all_queues(const std::string& driver) {
  return driver == kAfPacket || driver == kVhost;
}

const char* needs_of_queue(const std::string& driver) {
  if (driver != kAfXdp) return "";
  return ": AF_XDP needs CAP_NET_ADMIN, CAP_NET_RAW and CAP_BPF, memory that the process may lock "
         "(ulimit -l unlimited), and a queue of the interface that no other process has";
}

// Whether the device reads and writes memory by the process's addresses. Virtual devices are code
// of this process. Those of a bus do with an IOMMU.
bool uses_virtual_addresses(const rte_eth_dev_info& info) {
  const rte_bus* const bus = info.device == nullptr ? nullptr : rte_dev_bus(info.device);
  const bool is_virtual = bus == nullptr || std::string_view(rte_bus_name(bus)) == "vdev";
  return is_virtual || rte_eal_iova_mode() == RTE_IOVA_VA;
}

// The longest IP packet that the device takes, by the rule of ethdev, which does not report it.
std::uint32_t most_mtu(const rte_eth_dev_info& info, const std::string& driver) {
  // memif reports the limit of ordinary frames, but carries what its buffers hold.
  if (driver == kMemif) return kMostMtu;
  // af_packet reports the same, but carries what its ring and the kernel's interface take.
  if (driver == kAfPacket) return interface_mtu(info.if_index);
  if (driver == kAfXdp) {
    constexpr std::uint32_t kMost = 3 * kBufferStep - kEthernetBytes - RTE_ETHER_CRC_LEN;
    return std::min(interface_mtu(info.if_index), kMost);
  }
  const bool has_mtu = info.max_mtu != UINT16_MAX && info.max_rx_pktlen > info.max_mtu;
  const std::uint32_t overhead =
      has_mtu ? info.max_rx_pktlen - info.max_mtu : RTE_ETHER_HDR_LEN + RTE_ETHER_CRC_LEN;
  return std::min<std::uint32_t>(info.max_mtu, info.max_rx_pktlen - overhead);
}

// af_packet wants buffers that hold a frame of its ring.
std::uint32_t receive_buffer(const std::string& driver, std::uint32_t wanted, std::uint32_t mtu) {
  return driver == kAfPacket ? packet_socket_frame(wanted) : whole_frame(mtu);
}

bool copies_what_it_sends(const std::string& driver) {
  return driver == kMemif;
}

bool keeps_frames_at_close(const std::string& driver) {
  return driver != kMemif;
}

void close_device(std::uint16_t port, const std::string& driver) {
  if (driver == kMemif) {
    close_on_interrupt_thread(port);
  } else {
    stop_and_close(port);
  }
}

}  // namespace tally::transport::roce
