// The queue pairs of FakeVerbs: how work is carried out.
#include <algorithm>
#include <cerrno>
#include <cstring>

#include "dataplane/transport/verbs/device.h"
#include "tests/support/transport/fake_objects.h"

namespace tally::transport::verbs {

ibv_qp* FakeVerbs::create_qp(ibv_pd* domain, ibv_qp_init_attr* attributes) {
  const Guard guard(mutex_);
  if (failing(Call::kPair)) return nullptr;
  if (attributes->cap.max_inline_data > object(domain->context).device->setup.max_inline) {
    errno = EINVAL;
    return nullptr;
  }
  PairObject& made = pairs_.emplace_back();
  made.handle.context = domain->context;
  made.handle.pd = domain;
  made.handle.send_cq = attributes->send_cq;
  made.handle.recv_cq = attributes->recv_cq;
  made.handle.qp_num = next_number_++;
  made.handle.state = IBV_QPS_RESET;
  made.room = attributes->cap;
  return &made.handle;
}

int FakeVerbs::modify_qp(ibv_qp* handle, ibv_qp_attr* attributes, int mask) {
  const Guard guard(mutex_);
  if (failing(Call::kModify)) return errno;
  PairObject& pair = find(pairs_, handle);
  if ((mask & IBV_QP_DEST_QPN) != 0) pair.peer = attributes->dest_qp_num;
  if ((mask & IBV_QP_PATH_MTU) != 0) pair.mtu = attributes->path_mtu;
  if (pair.mtu > object(handle->context).device->setup.mtu) misused("more MTU than the port has");
  if ((mask & IBV_QP_ACCESS_FLAGS) != 0) pair.access = attributes->qp_access_flags;
  check_timeout(*attributes, mask);
  check_reads(pair, *attributes, mask);
  if ((mask & IBV_QP_TIMEOUT) != 0) last_ack_timeout_ = attributes->timeout;
  handle->state = attributes->qp_state;
  if (handle->state == IBV_QPS_ERR) break_off(pair);
  return 0;
}

// 7 is for ever, of both.
void FakeVerbs::check_timeout(const ibv_qp_attr& attributes, int mask) {
  if ((mask & IBV_QP_RETRY_CNT) != 0 && attributes.retry_cnt > 6) {
    misused("a connection never gives a peer up that does not answer");
  }
  if ((mask & IBV_QP_RNR_RETRY) != 0 && attributes.rnr_retry > 6) {
    misused("a connection never gives a peer up that has no buffers");
  }
}

void FakeVerbs::check_reads(const PairObject& pair, const ibv_qp_attr& attributes, int mask) {
  const auto most = [this](const PairObject& one) {
    return object(one.handle.context).device->setup.max_reads;
  };
  if ((mask & IBV_QP_MAX_DEST_RD_ATOMIC) != 0 && attributes.max_dest_rd_atomic > most(pair)) {
    misused("more READs are to be answered than the device can");
  }
  if ((mask & IBV_QP_MAX_QP_RD_ATOMIC) == 0) return;
  for (const PairObject& other : pairs_) {
    const bool meant = &other == &pair || other.handle.qp_num == pair.peer;
    if (meant && attributes.max_rd_atomic > most(other)) {
      misused("more READs at a time than both devices can");
    }
  }
}

int FakeVerbs::destroy_qp(ibv_qp* pair) {
  const Guard guard(mutex_);
  if (failing(Call::kDestroyPair)) return errno;
  drop(pairs_, pair);
  return 0;
}

void FakeVerbs::break_off(PairObject& pair) {
  pair.handle.state = IBV_QPS_ERR;
  for (const Request& send : std::exchange(pair.sends, {})) {
    complete(pair, send.id, IBV_WC_WR_FLUSH_ERR, 0, false);
  }
  pair.pieces.clear();
  for (const ibv_recv_wr& receive : std::exchange(pair.receives, {})) {
    complete(pair, receive.wr_id, IBV_WC_WR_FLUSH_ERR, 0, true);
  }
}

void FakeVerbs::exhaust_retries() {
  const Guard guard(mutex_);
  for (PairObject& pair : pairs_) {
    if (holding_ || pair.sends.empty() || pair.handle.state != IBV_QPS_RTS) continue;
    const Request waiting = std::move(pair.sends.front());
    pair.sends.pop_front();
    complete(pair, waiting.id, IBV_WC_RNR_RETRY_EXC_ERR, 0, false);
    break_off(pair);
  }
}

int FakeVerbs::post_send(ibv_qp* handle, ibv_send_wr* list, ibv_send_wr** bad) {
  const Guard guard(mutex_);
  *bad = list;
  if (failing(Call::kPostSend)) return errno;
  PairObject& pair = find(pairs_, handle);
  if (handle->state != IBV_QPS_RTS && handle->state != IBV_QPS_ERR) misused("sent before RTS");
  ++lists_posted_;
  for (ibv_send_wr* one = list; one != nullptr; one = one->next) {
    if (++pair.unpolled > pair.room.max_send_wr) misused("a send queue overruns");
    Request request{one->wr_id, one->opcode, {}, one->wr.rdma.remote_addr, one->wr.rdma.rkey};
    if (one->num_sge > 0) request.piece = one->sg_list[0];
    if ((one->send_flags & IBV_SEND_INLINE) != 0) {
      if (request.piece.length > pair.room.max_inline_data) misused("too long to be inline");
      request.content.resize(request.piece.length);
      if (request.piece.length > 0) {
        std::memcpy(request.content.data(), reinterpret_cast<void*>(request.piece.addr),
                    request.piece.length);
      }
    }
    pair.sends.push_back(std::move(request));
  }
  if (handle->state == IBV_QPS_ERR) {
    break_off(pair);
  } else if (!holding_) {
    work(pair);
  }
  return 0;
}

int FakeVerbs::post_recv(ibv_qp* handle, ibv_recv_wr* list, ibv_recv_wr** bad) {
  const Guard guard(mutex_);
  *bad = list;
  if (failing(Call::kPostReceive)) return errno;
  PairObject& pair = find(pairs_, handle);
  for (ibv_recv_wr* one = list; one != nullptr; one = one->next) {
    if (pair.receives.size() >= pair.room.max_recv_wr) misused("a receive queue overruns");
    const auto count = static_cast<std::uint32_t>(one->num_sge);
    if (count > pair.room.max_recv_sge) misused("a receive into more pieces than agreed");
    pair.receives.push_back(*one);
    pair.pieces.emplace_back(one->sg_list, one->sg_list + count);
  }
  if (handle->state == IBV_QPS_ERR) break_off(pair);
  for (PairObject& other : pairs_) {
    if (other.peer == handle->qp_num && !holding_) work(other);
  }
  return 0;
}

void FakeVerbs::work(PairObject& pair) {
  while (!pair.sends.empty() && pair.handle.state == IBV_QPS_RTS) {
    ibv_wc_status status = IBV_WC_SUCCESS;
    if (!carry_out(pair, pair.sends.front(), status)) return;
    const Request request = std::move(pair.sends.front());
    pair.sends.pop_front();
    complete(pair, request.id, status, request.piece.length, false);
    if (status != IBV_WC_SUCCESS) break_off(pair);
  }
}

// False: not yet, the receiver has no buffer.
bool FakeVerbs::carry_out(PairObject& pair, const Request& request, ibv_wc_status& status) {
  const auto device = [this](const PairObject& one) {
    return object(one.handle.context).device->setup.name;
  };
  const auto to = std::find_if(pairs_.begin(), pairs_.end(), [&](const PairObject& other) {
    return other.handle.qp_num == pair.peer && other.peer == pair.handle.qp_num &&
           other.handle.state != IBV_QPS_ERR;
  });
  const std::size_t bytes = request.piece.length;
  const bool lost = std::min<std::size_t>(bytes, bytes_of(pair.mtu)) > most_passed_;
  if (lost || to == pairs_.end() || cut_.contains(device(pair)) || cut_.contains(device(*to))) {
    status = IBV_WC_RETRY_EXC_ERR;
    return true;
  }
  const bool message = request.opcode == IBV_WR_SEND || request.opcode == IBV_WR_SEND_WITH_IMM;
  if (message) return deliver(pair, *to, request);
  const bool read = request.opcode == IBV_WR_RDMA_READ;
  std::byte* local = memory(pair.handle.pd, request.piece.lkey, request.piece.addr, bytes,
                            read ? IBV_ACCESS_LOCAL_WRITE : 0);
  if (local == nullptr) misused("a request's own memory is not registered");
  const unsigned needed = read ? IBV_ACCESS_REMOTE_READ : IBV_ACCESS_REMOTE_WRITE;
  std::byte* remote = memory(to->handle.pd, request.key, request.remote, bytes, needed);
  if (remote == nullptr || (to->access & needed) == 0) {
    status = IBV_WC_REM_ACCESS_ERR;
    break_off(*to);  // who refuses goes into error too
    return true;
  }
  std::memcpy(read ? local : remote, read ? remote : local, bytes);
  return true;
}

bool FakeVerbs::deliver(PairObject& from, PairObject& to, const Request& request) {
  if (to.receives.empty()) return false;
  const ibv_recv_wr receive = to.receives.front();
  const std::vector<ibv_sge> pieces = std::move(to.pieces.front());
  to.receives.pop_front();
  to.pieces.pop_front();
  const std::size_t bytes = request.piece.length;
  const std::byte* source = request.content.empty() ? memory(from.handle.pd, request.piece.lkey,
                                                             request.piece.addr, bytes, 0)
                                                    : request.content.data();
  std::size_t done = 0;
  for (const ibv_sge& piece : pieces) {
    const std::size_t part = std::min<std::size_t>(bytes - done, piece.length);
    if (part == 0) break;
    std::byte* target = memory(to.handle.pd, piece.lkey, piece.addr, part, IBV_ACCESS_LOCAL_WRITE);
    if (target == nullptr || source == nullptr) misused("a message's own memory");
    std::memcpy(target, source + done, part);
    done += part;
  }
  if (done < bytes) misused("a message is longer than what it is received in");
  complete(to, receive.wr_id, IBV_WC_SUCCESS, static_cast<std::uint32_t>(bytes), true,
           request.opcode == IBV_WR_SEND_WITH_IMM);
  return true;
}

}  // namespace tally::transport::verbs
