// An Ethernet port that DPDK drives, for RoCEv2 in user space: one device with a pair of queues for
// each shard. The EAL must have started, and must outlive the port.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "dataplane/transport/roce/port/handover.h"
#include "dataplane/transport/roce/port/port_queue.h"
#include "dataplane/transport/roce/wire/packet.h"

namespace tally::transport::roce {

struct PortOptions {
  // The name of a virtual device with its arguments ("net_memif0,role=client"), or a PCI address
  // ("0000:3b:00.0"). A device that the EAL does not have yet is added.
  std::string device;
  // The port receives packets for these, 1 to kMostAddresses. IPv4 as ::ffff:a.b.c.d.
  std::vector<IpAddress> addresses;
  std::optional<MacAddress> mac{};  // none: the device's own
  std::uint16_t vlan = 0;           // RoCE's packets of others are dropped; 0: those with a tag are
  std::uint32_t queues = 1;         // pairs of queues
  std::uint32_t mtu = 4500;         // bytes of an IP packet; RoCE's MTU of 4096 needs 4180
  std::uint32_t receive_entries = 1024;
  std::uint32_t transmit_entries = 1024;
  // Received buffers that Arrivals may keep per queue, beyond those that the device needs.
  std::uint32_t held_buffers = 1024;
  // Bytes of a receive buffer. 0: a buffer holds a whole frame. Smaller ones need a driver that
  // receives frames in several.
  std::uint32_t receive_buffer_bytes = 0;
  bool may_borrow = true;  // false: payloads are copied, as with a device that needs it
  // Kept until the device is closed: what it needs of the machine.
  std::shared_ptr<const void> kept{};
};

struct PortFacts {
  std::string name;
  std::string driver;
  MacAddress mac{};
  std::uint16_t vlan = 0;
  std::uint32_t mtu = 0;
  std::uint32_t queues = 0;
  // Whether the device sends frames out of several buffers. Otherwise PortQueue::send() copies.
  bool has_multi_segment = false;
  bool has_scatter = false;  // it receives frames into several buffers
  // Whether PortQueue::reclaim() works. Otherwise an idle device may keep payloads that it has sent
  // until it has sent more.
  bool can_reclaim = false;
  // Each queue gets the packets of its own queue pairs. Otherwise queues pass them on to each
  // other.
  bool has_steering = false;
};

struct LinkState {
  bool is_up = false;
  std::uint32_t mbit_per_second = 0;  // 0: unknown
};

// Not thread-safe, except that each queue is for a thread of its own. The destructor stops the
// device: the queues' threads must have stopped, and all Arrivals must be gone. Payloads that were
// borrowed are free after it.
class Port {
 public:
  static Result<std::unique_ptr<Port>> open(const PortOptions& options);
  ~Port();
  Port(const Port&) = delete;
  Port& operator=(const Port&) = delete;

  const PortFacts& facts() const { return facts_; }
  LinkState link() const;
  // Frames that the device dropped because a queue was full or no buffer was free.
  std::uint64_t missed() const;
  // Precondition: index < facts().queues.
  PortQueue& queue(std::uint32_t index) { return *queues_[index]; }

 private:
  Port() = default;
  Outcome find(const PortOptions& options);
  Outcome configure(const PortOptions& options);
  Outcome set_mac(const PortOptions& options);
  Outcome add_queue(const PortOptions& options, std::uint32_t index);
  Outcome start(const PortOptions& options);
  void drain();

  static constexpr std::uint16_t kNone = UINT16_MAX;

  std::shared_ptr<const void> kept_;
  std::uint16_t id_ = kNone;
  bool is_added_ = false;  // by find(), so the destructor removes it
  bool is_started_ = false;
  bool may_borrow_ = false;
  std::uint32_t most_segments_ = 0;
  std::uint32_t receive_buffer_bytes_ = 0;
  std::uint16_t receive_entries_ = 0;
  std::uint16_t transmit_entries_ = 0;
  PortFacts facts_;
  std::vector<FrameMemory> receive_memory_;
  std::unique_ptr<Handover> handover_;  // null with one queue
  std::vector<std::unique_ptr<PortQueue>> queues_;
};

}  // namespace tally::transport::roce
