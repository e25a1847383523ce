#include "dataplane/transport/shm/port.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <system_error>

#include "base/epoll.h"
#include "dataplane/transport/answers.h"

namespace tally::transport::shm {
namespace {

constexpr std::size_t kBurst = 32;

void ring(int doorbell) {
  const char byte = 0;
  // A full socket has woken the peer already, a broken one is found by lost(): the result says
  // nothing new. Never blocks, never raises SIGPIPE.
  static_cast<void>(::send(doorbell, &byte, 1, MSG_DONTWAIT | MSG_NOSIGNAL));
}

}  // namespace

Port::Port(std::size_t max_pulls) : epoll_(::epoll_create1(EPOLL_CLOEXEC)), views_(max_pulls) {
  if (!epoll_) throw std::system_error(errno, std::generic_category(), "epoll for a shard");
  free_views_.reserve(max_pulls);
  for (auto i = static_cast<std::uint32_t>(max_pulls); i-- > 0;) free_views_.push_back(i);
  pulled_.reserve(max_pulls);
  pushed_.reserve(max_pulls);
}

void Port::attach(Peer peer, const Segment& segment, std::uint32_t ring, UniqueFd doorbell,
                  const FaultWord& faulted) {
  if (peer >= sessions_.size()) sessions_.resize(peer + 1);
  Session& session = sessions_[peer];
  session = Session{};
  session.attached = true;
  session.attachment = ++attachments_;
  session.header = &segment.header();
  session.faulted = &faulted;
  session.block = &segment.block(ring);
  session.notices = RingConsumer(session.block->notices, segment.notice_slots(ring));
  session.completions = RingProducer(session.block->completions, segment.completion_slots(ring));
  session.doorbell = std::move(doorbell);
  session.regions.resize(1);
  attached_.push_back(peer);
  if (!watch(epoll_.get(), session.doorbell.get(), EPOLLIN | EPOLLRDHUP, peer)) {
    session.broken = true;  // a descriptor that cannot be watched is no doorbell
  }
}

UniqueFd Port::detach(Peer peer) {
  if (peer >= sessions_.size() || !sessions_[peer].attached) return UniqueFd();
  UniqueFd doorbell = std::move(sessions_[peer].doorbell);
  // Closing alone would not take the doorbell out of the epoll set if the peer kept a duplicate.
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, doorbell.get(), nullptr);
  sessions_[peer] = Session{};
  std::erase(attached_, peer);
  return doorbell;
}

void Port::add_region(Peer peer, std::uint32_t region, std::byte* data, std::uint64_t bytes) {
  if (peer >= sessions_.size() || !sessions_[peer].attached) return;
  auto& regions = sessions_[peer].regions;
  if (region >= regions.size()) regions.resize(region + 1);
  regions[region] = Region{data, bytes};
}

bool Port::remove_region(Peer peer, std::uint32_t region) {
  if (peer >= sessions_.size() || region >= sessions_[peer].regions.size()) return true;
  Region& removed = sessions_[peer].regions[region];
  removed.data = nullptr;
  removed.bytes = 0;
  return removed.views == 0;
}

std::byte* Port::at(const Range& range) const {
  if (!serves(range.peer)) return nullptr;
  const auto& regions = sessions_[range.peer].regions;
  if (range.region >= regions.size()) return nullptr;
  const Region& region = regions[range.region];
  const bool inside = range.offset <= region.bytes && range.bytes <= region.bytes - range.offset;
  return inside && region.data != nullptr ? region.data + range.offset : nullptr;
}

bool Port::covers(const Range& range) const {
  return at(range) != nullptr;
}

std::size_t Port::receive(std::span<Received> out) {
  std::array<RingSlot, kBurst> slots;
  std::size_t filled = 0;
  const std::size_t sessions = attached_.size();
  for (std::size_t i = 0; i < sessions && filled < out.size(); ++i) {
    const Peer peer = attached_[(turn_ + i) % sessions];
    Session& session = sessions_[peer];
    if (session.broken) continue;
    const std::size_t room = std::min(kBurst, out.size() - filled);
    const std::size_t count = session.notices.pop(std::span(slots).first(room));
    for (std::size_t s = 0; s < count; ++s) out[filled++] = Received{peer, slots[s]};
    session.broken |= session.notices.broken();
  }
  ++turn_;
  return filled;
}

void Port::pull(std::span<const Pull> pulls) {
  for (const Pull& pull : pulls) {
    Pulled answer{pull.user, Status::kOk, {}, 0};
    const std::byte* data = at(pull.source);
    if (data == nullptr) {
      answer.status = serves(pull.source.peer) ? Status::kBadRegion : Status::kPeerLost;
    } else if (free_views_.empty()) {
      answer.status = Status::kNoMemory;
    } else {
      answer.handle = free_views_.back();
      free_views_.pop_back();
      Session& session = sessions_[pull.source.peer];
      ++session.regions[pull.source.region].views;
      Out& out = views_[answer.handle];
      out = {{data, pull.source.bytes}, pull.source.peer, pull.source.region, session.attachment};
      answer.view = View(&out.span, 1);
    }
    pulled_.push_back(answer);
  }
}

std::size_t Port::pulled(std::span<Pulled> out) {
  return take(pulled_, out);
}

// Of a session that is over nothing is counted any more; another one may have its number.
void Port::release(std::uint32_t handle) {
  const Out& out = views_[handle];
  Session& session = sessions_[out.peer];
  if (session.attachment == out.attachment) --session.regions[out.region].views;
  free_views_.push_back(handle);
}

// One half of the fence: storing is set, then the fence is read; the client sets the fence, then
// reads storing. Both sequentially consistent, so one of the two sees the other.
Peer Port::open(std::span<const Peer> peers) {
  for (std::size_t i = 0; i < peers.size(); ++i) {
    Session& session = sessions_[peers[i]];
    if (serves(peers[i])) {
      session.block->storing.store(1, std::memory_order_seq_cst);
      if (session.header->fence.load(std::memory_order_seq_cst) == 0) continue;
    }
    close(peers.first(i + 1));
    return peers[i];
  }
  return kNoPeer;
}

Peer Port::close(std::span<const Peer> peers) {
  Peer faulted = kNoPeer;
  for (const Peer peer : peers) {
    if (peer >= sessions_.size() || !sessions_[peer].attached) continue;
    // Release: the stores come before it.
    sessions_[peer].block->storing.store(0, std::memory_order_release);
    if (has_faulted(sessions_[peer])) faulted = peer;
  }
  return faulted;
}

// A fault while its memory was read or stored was on this shard's thread, hence before this.
bool Port::has_faulted(Session& session) {
  if (session.faulted->load(std::memory_order_relaxed) == 0) return false;
  session.broken = true;
  return true;
}

void Port::locate(std::span<Landing> landings) {
  for (Landing& landing : landings) landing.direct = at(landing.target);
}

// Where the kernels stored, the bytes are placed. Where they could not, the region is gone.
void Port::push(std::span<const Push> pushes) {
  for (const Push& push : pushes) {
    const bool placed = push.landing.direct != nullptr;
    pushed_.push_back(Pushed{push.user, placed ? Status::kOk : Status::kBadRegion});
  }
}

std::size_t Port::pushed(std::span<Pushed> out) {
  return take(pushed_, out);
}

void Port::complete(std::span<const Message> messages) {
  for (const Message& message : messages) {
    if (!serves(message.peer)) continue;
    Session& session = sessions_[message.peer];
    if (!session.completions.push(message.message)) session.broken = true;
  }
  for (const Message& message : messages) {
    if (!serves(message.peer)) continue;
    Session& session = sessions_[message.peer];
    if (ring_needed(session.block->client_sleeps)) ring(session.doorbell.get());
  }
}

void Port::disconnect(Peer peer) {
  if (serves(peer)) sessions_[peer].broken = true;
}

// Takes the bytes off the doorbells, and the news that a peer is gone.
void Port::hear_doorbells() {
  std::array<epoll_event, kBurst> events;
  const int count = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), 0);
  for (int i = 0; i < count; ++i) {
    Session& session = sessions_[events[static_cast<std::size_t>(i)].data.u32];
    std::array<char, 64> bytes;
    const ssize_t got = ::recv(session.doorbell.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    const bool alive = got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR));
    if (alive) continue;
    session.broken = true;
    ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, session.doorbell.get(), nullptr);
  }
}

std::size_t Port::lost(std::span<Peer> out) {
  hear_doorbells();
  std::size_t count = 0;
  for (const Peer peer : attached_) {
    Session& session = sessions_[peer];
    const bool broken = session.broken || has_faulted(session);
    if (!broken || session.reported || count == out.size()) continue;
    session.reported = true;
    out[count++] = peer;
  }
  return count;
}

bool Port::arm() {
  for (const Peer peer : attached_) {
    if (!sessions_[peer].broken) fall_asleep(sessions_[peer].block->shard_sleeps);
  }
  return std::all_of(attached_.begin(), attached_.end(), [&](Peer peer) {
    Session& session = sessions_[peer];
    return session.broken ? session.reported : session.notices.empty();
  });
}

void Port::disarm() {
  for (const Peer peer : attached_) {
    if (!sessions_[peer].broken) wake_up(sessions_[peer].block->shard_sleeps);
  }
}

}  // namespace tally::transport::shm
