// Which RDMA device, port and GID to use, and why; opened. One for each shard and each session: an
// event of the device then concerns its owner alone. Or a caller's, already open.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "dataplane/transport/verbs/api.h"

namespace tally::transport::verbs {

// How long a packet that is not acknowledged waits to be sent again: 4.096 us << 14, some 67 ms
// (adapters may take four times as long).
inline constexpr std::uint8_t kAckTimeout = 14;
inline constexpr std::uint8_t kMinAckTimeout = 8;   // 1 ms
inline constexpr std::uint8_t kMaxAckTimeout = 22;  // 17 s

struct DeviceOptions {
  // "NAME", "NAME:PORT" or "NAME:PORT:GID-INDEX"; empty: the first that fits.
  std::string device;
  // Numeric, of this machine: the device that has it as a GID is taken before others.
  std::string host;
  // A caller's own. Its device is used through its context, which stays open; `device` may then say
  // which port and GID. Borrowed for the device's life.
  ibv_pd* domain = nullptr;
  // Of its connections, at this end.
  std::uint8_t ack_timeout = kAckTimeout;
  // Bytes that their packets carry at most: 256 to 4096, a power of two. 0: what the port does.
  std::uint32_t mtu = 0;
};

// What was chosen.
struct Choice {
  std::string device;
  std::uint8_t port = 0;
  std::uint8_t gid_index = 0;
  ibv_gid gid{};
  std::uint16_t lid = 0;
  bool ethernet = false;       // RoCE; else InfiniBand
  ibv_mtu mtu = IBV_MTU_256;   // of its connections: the port's, or less by DeviceOptions
  std::uint8_t reads_out = 0;  // RDMA READs outstanding: that it can have at a peer,
  std::uint8_t reads_in = 0;   // and that it answers
  std::uint8_t ack_timeout = kAckTimeout;
  std::uint32_t max_wr = 0;  // of a queue
  std::uint32_t max_cqe = 0;
  std::string why;  // "mlx5_0 port 1, GID 3 (10.0.0.1, RoCE v2), MTU 4096: it has this address"
};

constexpr std::uint32_t bytes_of(ibv_mtu mtu) {
  return 128U << mtu;
}

class Device {
 public:
  // kUnsupported: there is no device that fits; says which were looked at and what each lacks.
  // kInvalidArgument: `device` cannot be read, or is not that of `domain`. `api` is borrowed for
  // the device's life.
  static Result<std::unique_ptr<Device>> open(Api& api, const DeviceOptions& options);

  Api& api() const { return api_; }
  ibv_context& context() const { return *domain_->context; }
  ibv_pd& domain() const { return *domain_; }
  const Choice& choice() const { return choice_; }
  // Readable when there is an event of the device. Never blocks. -1 where the context is a
  // caller's: an event can be taken once, and how to wait for it is not ours to set.
  int event_fd() const { return context_ ? context_->async_fd : -1; }

  // Says how much memory, and what limits it. `access`: IBV_ACCESS_*.
  Result<MemoryRegion> expose(void* data, std::size_t bytes, unsigned access) const;
  // Memory of another device; the region begins at `iova` for those who use it. kUnsupported: this
  // device cannot, whatever the dma-buf is.
  Result<MemoryRegion> expose_dmabuf(int fd, std::uint64_t offset, std::size_t bytes,
                                     std::uint64_t iova, unsigned access) const;

 private:
  Device(Api& api, Context context, Choice choice)
      : api_(api), context_(std::move(context)), choice_(std::move(choice)) {}
  bool takes_dmabufs() const;

  Api& api_;
  Context context_;              // none where they are a caller's
  ProtectionDomain own_domain_;  // likewise
  ibv_pd* domain_ = nullptr;
  Choice choice_;
};

// What workers' memory is registered for: the node reads and writes it, in any order within a
// message (a completion still says that all of it stands).
inline constexpr unsigned kForTheNode = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ |
                                        IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_RELAXED_ORDERING;
// And the node's own, which nobody else reaches.
inline constexpr unsigned kForItself = IBV_ACCESS_LOCAL_WRITE;
// What the other end of a connection may do: the node to a worker, and a worker to the node.
inline constexpr unsigned kNodesAccess = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
inline constexpr unsigned kWorkersAccess = 0;

// The text of the errno with which a queue or memory was not made; of ENOMEM with what limits
// memory, since all of it is pinned.
std::string why_not_made(int error);

// "10.0.0.1" of an IPv4-mapped GID, "fe80::1" of others.
std::string to_text(const ibv_gid& gid);

}  // namespace tally::transport::verbs
