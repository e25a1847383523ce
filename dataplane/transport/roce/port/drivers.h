// What DPDK's drivers (22.11) need that ethdev does not say.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"

struct rte_eth_dev_info;

namespace tally::transport::roce {

inline constexpr std::uint32_t kEthernetBytes = 14 + 4;  // with a VLAN tag
inline constexpr std::uint32_t kMostMtu = 9216;          // bytes of an IP packet
// Devices take buffers in steps of 128 to 1024 bytes, and use only whole steps.
inline constexpr std::uint32_t kBufferStep = 1024;

// Whether a device with this name can have so many queues, where DPDK's driver does not ask: an
// interface for net_af_xdp has as many queues as the node takes, or packets would stay in others.
Outcome fits(const std::string& device, std::uint32_t queues);

// The name of a device with its arguments, and those that its driver needs for packets of this MTU
// and so many queues.
std::string arguments_of(const std::string& device, std::uint32_t mtu, std::uint32_t queues);

// Whether packets come to all queues that the device has, and not only to those that are set up.
bool fills_all_queues(const std::string& driver);

// What a receive queue of the driver needs of the machine, for a message; "" for most drivers.
const char* needs_of_queue(const std::string& driver);

// The longest IP packet that the device takes.
std::uint32_t most_mtu(const rte_eth_dev_info& info, const std::string& driver);

// Bytes of a receive buffer that holds a whole frame. wanted: the MTU for which arguments_of() was
// called; mtu: that of the port.
std::uint32_t receive_buffer(const std::string& driver, std::uint32_t wanted, std::uint32_t mtu);

// Whether the device reads and writes memory by the process's addresses.
bool uses_virtual_addresses(const rte_eth_dev_info& info);

// Whether the driver keeps nothing of what it has sent.
bool copies_what_it_sends(const std::string& driver);

// Whether frames that wait in the device must be taken before it is closed.
bool keeps_frames_at_close(const std::string& driver);

void close_device(std::uint16_t port, const std::string& driver);

}  // namespace tally::transport::roce
