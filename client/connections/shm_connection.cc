#include "client/connections/shm_connection.h"

#include <fmt/format.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "base/system/peer_process.h"

namespace tally::client {
namespace {

namespace shm = transport::shm;

Error failed(const char* what) {
  return Error{Status::kNoMemory, fmt::format("{}: {}", what, std::strerror(errno))};
}

}  // namespace

Result<std::unique_ptr<ShmConnection>> ShmConnection::make(const shm::SegmentGeometry& geometry,
                                                           int watch) {
  auto made = std::make_unique<ShmConnection>();
  ShmConnection& connection = *made;
  auto memory = shm::make_shared("tally-session", geometry.bytes());
  if (!memory) return memory.error();
  connection.memory_ = std::move(memory).value();
  connection.segment_ = shm::Segment(connection.memory_.mapping.data(), geometry);
  auto events = SessionEvents::make(watch);
  if (!events) return events.error();
  connection.events_ = std::move(events).value();
  connection.node_ = process_behind(watch);
  for (std::uint32_t i = 0; i < geometry.shards; ++i) {
    int pair[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) != 0) {
      return failed("a doorbell for a session");
    }
    Shard shard;
    shard.notices =
        RingProducer(connection.segment_.block(i).notices, connection.segment_.notice_entries(i));
    shard.completions = RingConsumer(connection.segment_.block(i).completions,
                                     connection.segment_.completion_entries(i));
    shard.doorbell = UniqueFd(pair[0]);
    connection.node_ends_.emplace_back(pair[1]);
    if (!connection.events_.add(pair[0], EPOLLIN | EPOLLRDHUP, i)) {
      return failed("a doorbell for a session");
    }
    connection.shards_.push_back(std::move(shard));
  }
  return made;
}

std::vector<int> ShmConnection::node_fds() const {
  std::vector<int> fds{memory_.fd.get()};
  for (const UniqueFd& end : node_ends_) fds.push_back(end.get());
  return fds;
}

bool ShmConnection::send(std::uint32_t shard, const wire::Notice& notice,
                         std::span<const std::byte>) {
  return send_message(shard, wire::encode(notice));
}

bool ShmConnection::send_message(std::uint32_t shard, const RingEntry& message) {
  if (!shards_[shard].notices.push(message)) return false;
  if (shm::ring_needed(segment_.block(shard).shard_sleeps)) {
    const char byte = 0;
    // When the socket is full, the shard has been woken. When it is broken, read_events() finds
    // out.
    static_cast<void>(::send(shards_[shard].doorbell.get(), &byte, 1, MSG_DONTWAIT | MSG_NOSIGNAL));
  }
  return true;
}

std::size_t ShmConnection::receive(std::uint32_t shard, std::span<RingEntry> out) {
  return shards_[shard].completions.pop(out);
}

Result<Connection::Offer> ShmConnection::offer(const Region& region) {
  return Offer{{{"bytes", region.node_bytes()}}, {region.fd()}};
}

bool ShmConnection::broken() const {
  return std::any_of(shards_.begin(), shards_.end(),
                     [](const Shard& shard) { return shard.completions.broken(); });
}

bool ShmConnection::arm(Nanos until) {
  events_.set_alarm(until);
  bool empty = true;
  for (std::uint32_t i = 0; i < shards(); ++i) {
    shm::fall_asleep(segment_.block(i).client_sleeps);
    empty &= shards_[i].completions.empty();
  }
  return empty;
}

void ShmConnection::disarm() {
  for (std::uint32_t i = 0; i < shards(); ++i) shm::wake_up(segment_.block(i).client_sleeps);
}

bool ShmConnection::read_events() {
  const bool ended = events_.read([this](std::uint32_t shard) {
    std::array<char, 64> bytes;
    const ssize_t got =
        ::recv(shards_[shard].doorbell.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    broken_ |= !(got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR)));
  });
  return ended || broken_;
}

void ShmConnection::hang_up() {
  events_.forget_all();
  for (Shard& shard : shards_) shard.doorbell.reset();
}

// The client's half of the fence: it sets the fence, then reads storing. The node's half is in
// dataplane/transport/shm/shm_transport.cc.
bool ShmConnection::fence(Nanos deadline) {
  segment_.header().fence.store(1, std::memory_order_seq_cst);
  for (std::uint32_t i = 0; i < shards(); ++i) {
    while (segment_.block(i).storing.load(std::memory_order_seq_cst) != 0) {
      if (has_ended(node_.get())) return true;  // a process that has ended does not store
      if (monotonic_now() >= deadline) return false;
      ::sched_yield();
    }
  }
  return true;
}

}  // namespace tally::client
