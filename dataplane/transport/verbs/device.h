// Chooses an RDMA device with its port and GID, says why, and opens the device. Each shard of a
// node and each session of a client opens its own, so that an event of the device concerns only its
// owner. (A session has one for all its nodes.) A caller can also give a device that it has open.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "dataplane/transport/verbs/api.h"

namespace tally::transport::verbs {

// The Local ACK Timeout of InfiniBand: how long a packet waits for its acknowledgement before it is
// sent again. The time is 4.096 us << kAckTimeout, about 67 ms; adapters may take four times as
// long.
inline constexpr std::uint8_t kAckTimeout = 14;
inline constexpr std::uint8_t kMinAckTimeout = 8;   // 1 ms
inline constexpr std::uint8_t kMaxAckTimeout = 22;  // 17 s

struct DeviceOptions {
  // "NAME", "NAME:PORT" or "NAME:PORT:GID-INDEX"; empty means the best that serves, and the first
  // of several equals.
  std::string device;
  // A numeric address of this machine. A device with this address as a GID comes before others.
  std::string host;
  // The caller's own protection domain, or null. Then Device uses the domain's device through the
  // caller's open context, and does not close it. The option device may still select port and GID.
  // Borrowed for the life of the Device.
  ibv_pd* domain = nullptr;
  // The timeout of its connections at this end: 4.096 us << ack_timeout.
  std::uint8_t ack_timeout = kAckTimeout;
  // Most bytes in a packet of its connections: a power of two, 256 to 4096. 0 means the port's MTU.
  std::uint32_t mtu = 0;

  bool operator==(const DeviceOptions&) const = default;
};

// The choice of device, port and GID, and the limits of the device.
struct Choice {
  std::string device;
  std::uint8_t port = 0;
  std::uint8_t gid_index = 0;
  ibv_gid gid{};
  std::uint16_t lid = 0;
  bool ethernet = false;       // true for RoCE, false for InfiniBand
  ibv_mtu mtu = IBV_MTU_256;   // of its connections: the port's, or less by DeviceOptions::mtu
  std::uint8_t reads_out = 0;  // RDMA READs that a queue pair can have outstanding at a peer
  std::uint8_t reads_in = 0;   // RDMA READs of a peer that a queue pair answers at a time
  std::uint8_t ack_timeout = kAckTimeout;
  std::uint32_t max_wr = 0;   // most work requests of a send or receive queue
  std::uint32_t max_cqe = 0;  // most entries of a completion queue
  std::string why;            // "mlx5_0 port 1, GID 3 (10.0.0.1, RoCE v2), MTU 4096: as asked for"
};

constexpr std::uint32_t bytes_of(ibv_mtu mtu) {
  return 128U << mtu;
}

// Owns the context and the protection domain, unless DeviceOptions::domain gave them.
class Device {
 public:
  // Fails with kUnsupported when no device serves; the message lists the devices and what each
  // lacks. Fails with kInvalidArgument when DeviceOptions::device cannot be parsed or names another
  // device than that of DeviceOptions::domain. Fails with kNoMemory when the device gives no
  // protection domain. api is borrowed for the life of the Device.
  static Result<std::unique_ptr<Device>> open(Api& api, const DeviceOptions& options);

  Api& api() const { return api_; }
  ibv_context& context() const { return *domain_->context; }
  ibv_pd& domain() const { return *domain_; }
  const Choice& choice() const { return choice_; }
  // A nonblocking descriptor that is readable when the device has an event. -1 when the context is
  // the caller's: an event can be taken only once, and the caller decides whether its descriptor
  // blocks.
  int event_fd() const { return context_ ? context_->async_fd : -1; }

  // Registers memory. access: IBV_ACCESS_*. The message of an error gives the size and the limit on
  // memory. The region must end before the Device.
  Result<MemoryRegion> expose(void* data, std::size_t bytes, unsigned access) const;
  // Registers memory of another device, such as a GPU: bytes from offset on of the dma-buf fd.
  // Peers address its first byte by iova. Fails with kUnsupported when this RDMA device cannot
  // import any dma-buf.
  Result<MemoryRegion> expose_dmabuf(int fd, std::uint64_t offset, std::size_t bytes,
                                     std::uint64_t iova, unsigned access) const;

 private:
  Device(Api& api, Context context, Choice choice)
      : api_(api), context_(std::move(context)), choice_(std::move(choice)) {}
  bool takes_dmabufs() const;

  Api& api_;
  Context context_;              // empty when the caller gave a domain
  ProtectionDomain own_domain_;  // likewise
  ibv_pd* domain_ = nullptr;
  Choice choice_;
};

// Access to workers' memory: the node reads and writes it. Relaxed ordering lets the bytes of a
// message be placed in any order; after a completion all of them are placed.
inline constexpr unsigned kForTheNode = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ |
                                        IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_RELAXED_ORDERING;
// Access to read-only memory of workers: the node only reads it.
inline constexpr unsigned kForReadsOfTheNode = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_RELAXED_ORDERING;
// Access to memory that no peer reaches, such as the node's own.
inline constexpr unsigned kForItself = IBV_ACCESS_LOCAL_WRITE;
// What a queue pair lets the other end do: the node at a worker, and a worker at the node.
inline constexpr unsigned kNodesAccess = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
inline constexpr unsigned kWorkersAccess = 0;

// The text of the errno of a failed registration or of a queue that was not made. For ENOMEM the
// text includes the limit on pinned memory, because all of this memory is pinned.
std::string why_not_made(int error);

// "10.0.0.1" for an IPv4-mapped GID, "fe80::1" for others.
std::string to_text(const ibv_gid& gid);

}  // namespace tally::transport::verbs
