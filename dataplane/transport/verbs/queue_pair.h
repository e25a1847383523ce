// A reliable connection (RC queue pair) between a client and a shard.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "dataplane/transport/verbs/device.h"
#include "dataplane/wire/notice.h"

namespace tally::transport::verbs {

// What one end must know of the other. The ends exchange it over the control connection.
struct Address {
  std::uint32_t number = 0;        // of the queue pair
  std::uint32_t first_packet = 0;  // first packet sequence number that it sends
  std::uint16_t lid = 0;
  std::uint8_t mtu = 0;       // the largest ibv_mtu that it allows
  std::uint8_t reads_in = 0;  // RDMA READs that it answers at a time
  std::uint8_t ethernet = 0;  // 1 for RoCE, 0 for InfiniBand
  ibv_gid gid{};
};

std::string to_hex(const Address& address);
// The text comes from a peer, which may send anything. Nothing when it is not a valid address.
std::optional<Address> from_hex(std::string_view text);

// Most entries of the queues of a queue pair.
struct QueueSizes {
  std::uint32_t sends = 0;
  std::uint32_t receives = 0;
  std::uint32_t receive_pieces = 1;  // pieces of memory into which one message is received
};

// A small operation carries its contribution behind the notice. The receiver puts it into a second
// piece of memory. There are few such pieces, and messages use them in turn: message n of a
// connection uses piece n mod kEagerPieces. So the sender knows the piece of its next message. It
// sends nothing behind the notice while an unfinished operation still uses that piece.
inline constexpr std::uint32_t kEagerBytes = 2048;
static_assert(kEagerBytes <= wire::kMostEagerBytes);
inline constexpr std::uint32_t kEagerPieces = 4;

// The first message of a connection may be a probe without content. It fills the longest packet
// that a connection can have, because some network paths pass only shorter packets. A probe has
// immediate data; no other message has.
inline constexpr std::uint32_t kProbeBytes = bytes_of(IBV_MTU_4096);

// When a connection gives up. A packet without an acknowledgement is sent again six times, each
// after DeviceOptions::ack_timeout; with the default timeout the sender notices a dead peer after
// half a second. A sender also tries six times more, 160 ms apart, when the receiver is out of
// buffers. A receiver has a buffer for each notice within the credit, and cancels may arrive before
// it has taken those. (7 would mean no limit.)
inline constexpr std::uint8_t kRetries = 6;
inline constexpr std::uint8_t kNoBufferTimer = 28;  // 163.84 ms

// Owns the queue pair. Not thread-safe. A default QueuePair has no queue pair; operator bool tells.
class QueuePair {
 public:
  QueuePair() = default;
  // Makes a queue pair that is not connected yet. The sizes are limited to what the device can.
  // Sends of up to inline_bytes are copied when they are posted, if the device can do that
  // (can_inline()). peers_access: what the peer may do to this end's memory, IBV_ACCESS_REMOTE_*.
  // Borrows device and queue for the life of the queue pair.
  static Result<QueuePair> make(Device& device, ibv_cq& queue, const QueueSizes& sizes,
                                std::uint32_t inline_bytes, unsigned peers_access);

  Address address() const;  // of this end
  // Connects to the peer. The caller may post receives before it, and sends only after it.
  Outcome connect(const Address& peer);
  // Stops the queue pair: it neither sends nor receives any more. Requests under way end in the
  // completion queue with an error.
  void abort();
  // Destroys the queue pair: from then on no peer reaches memory by it. Returns false when the
  // device refuses; the caller may try again.
  bool end();

  std::uint32_t number() const { return pair_->qp_num; }
  bool can_inline() const { return can_inline_; }
  const QueueSizes& sizes() const { return sizes_; }
  // RDMA READs that may be outstanding at the peer; 0 before connect().
  std::uint8_t reads_out() const { return reads_out_; }
  // Most bytes in a packet: the smaller limit of the two ends. Valid after connect().
  std::uint32_t mtu() const { return bytes_of(mtu_); }
  explicit operator bool() const { return static_cast<bool>(pair_); }

  // Both post a list of requests and return 0 or an errno. Precondition: the queue has room for
  // all. unposted: gets the first request that was not posted; null when all were.
  int send(ibv_send_wr* list, const ibv_send_wr** unposted = nullptr);
  int receive(ibv_recv_wr* list);

 private:
  Outcome modify(ibv_qp_attr& attributes, int mask, const char* into);

  Device* device_ = nullptr;
  QueuePairHandle pair_;
  QueueSizes sizes_;
  std::uint32_t first_packet_ = 0;
  std::uint8_t reads_out_ = 0;
  ibv_mtu mtu_ = IBV_MTU_256;
  bool can_inline_ = false;
};

// What happened to the peer, such as "it does not answer: its machine is down or cut off, ...".
// Precondition: the status is not IBV_WC_SUCCESS.
std::string to_text(ibv_wc_status status);

}  // namespace tally::transport::verbs
