#include "dataplane/transport/verbs/queue_pair.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>

#include "base/random_number.h"

namespace tally::transport::verbs {
namespace {

constexpr std::uint32_t kPacketNumbers = 1 << 24;
constexpr std::uint8_t kHopLimit = 64;

std::uint32_t random_packet_number() {
  return static_cast<std::uint32_t>(random_number() % kPacketNumbers);
}

template <typename T>
void append(std::string& text, T number) {
  fmt::format_to(std::back_inserter(text), "{:0{}x}", number, 2 * sizeof number);
}

template <typename T>
bool take(std::string_view& text, T& number) {
  const std::size_t digits = 2 * sizeof number;
  if (text.size() < digits) return false;
  const auto [end, error] = std::from_chars(text.data(), text.data() + digits, number, 16);
  const bool fine = error == std::errc() && end == text.data() + digits;
  text.remove_prefix(digits);
  return fine;
}

}  // namespace

std::string to_hex(const Address& address) {
  std::string text;
  append(text, address.number);
  append(text, address.first_packet);
  append(text, address.lid);
  append(text, address.mtu);
  append(text, address.reads_in);
  append(text, address.ethernet);
  for (const std::uint8_t byte : address.gid.raw) append(text, byte);
  return text;
}

std::optional<Address> from_hex(std::string_view text) {
  Address address;
  bool fine = take(text, address.number) && take(text, address.first_packet) &&
              take(text, address.lid) && take(text, address.mtu) && take(text, address.reads_in) &&
              take(text, address.ethernet);
  for (std::uint8_t& byte : address.gid.raw) fine = fine && take(text, byte);
  fine = fine && text.empty() && address.number < kPacketNumbers &&
         address.first_packet < kPacketNumbers && address.mtu >= IBV_MTU_256 &&
         address.mtu <= IBV_MTU_4096 && address.reads_in > 0 && address.ethernet <= 1;
  if (!fine) return std::nullopt;
  return address;
}

Result<QueuePair> QueuePair::make(Device& device, ibv_cq& queue, const QueueSizes& sizes,
                                  std::uint32_t inline_bytes, unsigned peers_access) {
  QueuePair made;
  made.device_ = &device;
  made.sizes_ = {std::min(sizes.sends, device.choice().max_wr),
                 std::min(sizes.receives, device.choice().max_wr), sizes.receive_pieces};
  made.first_packet_ = random_packet_number();
  ibv_qp_init_attr attributes{};
  attributes.send_cq = attributes.recv_cq = &queue;
  attributes.qp_type = IBV_QPT_RC;
  attributes.sq_sig_all = 1;
  // Tries again without inline sends, because some devices do not support them.
  for (const std::uint32_t bytes : {inline_bytes, 0U}) {
    attributes.cap = {made.sizes_.sends, made.sizes_.receives, 1, made.sizes_.receive_pieces,
                      bytes};
    made.can_inline_ = bytes > 0;
    made.pair_ =
        QueuePairHandle(device.api(), device.api().create_qp(&device.domain(), &attributes));
    if (made.pair_ || bytes == 0) break;
  }
  if (!made.pair_) {
    return Error{
        Status::kNoMemory,
        fmt::format("a queue pair of {} sends and {} receives on {}: {}", made.sizes_.sends,
                    made.sizes_.receives, device.choice().device, why_not_made(errno))};
  }
  ibv_qp_attr first{};
  first.qp_state = IBV_QPS_INIT;
  first.port_num = device.choice().port;
  first.qp_access_flags = peers_access;
  auto done = made.modify(
      first, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS, "INIT");
  if (!done) return done.error();
  return made;
}

Address QueuePair::address() const {
  const Choice& choice = device_->choice();
  Address address;
  address.number = pair_->qp_num;
  address.first_packet = first_packet_;
  address.lid = choice.lid;
  address.mtu = static_cast<std::uint8_t>(choice.mtu);
  address.reads_in = choice.reads_in;
  address.ethernet = choice.ethernet ? 1 : 0;
  address.gid = choice.gid;
  return address;
}

Outcome QueuePair::connect(const Address& peer) {
  const Choice& choice = device_->choice();
  if ((peer.ethernet == 1) != choice.ethernet) {
    return Error{Status::kUnsupported, "one end is on InfiniBand and the other on RoCE"};
  }
  reads_out_ = std::min(choice.reads_out, peer.reads_in);
  ibv_qp_attr ready{};
  ready.qp_state = IBV_QPS_RTR;
  ready.path_mtu = mtu_ = std::min(choice.mtu, static_cast<ibv_mtu>(peer.mtu));
  ready.dest_qp_num = peer.number;
  ready.rq_psn = peer.first_packet;
  ready.max_dest_rd_atomic = choice.reads_in;
  ready.min_rnr_timer = kNoBufferTimer;
  ready.ah_attr.dlid = peer.lid;
  ready.ah_attr.port_num = choice.port;
  // InfiniBand without a router needs no global header.
  ready.ah_attr.is_global = choice.ethernet ? 1 : 0;
  ready.ah_attr.grh.dgid = peer.gid;
  ready.ah_attr.grh.sgid_index = choice.gid_index;
  ready.ah_attr.grh.hop_limit = kHopLimit;
  auto done = modify(ready,
                     IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                         IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
                     "RTR");
  if (!done) {
    return Error{done.status(),
                 fmt::format("{} (is there a way from {} to {}?)", done.error().message,
                             to_text(choice.gid), to_text(peer.gid))};
  }
  ibv_qp_attr sending{};
  sending.qp_state = IBV_QPS_RTS;
  sending.timeout = choice.ack_timeout;
  sending.retry_cnt = kRetries;
  sending.rnr_retry = kRetries;
  sending.sq_psn = first_packet_;
  sending.max_rd_atomic = reads_out_;
  return modify(sending,
                IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                    IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC,
                "RTS");
}

Outcome QueuePair::modify(ibv_qp_attr& attributes, int mask, const char* into) {
  const int error = device_->api().modify_qp(pair_.get(), &attributes, mask);
  if (error == 0) return Unit{};
  return Error{Status::kUnsupported,
               fmt::format("a queue pair on {} cannot be brought to {}: {}",
                           device_->choice().device, into, std::strerror(error))};
}

void QueuePair::abort() {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_ERR;
  static_cast<void>(device_->api().modify_qp(pair_.get(), &attributes, IBV_QP_STATE));
}

// EIO means that the device is gone: the kernel has removed all its objects.
bool QueuePair::end() {
  const int error = pair_.reset();
  if (error == EIO) pair_.forget();
  return error == 0 || error == EIO;
}

int QueuePair::send(ibv_send_wr* list, const ibv_send_wr** unposted) {
  ibv_send_wr* bad = nullptr;
  const int error = device_->api().post_send(pair_.get(), list, &bad);
  if (unposted != nullptr) *unposted = error != 0 ? bad : nullptr;
  return error;
}

int QueuePair::receive(ibv_recv_wr* list) {
  ibv_recv_wr* bad = nullptr;
  return device_->api().post_recv(pair_.get(), list, &bad);
}

std::string to_text(ibv_wc_status status) {
  switch (status) {
    case IBV_WC_RETRY_EXC_ERR:
      return "it does not answer: its machine is down or cut off, or the way to it loses packets";
    case IBV_WC_RNR_RETRY_EXC_ERR:
      return "it has taken no messages for a second";
    case IBV_WC_REM_ACCESS_ERR:
      return "memory that it has named is not registered for reading and writing by others, or not "
             "any more";
    case IBV_WC_REM_OP_ERR:
    case IBV_WC_REM_INV_REQ_ERR:
      return "its adapter refuses a request";
    case IBV_WC_LOC_PROT_ERR:
    case IBV_WC_LOC_LEN_ERR:
    case IBV_WC_LOC_QP_OP_ERR:
      return fmt::format("this end's adapter refuses a request (work completion status {})",
                         static_cast<int>(status));
    case IBV_WC_WR_FLUSH_ERR:
      return "the connection is in error";
    default:
      return fmt::format("the connection failed (work completion status {})",
                         static_cast<int>(status));
  }
}

}  // namespace tally::transport::verbs
