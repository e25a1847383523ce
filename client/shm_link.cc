#include "client/shm_link.h"

#include <fmt/format.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "base/peer_process.h"

namespace tally::client {
namespace {

namespace shm = transport::shm;

constexpr std::uint32_t kWatch = UINT32_MAX;  // the watched descriptor, as epoll data
constexpr std::uint32_t kTimer = UINT32_MAX - 1;

Error failed(const char* what) {
  return Error{Status::kNoMemory, fmt::format("{}: {}", what, std::strerror(errno))};
}

bool watch_fd(int epoll, int fd, std::uint32_t events, std::uint32_t data) {
  epoll_event event{};
  event.events = events;
  event.data.u32 = data;
  return ::epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0;
}

}  // namespace

Result<std::unique_ptr<ShmLink>> ShmLink::make(const shm::SegmentGeometry& geometry, int watch) {
  auto made = std::make_unique<ShmLink>();
  ShmLink& link = *made;
  auto memory = shm::make_shared("tally-session", geometry.bytes());
  if (!memory) return memory.error();
  link.memory_ = std::move(memory).value();
  link.segment_ = shm::Segment(link.memory_.mapping.data(), geometry);
  link.epoll_ = UniqueFd(::epoll_create1(EPOLL_CLOEXEC));
  if (!link.epoll_) return failed("epoll for a session");
  link.timer_ = UniqueFd(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  if (!link.timer_ || !watch_fd(link.epoll_.get(), link.timer_.get(), EPOLLIN, kTimer)) {
    return failed("a timer for a session");
  }
  link.node_ = process_behind(watch);
  link.watch_ = watch;
  // The control connection is read elsewhere: only its end is news here.
  if (!watch_fd(link.epoll_.get(), watch, EPOLLRDHUP, kWatch)) return failed("epoll for a session");
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
    if (!watch_fd(link.epoll_.get(), pair[0], EPOLLIN | EPOLLRDHUP, i)) {
      return failed("epoll for a session");
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

bool ShmLink::send(std::uint32_t shard, const wire::Notice& notice) {
  if (!shards_[shard].notices.push(wire::encode(notice))) return false;
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
  itimerspec when{};  // all zero: none
  if (until != kForever) when.it_value = {until / kSecond, until % kSecond};
  ::timerfd_settime(timer_.get(), TFD_TIMER_ABSTIME, &when, nullptr);
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
  std::array<epoll_event, 16> events;
  const int count = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), 0);
  for (int i = 0; i < count; ++i) {
    const epoll_event& event = events[static_cast<std::size_t>(i)];
    if (event.data.u32 == kWatch) {
      gone_ = true;  // only hang-ups are watched there
      continue;
    }
    if (event.data.u32 == kTimer) {
      std::uint64_t ticks = 0;
      static_cast<void>(!::read(timer_.get(), &ticks, sizeof ticks));
      continue;
    }
    std::array<char, 64> bytes;
    const ssize_t got =
        ::recv(shards_[event.data.u32].doorbell.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    gone_ |= !(got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR)));
  }
  return gone_;
}

void ShmLink::hang_up() {
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, watch_, nullptr);
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
