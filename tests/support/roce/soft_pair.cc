#include "tests/support/roce/soft_pair.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "dataplane/transport/roce/pair/outgoing_packet.h"
#include "dataplane/transport/verbs/device.h"
#include "tests/support/roce/soft_device.h"

namespace tally::testing {

using namespace transport::roce;

namespace {

constexpr std::uint8_t kForEver = 7;  // of retries
constexpr std::uint16_t kFirstSourcePort = 0xc000;
constexpr Nanos kTimeoutUnit = 4096;

ibv_wc_status status_of(Failure failure) {
  switch (failure) {
    case Failure::kNoAnswer:
      return IBV_WC_RETRY_EXC_ERR;
    case Failure::kNotReady:
      return IBV_WC_RNR_RETRY_EXC_ERR;
    case Failure::kAccess:
      return IBV_WC_REM_ACCESS_ERR;
    case Failure::kInvalidRequest:
      return IBV_WC_REM_INV_REQ_ERR;
    default:
      return IBV_WC_REM_OP_ERR;
  }
}

// A request of the node that comes again may ask for memory that its owner already writes to. An
// adapter reads it all the same, and the node ignores the answer. The thread sanitizer must not
// take that for a race of the code under test.
__attribute__((no_sanitize("thread"))) FrameBytes read_unwatched(const std::byte* from,
                                                                 std::size_t bytes) {
  FrameBytes copy(bytes);
  const volatile std::byte* const source = from;
  for (std::size_t i = 0; i < bytes; ++i) copy.data()[i] = source[i];
  return copy;
}

}  // namespace

SoftPair::SoftPair(SoftDevice& device, ibv_pd& domain, const ibv_qp_init_attr& attributes,
                   std::uint32_t number)
    : ibv_qp{}, device_(device), room_(attributes.cap), signals_all_(attributes.sq_sig_all != 0) {
  context = &device;
  pd = &domain;
  send_cq = attributes.send_cq;
  recv_cq = attributes.recv_cq;
  qp_num = number;
  qp_type = attributes.qp_type;
  state = IBV_QPS_RESET;
}

// -- states --------------------------------------------------------------------------------------

int SoftPair::modify(const ibv_qp_attr& attributes, int mask) {
  if ((mask & IBV_QP_ACCESS_FLAGS) != 0) access_ = attributes.qp_access_flags;
  if ((mask & IBV_QP_STATE) == 0) return 0;
  const ibv_qp_state before = state;
  const ibv_qp_state after = attributes.qp_state;
  if (after == IBV_QPS_ERR) {
    break_off();
    return 0;
  }
  const bool is_next = (before == IBV_QPS_RESET && after == IBV_QPS_INIT) ||
                       (before == IBV_QPS_INIT && after == IBV_QPS_RTR) ||
                       (before == IBV_QPS_RTR && after == IBV_QPS_RTS);
  if (!is_next) return EINVAL;
  if (after == IBV_QPS_RTR) {
    std::memcpy(peer_.data(), attributes.ah_attr.grh.dgid.raw, peer_.size());
    const auto mac = device_.cable().mac_of(peer_);
    if (!mac) return ETIMEDOUT;
    route_.target_mac = *mac;
    connect(attributes);
  }
  if (after == IBV_QPS_RTS) {
    if (attributes.retry_cnt >= kForEver || attributes.rnr_retry >= kForEver) {
      misused("a connection never gives up a peer that does not answer");
    }
    options_.first_sent = Psn(attributes.sq_psn);
    options_.reads_out = attributes.max_rd_atomic;
    options_.ack_timeout = kTimeoutUnit << attributes.timeout;
    options_.tries = attributes.retry_cnt;
    requester_.emplace(options_);
  }
  state = after;
  return 0;
}

void SoftPair::connect(const ibv_qp_attr& attributes) {
  peer_number_ = attributes.dest_qp_num;
  route_.source_mac = device_.station().mac();
  route_.source = device_.station().address();
  route_.target = peer_;
  route_.source_port = static_cast<std::uint16_t>(kFirstSourcePort | (qp_num & 0x3fff));
  route_.traffic_class = kEcnCapable;
  options_.first_expected = Psn(attributes.rq_psn);
  options_.mtu = transport::verbs::bytes_of(attributes.path_mtu);
  options_.reads_in = attributes.max_dest_rd_atomic;
  responder_.emplace(options_, *this);
  responder_->post_receives(static_cast<std::uint32_t>(receives_.size()));
}

void SoftPair::break_off() {
  state = IBV_QPS_ERR;
  requester_.reset();
  responder_.reset();
  payloads_.clear();
  for (const Send& send : std::exchange(sends_, {})) {
    complete_send(send, IBV_WC_WR_FLUSH_ERR);
  }
  given_ = 0;
  for (const Receive& receive : std::exchange(receives_, {})) {
    complete_receive(receive, IBV_WC_WR_FLUSH_ERR, {}, IBV_WC_RECV);
  }
}

// -- work ----------------------------------------------------------------------------------------

std::byte* SoftPair::own_memory(const ibv_sge& piece, unsigned access) const {
  std::byte* const data = device_.memory(pd, piece.lkey, piece.addr, piece.length, access);
  if (data == nullptr && piece.length > 0) misused("a request's own memory is not registered");
  return data;
}

int SoftPair::post_send(const ibv_send_wr* list) {
  if (state != IBV_QPS_RTS && state != IBV_QPS_ERR) misused("sent before RTS");
  for (const ibv_send_wr* one = list; one != nullptr; one = one->next) {
    if (++unpolled_ > room_.max_send_wr) misused("a send queue overruns");
    if (!signals_all_ && (one->send_flags & IBV_SEND_SIGNALED) == 0) {
      misused("a send without a completion");
    }
    Send send{.id = one->wr_id};
    Work& work = send.work;
    const bool is_read = one->opcode == IBV_WR_RDMA_READ;
    const bool is_send = one->opcode == IBV_WR_SEND || one->opcode == IBV_WR_SEND_WITH_IMM;
    work.kind = is_read ? WorkKind::kRead : is_send ? WorkKind::kSend : WorkKind::kWrite;
    work.address = one->wr.rdma.remote_addr;
    work.key = one->wr.rdma.rkey;
    if (is_send) work.address = work.key = 0;
    if (one->opcode == IBV_WR_SEND_WITH_IMM || one->opcode == IBV_WR_RDMA_WRITE_WITH_IMM) {
      work.immediate = ntohl(one->imm_data);
    }
    if (one->num_sge > 1) misused("a send of several pieces");
    const ibv_sge piece = one->num_sge > 0 ? one->sg_list[0] : ibv_sge{};
    work.bytes = piece.length;
    if ((one->send_flags & IBV_SEND_INLINE) != 0) {
      if (piece.length > room_.max_inline_data) misused("too long to be inline");
      const auto* const content = reinterpret_cast<const std::byte*>(piece.addr);
      send.content.assign(content, content + piece.length);
    } else if (state == IBV_QPS_RTS) {
      std::byte* const data = own_memory(piece, is_read ? IBV_ACCESS_LOCAL_WRITE : 0);
      if (is_read) {
        send.target = data;
      } else {
        work.source = data;
      }
    }
    sends_.push_back(std::move(send));
    if (!sends_.back().content.empty()) sends_.back().work.source = sends_.back().content.data();
  }
  if (state == IBV_QPS_ERR) {
    break_off();
    return 0;
  }
  pump(monotonic_now());
  device_.wake_by(timer());
  return 0;
}

int SoftPair::post_receive(const ibv_recv_wr* list) {
  for (const ibv_recv_wr* one = list; one != nullptr; one = one->next) {
    const auto count = static_cast<std::uint32_t>(one->num_sge);
    if (receives_.size() >= room_.max_recv_wr) misused("a receive queue overruns");
    if (count > room_.max_recv_sge) misused("a receive into more pieces than agreed");
    receives_.push_back({one->wr_id, {one->sg_list, one->sg_list + count}});
    if (responder_) responder_->post_receives(1);
  }
  if (state == IBV_QPS_ERR) break_off();
  return 0;
}

// The requester has room for a limited number of requests.
void SoftPair::post_waiting() {
  for (; given_ < sends_.size(); ++given_) {
    Work work = sends_[given_].work;
    work.id = first_send_ + given_;
    if (requester_->room_for(work) > requester_->room()) return;
    requester_->post(work);
  }
}

// Completions of a send queue keep the order of its requests.
void SoftPair::take_done() {
  for (Done done; requester_->next_done(done);) {
    Send& send = sends_[done.id - first_send_];
    send.is_done = true;
    send.is_fine = done.fine;
  }
  for (; !sends_.empty() && sends_.front().is_done && sends_.front().is_fine; ++first_send_) {
    const Send send = std::move(sends_.front());
    sends_.pop_front();
    --given_;
    complete_send(send, IBV_WC_SUCCESS);
  }
  const Failure failure = requester_->failure();
  if (failure == Failure::kNone) return;
  if (!sends_.empty()) {
    const Send send = std::move(sends_.front());
    sends_.pop_front();
    complete_send(send, status_of(failure));
  }
  break_off();
}

void SoftPair::complete_send(const Send& send, ibv_wc_status status) {
  ibv_wc completion{};
  completion.wr_id = send.id;
  completion.status = status;
  completion.opcode = send.work.kind == WorkKind::kSend    ? IBV_WC_SEND
                      : send.work.kind == WorkKind::kWrite ? IBV_WC_RDMA_WRITE
                                                           : IBV_WC_RDMA_READ;
  completion.byte_len = static_cast<std::uint32_t>(send.work.bytes);
  completion.qp_num = qp_num;
  device_.complete(*send_cq, completion);
}

void SoftPair::complete_receive(const Receive& receive, ibv_wc_status status,
                                const std::optional<std::uint32_t>& immediate,
                                ibv_wc_opcode opcode) {
  ibv_wc completion{};
  completion.wr_id = receive.id;
  completion.status = status;
  completion.opcode = opcode;
  completion.byte_len = std::exchange(received_, 0);
  if (immediate) {
    completion.wc_flags = IBV_WC_WITH_IMM;
    completion.imm_data = htonl(*immediate);
  }
  completion.qp_num = qp_num;
  device_.complete(*recv_cq, completion);
}

// -- what comes in -------------------------------------------------------------------------------

std::byte* SoftPair::find(std::uint32_t key, std::uint64_t address, std::uint64_t bytes,
                          Right right) const {
  const unsigned needed = right == Right::kRead ? IBV_ACCESS_REMOTE_READ : IBV_ACCESS_REMOTE_WRITE;
  if ((access_ & needed) == 0) return nullptr;
  return device_.memory(pd, key, address, bytes, needed);
}

void SoftPair::take(Station::Arrived arrived, Nanos now) {
  if (!is_ready_to_receive() || arrived.packet.route.source != peer_) return;
  switch (facts_of(arrived.packet.opcode).kind) {
    case Kind::kAcknowledge:
    case Kind::kReadResponse:
      return take_answer(arrived, now);
    case Kind::kOther:
      return;  // of congestion; this adapter does not slow down
    default:
      break;
  }
  const std::uint64_t number = ++last_handle_;
  const Station::Arrived& kept = payloads_[number] = std::move(arrived);
  if (!responder_->receive(kept.packet, number, now)) payloads_.erase(number);
  deliver();
}

void SoftPair::take_answer(const Station::Arrived& arrived, Nanos now) {
  if (!requester_) return;
  const auto part = requester_->receive(arrived.packet, now);
  if (!part) return;
  std::memcpy(sends_[part->id - first_send_].target + part->offset,
              arrived.frame.data() + arrived.packet.headers, arrived.packet.payload);
}

void SoftPair::deliver() {
  for (Delivery part; responder_->next_delivery(part);) {
    const auto kept = payloads_.extract(part.handle);
    const std::byte* const payload = kept.mapped().frame.data() + kept.mapped().packet.headers;
    if (!part.is_message) {
      if (part.bytes > 0) std::memcpy(part.target, payload, part.bytes);
      if (!part.immediate) continue;
      const Receive receive = std::move(receives_.front());
      receives_.pop_front();
      complete_receive(receive, IBV_WC_SUCCESS, part.immediate, IBV_WC_RECV_RDMA_WITH_IMM);
      continue;
    }
    take_message(part, {payload, part.bytes});
  }
}

// Puts a part of a message into the pieces of its receive.
void SoftPair::take_message(const Delivery& part, std::span<const std::byte> payload) {
  std::uint64_t before = 0;  // bytes of the pieces before this one
  for (const ibv_sge& piece : receives_.front().pieces) {
    std::byte* const data = own_memory(piece, IBV_ACCESS_LOCAL_WRITE);
    const std::uint64_t at = received_ - std::min<std::uint64_t>(before, received_);
    before += piece.length;
    if (received_ >= before) continue;
    const std::size_t bytes = std::min<std::size_t>(payload.size(), before - received_);
    if (bytes > 0) std::memcpy(data + at, payload.data(), bytes);
    payload = payload.subspan(bytes);
    received_ += static_cast<std::uint32_t>(bytes);
  }
  if (!payload.empty()) misused("a message is longer than what it is received in");
  if (!part.ends) return;
  const Receive receive = std::move(receives_.front());
  receives_.pop_front();
  complete_receive(receive, IBV_WC_SUCCESS, part.immediate, IBV_WC_RECV);
}

// -- what goes out -------------------------------------------------------------------------------

void SoftPair::progress(Nanos now) {
  if (!is_ready_to_receive()) return;
  if (requester_) requester_->tick(now);
  responder_->tick(now);
  pump(now);
  if (responder_->has_failed()) {
    device_.announce(IBV_EVENT_QP_ACCESS_ERR, this);
    return break_off();
  }
  if (requester_) take_done();
}

Nanos SoftPair::timer() const {
  if (!is_ready_to_receive()) return Requester::kNever;
  return std::min(responder_->timer(), requester_ ? requester_->timer() : Requester::kNever);
}

void SoftPair::pump(Nanos now) {
  for (Outgoing one; responder_->next(one); one = {}) emit(one);
  if (!requester_) return;
  post_waiting();
  for (Outgoing one; requester_->next(one, now); one = {}) emit(one);
}

void SoftPair::emit(const Outgoing& outgoing) {
  Packet packet = packet_of(outgoing, route_, peer_number_);
  const std::span payload(outgoing.payload, outgoing.bytes);
  if (facts_of(outgoing.opcode).kind != Kind::kReadResponse) {
    return device_.station().send(write_frame(packet, payload));
  }
  if (answered_end_ && outgoing.psn.after(*answered_end_) < 0) {
    const FrameBytes copy = read_unwatched(payload.data(), payload.size());
    return device_.station().send(write_frame(packet, copy));
  }
  answered_end_ = outgoing.psn + 1;
  device_.station().send(write_frame(packet, payload));
}

}  // namespace tally::testing
