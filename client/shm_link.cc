#include "client/shm_link.h"

#include <fmt/format.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "base/peer_process.h"

namespace tally::client {
namespace {

namespace shm = transport::shm;

Error failed(const char* what) {
  return Error{Status::kNoMemory, fmt::format("{}: {}", what, std::strerror(errno))};
}

}  // namespace

Result<std::unique_ptr<ShmLink>> ShmLink::make(const shm::SegmentGeometry& geometry, int watch) {
  auto made = std::make_unique<ShmLink>();
  ShmLink& link = *made;
  auto memory = shm::make_shared("tally-session", geometry.bytes());
  if (!memory) return memory.error();
  link.memory_ = std::move(memory).value();
  link.segment_ = shm::Segment(link.memory_.mapping.data(), geometry);
  auto events = SessionEvents::make(watch);
  if (!events) return events.error();
  link.events_ = std::move(events).value();
  link.node_ = process_behind(watch);
  for (std::uint32_t i = 0; i < geometry.shards; ++i) {
    int pair[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) != 0) {
      return failed("a doorbell for a session");
    }
    Shard shard;
    shard.notices = RingProducer(link.segment_.block(i).notices, link.segment_.notice_slots(i));
    shard.completions =
        RingConsumer(link.segment_.block(i).completions, link.segment_.completion_slots(i));
    shard.doorbell = UniqueFd(pair[0]);
    link.node_ends_.emplace_back(pair[1]);
    if (!link.events_.add(pair[0], EPOLLIN | EPOLLRDHUP, i)) {
      return failed("a doorbell for a session");
    }
    link.shards_.push_back(std::move(shard));
  }
  return made;
}

std::vector<int> ShmLink::node_fds() const {
  std::vector<int> fds{memory_.fd.get()};
  for (const UniqueFd& end : node_ends_) fds.push_back(end.get());
  return fds;
}

bool ShmLink::send(std::uint32_t shard, const wire::Notice& notice, std::span<const std::byte>) {
  return send_message(shard, wire::encode(notice));
}

bool ShmLink::send_message(std::uint32_t shard, const RingSlot& message) {
  if (!shards_[shard].notices.push(message)) return false;
  if (shm::ring_needed(segment_.block(shard).shard_sleeps)) {
    const char byte = 0;
    // Full: the shard has been woken. Broken: hear() finds out.
    static_cast<void>(::send(shards_[shard].doorbell.get(), &byte, 1, MSG_DONTWAIT | MSG_NOSIGNAL));
  }
  return true;
}

std::size_t ShmLink::receive(std::uint32_t shard, std::span<RingSlot> out) {
  return shards_[shard].completions.pop(out);
}

Result<Link::Offer> ShmLink::offer(const Region& region) {
  return Offer{{{"bytes", region.node_bytes()}}, {region.fd()}};
}

bool ShmLink::broken() const {
  return std::any_of(shards_.begin(), shards_.end(),
                     [](const Shard& shard) { return shard.completions.broken(); });
}

bool ShmLink::arm(Nanos until) {
  events_.set_alarm(until);
  bool empty = true;
  for (std::uint32_t i = 0; i < shards(); ++i) {
    shm::fall_asleep(segment_.block(i).client_sleeps);
    empty &= shards_[i].completions.empty();
  }
  return empty;
}

void ShmLink::disarm() {
  for (std::uint32_t i = 0; i < shards(); ++i) shm::wake_up(segment_.block(i).client_sleeps);
}

bool ShmLink::hear() {
  const bool ended = events_.hear([this](std::uint32_t shard) {
    std::array<char, 64> bytes;
    const ssize_t got =
        ::recv(shards_[shard].doorbell.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    broken_ |= !(got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR)));
  });
  return ended || broken_;
}

void ShmLink::hang_up() {
  events_.forget_all();
  for (Shard& shard : shards_) shard.doorbell.reset();
}

// The client's half: the fence is set, then storing is read (transport/shm/port.cc has the other).
bool ShmLink::fence(Nanos deadline) {
  segment_.header().fence.store(1, std::memory_order_seq_cst);
  for (std::uint32_t i = 0; i < shards(); ++i) {
    while (segment_.block(i).storing.load(std::memory_order_seq_cst) != 0) {
      if (has_ended(node_.get())) return true;  // the dead do not store
      if (monotonic_now() >= deadline) return false;
      ::sched_yield();
    }
  }
  return true;
}

}  // namespace tally::client
