#include "dataplane/transport/verbs/verbs_transport.h"

#include <fmt/format.h>
#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

namespace tally::transport::verbs {
namespace {

constexpr std::size_t kBurst = 64;
constexpr int kMostBursts = 16;

}  // namespace

std::uint64_t VerbsTransport::work_id(Work work, Peer peer, std::uint32_t index) {
  return static_cast<std::uint64_t>(work) << 62 | std::uint64_t{peer} << 32 | index;
}

// -- what goes out -------------------------------------------------------------------------------

// Requests of the current burst count already, although flush() posts them at its end.
bool VerbsTransport::has_room(const Connected& session) const {
  return session.sends < session.pair.sizes().sends;
}

ibv_send_wr& VerbsTransport::next_in_batch(std::uint64_t id, std::byte* data, std::size_t bytes,
                                           std::uint32_t key) {
  pieces_.push_back(
      {reinterpret_cast<std::uintptr_t>(data), static_cast<std::uint32_t>(bytes), key});
  ibv_send_wr request{};
  request.wr_id = id;
  request.num_sge = 1;
  batch_.push_back(request);
  return batch_.back();
}

// Returns false when the operation cannot start yet: the queue is full, as many READs are under way
// as the peer answers, or there is no room for a copy.
bool VerbsTransport::start(Session& session, Operation& operation) {
  Connected& to = connected(session);
  const bool read = operation.kind == Kind::kPull;
  if (!has_room(to) || (read && to.reads >= to.pair.reads_out())) return false;
  const auto memory = known(operation);
  if (!memory) return false;
  const std::uint32_t key = (*memory == Known::kTiles ? tiles_key_ : landing_key_)->lkey;
  ibv_send_wr& request = next_in_batch(work_id(Work::kOperation, operation.peer, operation.index),
                                       operation.local, operation.bytes, key);
  request.opcode = read ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE;
  request.wr.rdma.remote_addr = operation.remote.address;
  request.wr.rdma.rkey = static_cast<std::uint32_t>(operation.remote.key);
  ++to.sends;
  to.reads += read ? 1 : 0;
  return true;
}

bool VerbsTransport::send(Session& session, const RingEntry& message) {
  Connected& to = connected(session);
  if (!has_room(to) || to.free_sends.empty()) return false;
  const std::uint32_t index = to.free_sends.back();
  to.free_sends.pop_back();
  RingEntry& entry = to.messages[index];
  entry = message;
  ibv_send_wr& request = next_in_batch(work_id(Work::kSend, to.peer, index), entry.bytes,
                                       sizeof entry.bytes, to.registered->lkey);
  request.opcode = IBV_WR_SEND;
  request.send_flags = to.pair.can_inline() ? IBV_SEND_INLINE : 0;
  ++to.sends;
  return true;
}

// The connection delivers the completion after the bytes, also when these are not acknowledged yet.
bool VerbsTransport::take_eagerly(Session& session, const Push& push) {
  return push.landing.operation_bytes <= kEagerBytes && eager_write(session, push);
}

void VerbsTransport::flush(Session& session) {
  for (std::size_t i = 0; i < batch_.size(); ++i) {
    batch_[i].sg_list = &pieces_[i];
    batch_[i].next = i + 1 < batch_.size() ? &batch_[i + 1] : nullptr;
  }
  if (!batch_.empty()) {
    const ibv_send_wr* unposted = nullptr;
    const int error = connected(session).pair.send(batch_.data(), &unposted);
    if (error != 0) session.refuse(fmt::format("cannot post: {}", std::strerror(error)));
    for (; unposted != nullptr; unposted = unposted->next) --connected(session).sends;
  }
  batch_.clear();
  pieces_.clear();
}

// -- what comes in -------------------------------------------------------------------------------

std::size_t VerbsTransport::poll() {
  std::size_t total = 0;
  for (SharedQueue* queue : queues_) total += poll(*queue->entries.get());
  return total;
}

std::size_t VerbsTransport::poll(ibv_cq& queue) {
  std::array<ibv_wc, kBurst> completions;
  std::size_t total = 0;
  for (int burst = 0; burst < kMostBursts; ++burst) {
    const int count = device_.api().poll_cq(&queue, static_cast<int>(kBurst), completions.data());
    if (count <= 0) break;
    total += static_cast<std::size_t>(count);
    for (const ibv_wc& completion : std::span(completions).first(static_cast<std::size_t>(count))) {
      on_completion(completion);
    }
  }
  return total;
}

void VerbsTransport::on_completion(const ibv_wc& completion) {
  const auto work = static_cast<Work>(completion.wr_id >> 62);
  const auto peer = static_cast<Peer>((completion.wr_id >> 32) & ((1U << 30) - 1));
  const auto index = static_cast<std::uint32_t>(completion.wr_id);
  // Ignores completions of a connection that has ended.
  if (sessions().attached(peer) == nullptr) return;
  Connected& session = connected(*sessions().attached(peer));
  if (!session.pair || session.pair.number() != completion.qp_num) return;
  const bool fine = completion.status == IBV_WC_SUCCESS;
  if (!fine) session.refuse(to_text(completion.status));
  switch (work) {
    case Work::kReceive:
      if (fine) on_received(session, index, completion);
      break;
    case Work::kSend:
      --session.sends;
      session.free_sends.push_back(index);
      break;
    case Work::kOperation: {
      Operation& done = operation(index);
      --session.sends;
      session.reads -= done.kind == Kind::kPull ? 1 : 0;
      end(done, fine ? Status::kOk : Status::kPeerLost);
      break;
    }
  }
}

// With a probe or an empty message, a client finds out whether the connection still stands.
void VerbsTransport::on_received(Connected& session, std::uint32_t index,
                                 const ibv_wc& completion) {
  if (session.broken) return;
  const std::uint32_t bytes = completion.byte_len;
  const bool probe = (completion.wc_flags & IBV_WC_WITH_IMM) != 0 || bytes == 0;
  if (!probe && bytes >= sizeof(RingEntry) && bytes <= sizeof(RingEntry) + kEagerBytes) {
    const auto contribution = behind(session, index).first(bytes - sizeof(RingEntry));
    on_notice(session, session.peer, session.messages[index], contribution, session.memory);
  } else if (!probe) {
    return session.refuse(fmt::format("it sent a message of {} bytes", bytes));
  }
  const std::uint64_t id = work_id(Work::kReceive, session.peer, index);
  if (const int error = post_receive(session, id, index); error != 0) {
    session.refuse(fmt::format("cannot post a receive: {}", std::strerror(error)));
  }
}

bool VerbsTransport::may_sleep() {
  take_events();
  while (device_.api().get_cq_event(&connector_->channel()) == 0) continue;
  for (SharedQueue* queue : queues_) device_.api().req_notify_cq(queue->entries.get());
  return poll() == 0;
}

// -- the device ----------------------------------------------------------------------------------

std::size_t VerbsTransport::lost(std::span<Peer> out) {
  take_events();
  return onesided::OneSidedTransport::lost(out);
}

void VerbsTransport::take_events() {
  ibv_async_event event{};
  while (!dead_ && device_.api().get_async_event(&device_.context(), &event) == 0) {
    on_event(event);
    device_.api().ack_async_event(&event);
  }
}

// An event of a queue pair concerns its session. An event of the completion queue or the device
// concerns all sessions.
void VerbsTransport::on_event(const ibv_async_event& event) {
  switch (event.event_type) {
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
      for (const auto& session : sessions().all()) {
        if (session == nullptr || !connected(*session).pair) continue;
        const bool meant = connected(*session).pair.number() == event.element.qp->qp_num;
        if (meant) session->refuse("its connection failed (an event of the device)");
      }
      return;
    case IBV_EVENT_CQ_ERR:
    case IBV_EVENT_DEVICE_FATAL:
      dead_ = true;
      // The device reports nothing more, but its descriptors may stay readable for ever.
      ::epoll_ctl(epoll(), EPOLL_CTL_DEL, device_.event_fd(), nullptr);
      ::epoll_ctl(epoll(), EPOLL_CTL_DEL, connector_->channel().fd, nullptr);
      for (const auto& session : sessions().all()) {
        if (session == nullptr) continue;
        session->refuse(fmt::format("the node's RDMA device {} failed", choice().device));
      }
      return;
    default:
      return;  // a port goes down or comes back: the connections' own retries decide
  }
}

}  // namespace tally::transport::verbs
