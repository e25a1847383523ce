// The port's beginning and end, and who comes and goes.
#include <fmt/format.h>
#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "base/epoll.h"
#include "dataplane/transport/verbs/port.h"

namespace tally::transport::verbs {
namespace {

// Work of a session that the adapter has at a time: the READs that it takes, as many WRITEs, and
// completions in between. One less than a power of two: queues are rounded up to more than that.
constexpr std::uint32_t kSends = 31;
constexpr std::uint32_t kMessages = 8;  // of the sends
// That a completion queue has room for, at first and at most: with the usual credit some entries
// less than a power of two, to which devices round up.
constexpr std::size_t kFirstSessions = 14;
constexpr std::size_t kMostSessions = 64 * kFirstSessions;
// What is sent behind notices is used where it has been received.
constexpr std::size_t kNothingCopied = onesided::LandingMemory::kAlignment;
constexpr Nanos kDrain = 200 * kMillisecond;

}  // namespace

Result<std::unique_ptr<Port>> Port::open(Api& api, const PortOptions& options) {
  auto device = Device::open(api, options.device);
  if (!device) return device.error();
  std::unique_ptr<Port> port(new Port(std::move(device).value(), options));
  if (auto made = port->make_channel(); !made) return made.error();
  if (auto registered = port->register_memory(options); !registered) return registered.error();
  return port;
}

Port::Port(std::unique_ptr<Device> device, const PortOptions& options)
    : onesided::Port(options.landing_bytes, kNothingCopied),
      device_(std::move(device)),
      sizes_{kSends, (options.credit + kEagerSlots - 1) / kEagerSlots * kEagerSlots, 2},
      tiles_(options.tiles) {
  batch_.reserve(kSends);
  pieces_.reserve(kSends);
}

// Queue pairs go before what they refer to.
Port::~Port() {
  for (Peer peer = 0; peer < all_sessions().size(); ++peer) detach(peer);
}

Outcome Port::make_channel() {
  Api& api = device_->api();
  channel_ = CompletionChannel(api, api.create_comp_channel(&device_->context()));
  if (!channel_) {
    return Error{Status::kNoMemory, fmt::format("a completion channel on {}: {}", choice().device,
                                                std::strerror(errno))};
  }
  set_nonblocking(channel_->fd);
  if (auto first = another_queue(); !first) return first.error();
  if (!tally::watch(epoll(), channel_->fd, EPOLLIN) ||
      !tally::watch(epoll(), device_->event_fd(), EPOLLIN)) {
    return Error{Status::kNoMemory, "no descriptor left to watch an RDMA device"};
  }
  return Unit{};
}

Outcome Port::register_memory(const PortOptions& options) {
  const std::span<std::byte> landed = landing().memory();
  auto key = device_->expose(landed.data(), landed.size(), kForItself);
  if (!key) return key.error();
  landing_key_ = std::move(key).value();
  if (options.tiles.empty()) return Unit{};
  key = device_->expose(options.tiles.data(), options.tiles.size(), kForItself);
  if (!key) return key.error();
  tiles_key_ = std::move(key).value();
  return Unit{};
}

// All that so many sessions can have posted.
int Port::entries(std::size_t sessions) const {
  return static_cast<int>(sessions * (sizes_.sends + sizes_.receives));
}

// A queue grows as sessions come, to as much as a poll of it is worth.
Result<Port::Queue*> Port::queue_with_room() {
  for (const auto& queue : queues_) {
    if (queue->sessions < queue->room || grow(*queue)) return queue.get();
  }
  return another_queue();
}

bool Port::grow(Queue& queue) {
  const std::size_t wanted = 2 * queue.room;
  const bool may = wanted <= kMostSessions &&
                   static_cast<std::uint32_t>(entries(wanted)) <= choice().max_cqe &&
                   device_->api().resize_cq(queue.entries.get(), entries(wanted)) == 0;
  if (may) queue.room = wanted;
  return may;
}

Result<Port::Queue*> Port::another_queue() {
  Api& api = device_->api();
  auto queue = std::make_unique<Queue>();
  queue->room = kFirstSessions;
  const int wanted = entries(queue->room);
  queue->entries = CompletionQueue(api, api.create_cq(&device_->context(), wanted, channel_.get()));
  if (!queue->entries) {
    return Error{Status::kNoMemory,
                 fmt::format("a completion queue of {} entries on {} (it has {} of them at most), "
                             "for {} sessions beside {}: {}",
                             wanted, choice().device, choice().max_cqe, queue->room, sessions(),
                             std::strerror(errno))};
  }
  return queues_.emplace_back(std::move(queue)).get();
}

Result<Address> Port::attach(Peer peer, const Address& client) {
  if (dead_) {
    return Error{
        Status::kUnsupported,
        fmt::format("the node's RDMA device {} failed: start the node again", choice().device)};
  }
  auto queue = queue_with_room();
  if (!queue) return queue.error();
  auto session = std::make_unique<Connected>();
  Connected& made = *session;
  made.peer = peer;
  made.queue = *queue;
  ++made.queue->sessions;
  add(peer, std::move(session));
  if (auto done = connect(made, client); !done) {
    detach(peer);
    return done.error();
  }
  return made.pair.address();
}

Outcome Port::connect(Connected& session, const Address& client) {
  auto pair = QueuePair::make(*device_, *session.queue->entries.get(), sizes_, sizeof(RingSlot));
  if (!pair) return pair.error();
  session.pair = std::move(pair).value();
  const std::uint32_t receives = session.pair.sizes().receives / kEagerSlots * kEagerSlots;
  session.messages.resize(receives + kMessages + kEagerSlots * kEagerBytes / sizeof(RingSlot));
  for (std::uint32_t i = 0; i < kMessages; ++i) session.free_sends.push_back(receives + i);
  auto registered = device_->expose(session.messages.data(),
                                    session.messages.size() * sizeof(RingSlot), kForItself);
  if (!registered) return registered.error();
  session.registered = std::move(registered).value();
  for (std::uint32_t i = 0; i < receives; ++i) {
    if (const int error = post_receive(session, i); error != 0) {
      return Error{Status::kNoMemory, fmt::format("a receive: {}", std::strerror(error))};
    }
  }
  return session.pair.connect(client);
}

// In the order in which messages come, and as many as a multiple of the pieces: so a message's
// number on the connection says which one it has.
std::span<std::byte> Port::behind(Connected& session, std::uint32_t index) {
  const std::span<RingSlot> all = session.messages;
  return std::as_writable_bytes(all.last(kEagerSlots * kEagerBytes / sizeof(RingSlot)))
      .subspan(index % kEagerSlots * kEagerBytes, kEagerBytes);
}

int Port::post_receive(Connected& session, std::uint32_t index) {
  const RingSlot& slot = session.messages[index];
  const std::uint32_t key = session.registered->lkey;
  std::array<ibv_sge, 2> pieces{
      {{reinterpret_cast<std::uintptr_t>(slot.bytes), sizeof slot.bytes, key},
       {reinterpret_cast<std::uintptr_t>(behind(session, index).data()), kEagerBytes, key}}};
  ibv_recv_wr request{};
  request.wr_id = work_id(Work::kReceive, session.peer, index);
  request.sg_list = pieces.data();
  request.num_sge = static_cast<int>(pieces.size());
  const int error = session.pair.receive(&request);
  session.receives += error == 0 ? 1 : 0;
  return error;
}

// What the adapter has ends in the completion queue; a device that is gone says nothing any more.
// That the queue pair has been destroyed is what counts.
void Port::drain(Connected& session) {
  session.broken = true;
  if (!session.pair) return;
  session.pair.abort();
  const Nanos until = monotonic_now() + kDrain;
  while (!dead_ && session.sends + session.receives > 0 && monotonic_now() < until) poll();
  session.pair = QueuePair();
}

void Port::detach(Peer peer) {
  if (attached(peer) == nullptr) return;
  Connected& session = connected(*attached(peer));
  drain(session);
  --session.queue->sessions;
  remove(peer);
}

}  // namespace tally::transport::verbs
