// A reliable connection (RC queue pair) between a client and a shard, from its making to its end.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "dataplane/transport/verbs/device.h"

namespace tally::transport::verbs {

// What one end has to know of the other; exchanged over the control connection.
struct Address {
  std::uint32_t number = 0;  // of the queue pair
  std::uint32_t first_packet = 0;
  std::uint16_t lid = 0;
  std::uint8_t mtu = 0;       // ibv_mtu: what it allows
  std::uint8_t reads_in = 0;  // RDMA READs that it answers at a time
  std::uint8_t ethernet = 0;  // 1: RoCE
  ibv_gid gid{};
};

std::string to_hex(const Address& address);
// From a peer, who may send anything: nothing where it cannot be an address.
std::optional<Address> from_hex(std::string_view text);

struct QueueSizes {
  std::uint32_t sends = 0;
  std::uint32_t receives = 0;
  std::uint32_t receive_pieces = 1;  // of memory that a message is received into
};

// Small operations carry their contribution behind the notice, into a second piece of what it is
// received in. There are few of these pieces, and messages take them in turn: the n-th message of a
// connection has piece n mod kEagerSlots. So who sends knows which one it takes, and sends nothing
// behind the notice while an operation that is not over has the same.
inline constexpr std::uint32_t kEagerBytes = 2048;
inline constexpr std::uint32_t kEagerSlots = 4;

// The first message of a connection may be a probe: as long as its packets can be, since there are
// ways that pass only shorter ones. It says nothing. It has immediate data, as nothing else has.
inline constexpr std::uint32_t kProbeBytes = bytes_of(IBV_MTU_4096);

// How patient a connection is: a packet is sent again after DeviceOptions::ack_timeout, six times;
// who does not answer is known to be gone after half a second, if nothing else is wished. A
// receiver that is out of buffers is asked again six times too, 160 ms apart: it has one for each
// notice within credit, and cancels may come before those are taken. (7 would be for ever.)
inline constexpr std::uint8_t kRetries = 6;
inline constexpr std::uint8_t kNoBufferTimer = 28;  // 163.84 ms

class QueuePair {
 public:
  QueuePair() = default;
  // Sends of up to `inline_bytes` are taken from where they lie at once, where the device can
  // (can_inline()). `peers_access`: what the peer may do to this end's memory, IBV_ACCESS_REMOTE_*.
  // `device` and `queue` are borrowed.
  static Result<QueuePair> make(Device& device, ibv_cq& queue, const QueueSizes& sizes,
                                std::uint32_t inline_bytes, unsigned peers_access);

  Address address() const;
  // Receives may be posted before; sends after.
  Outcome connect(const Address& peer);
  // Nothing is sent or taken any more; what is under way ends in the completion queue.
  void abort();
  // Destroys it: from then on nobody reaches anything by it. False where the device does not do so
  // (now): it can be tried again.
  bool end();

  std::uint32_t number() const { return pair_->qp_num; }
  bool can_inline() const { return can_inline_; }
  const QueueSizes& sizes() const { return sizes_; }
  // RDMA READs that may be outstanding at the peer.
  std::uint8_t reads_out() const { return reads_out_; }
  // Bytes that a packet carries at most: what both ends allow.
  std::uint32_t mtu() const { return bytes_of(mtu_); }
  explicit operator bool() const { return static_cast<bool>(pair_); }

  // 0, or an errno. Precondition: there is room in the queue.
  // `unposted`: the first one that was not; null when all were.
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

// "it does not answer ...": of a work completion that is not a success.
std::string to_text(ibv_wc_status status);

}  // namespace tally::transport::verbs
