#include "dataplane/transport/verbs/connector.h"

#include <fmt/format.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "base/system/fd.h"

namespace tally::transport::verbs {
namespace {

constexpr std::uint32_t kMessages = 8;  // entries of Connection::messages for sends
static_assert(kProbeBytes <= sizeof(RingEntry) + kEagerPieces * kEagerBytes);
// The number of usual connections that a new completion queue has room for. With the usual credit
// they have some entries less than a power of two, to which devices round up. A queue grows to at
// most kMostGrowth times its first size.
constexpr std::size_t kFirstSessions = 14;
constexpr std::size_t kMostGrowth = 64;

// Returns how many work requests a connection can have posted at most.
std::size_t entries_of(const QueueSizes& sizes) {
  return std::size_t{sizes.sends} + sizes.receives;
}

}  // namespace

Result<std::shared_ptr<Connector>> Connector::open(Api& api, const DeviceOptions& options,
                                                   const QueueSizes& usual) {
  auto device = Device::open(api, options);
  if (!device) return device.error();
  std::shared_ptr<Connector> made(
      new Connector(std::move(device).value(), kFirstSessions * entries_of(usual)));
  made->channel_ = CompletionChannel(api, api.create_comp_channel(&made->device_->context()));
  if (!made->channel_) {
    return Error{Status::kNoMemory, fmt::format("a completion channel on {}: {}",
                                                made->choice().device, std::strerror(errno))};
  }
  set_nonblocking(made->channel_->fd);
  if (auto first = made->another_queue(); !first) return first.error();
  return made;
}

Result<std::shared_ptr<SharedQueue>> Connector::take_place(std::size_t entries) {
  const std::lock_guard lock(mutex_);
  auto queue = queue_with_room(entries);
  if (!queue) return queue.error();
  (*queue)->taken += entries;
  return std::shared_ptr<SharedQueue>(
      *queue, [self = shared_from_this(), entries](SharedQueue* from) { from->taken -= entries; });
}

// A queue grows as connections come, up to kMostGrowth times its first size. Further connections
// get another queue.
Result<SharedQueue*> Connector::queue_with_room(std::size_t entries) {
  for (const auto& queue : queues_) {
    if (queue->taken + entries <= queue->room || grow(*queue)) return queue.get();
  }
  return another_queue();
}

bool Connector::grow(SharedQueue& queue) {
  const std::size_t wanted = 2 * queue.room;
  const bool may = wanted <= kMostGrowth * first_entries_ && wanted <= choice().max_cqe &&
                   device_->api().resize_cq(queue.entries.get(), static_cast<int>(wanted)) == 0;
  if (may) queue.room = wanted;
  return may;
}

Result<SharedQueue*> Connector::another_queue() {
  Api& api = device_->api();
  auto queue = std::make_unique<SharedQueue>();
  queue->room = first_entries_;
  queue->entries = CompletionQueue(
      api, api.create_cq(&device_->context(), static_cast<int>(queue->room), channel_.get()));
  if (!queue->entries) {
    const int error = errno;
    std::size_t room = 0;
    for (const auto& other : queues_) room += other->room;
    return Error{Status::kNoMemory,
                 fmt::format("a completion queue of {} entries on {} (it has {} of them at most), "
                             "beside {} with room for {}: {}",
                             queue->room, choice().device, choice().max_cqe, queues_.size(), room,
                             why_not_made(error))};
  }
  return queues_.emplace_back(std::move(queue)).get();
}

Result<Connection> Connector::connect(std::uint64_t first_receive, const QueueSizes& sizes,
                                      const Address& client) {
  Connection made;
  auto place = take_place(entries_of(sizes));
  if (!place) return place.error();
  made.place = std::move(place).value();
  auto pair = QueuePair::make(*device_, *made.place->entries.get(), sizes, sizeof(RingEntry),
                              kWorkersAccess);
  if (!pair) return pair.error();
  made.pair = std::move(pair).value();
  const std::uint32_t receives = made.receives();
  const std::size_t messages = receives + kMessages + kEagerArea;
  made.memory.reset(new RingEntry[messages]{});
  made.messages = {made.memory.get(), messages};
  auto registered =
      device_->expose(made.messages.data(), made.messages.size() * sizeof(RingEntry), kForItself);
  if (!registered) return registered.error();
  made.registered = std::move(registered).value();
  for (std::uint32_t i = 0; i < receives; ++i) {
    // The first message may be a probe, which may use all pieces: no other message uses them yet.
    const std::uint32_t bytes = i == 0 ? kEagerPieces * kEagerBytes : kEagerBytes;
    if (const int error = post_receive(made, first_receive + i, i, bytes); error != 0) {
      return Error{Status::kNoMemory, fmt::format("a receive: {}", std::strerror(error))};
    }
  }
  if (auto connected = made.pair.connect(client); !connected) return connected.error();
  return made;
}

std::span<std::byte> behind(Connection& connection, std::uint32_t index) {
  const std::span<RingEntry> all = connection.messages;
  return std::as_writable_bytes(all.last(kEagerArea))
      .subspan(index % kEagerPieces * kEagerBytes, kEagerBytes);
}

int post_receive(Connection& connection, std::uint64_t number, std::uint32_t index,
                 std::uint32_t behind_bytes) {
  const RingEntry& entry = connection.messages[index];
  const std::uint32_t key = connection.registered->lkey;
  std::array<ibv_sge, 2> pieces{
      {{reinterpret_cast<std::uintptr_t>(entry.bytes), sizeof entry.bytes, key},
       {reinterpret_cast<std::uintptr_t>(behind(connection, index).data()), behind_bytes, key}}};
  ibv_recv_wr request{};
  request.wr_id = number;
  request.sg_list = pieces.data();
  request.num_sge = static_cast<int>(pieces.size());
  return connection.pair.receive(&request);
}

}  // namespace tally::transport::verbs
