#include "dataplane/transport/shm/shm_transport.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <system_error>
#include <utility>

#include "base/system/epoll.h"
#include "dataplane/transport/answers.h"

namespace tally::transport::shm {
namespace {

constexpr std::size_t kBurst = 32;

void ring(int doorbell) {
  const char byte = 0;
  // A full socket has woken the peer already, and lost() finds a broken one, so the result is
  // ignored. Never blocks, never raises SIGPIPE.
  static_cast<void>(::send(doorbell, &byte, 1, MSG_DONTWAIT | MSG_NOSIGNAL));
}

}  // namespace

ShmTransport::ShmTransport(std::size_t max_pulls)
    : epoll_(::epoll_create1(EPOLL_CLOEXEC)), views_(max_pulls) {
  if (!epoll_) throw std::system_error(errno, std::generic_category(), "epoll for a shard");
  free_views_.reserve(max_pulls);
  for (auto i = static_cast<std::uint32_t>(max_pulls); i-- > 0;) free_views_.push_back(i);
  pulled_.reserve(max_pulls);
  pushed_.reserve(max_pulls);
}

void ShmTransport::attach(Peer peer, const Segment& segment, std::uint32_t ring, UniqueFd doorbell,
                          const FaultWord& faulted) {
  if (peer >= sessions_.size()) sessions_.resize(peer + 1);
  Session& session = sessions_[peer];
  session = Session{};
  session.attached = true;
  session.attachment = ++attachments_;
  session.header = &segment.header();
  session.faulted = &faulted;
  session.block = &segment.block(ring);
  session.notices = RingConsumer(session.block->notices, segment.notice_entries(ring));
  session.completions = RingProducer(session.block->completions, segment.completion_entries(ring));
  session.doorbell = std::move(doorbell);
  attached_.push_back(peer);
  if (!watch(epoll_.get(), session.doorbell.get(), EPOLLIN | EPOLLRDHUP, peer)) {
    refuse(session, "its doorbell cannot be watched");
  }
}

UniqueFd ShmTransport::detach(Peer peer) {
  if (peer >= sessions_.size() || !sessions_[peer].attached) return UniqueFd();
  UniqueFd doorbell = std::move(sessions_[peer].doorbell);
  // Closing alone would not take the doorbell out of the epoll set if the peer kept a duplicate.
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, doorbell.get(), nullptr);
  sessions_[peer] = Session{};
  std::erase(attached_, peer);
  return doorbell;
}

void ShmTransport::add_region(Peer peer, std::uint32_t region, std::byte* data,
                              std::uint64_t bytes) {
  if (peer >= sessions_.size() || !sessions_[peer].attached) return;
  sessions_[peer].regions.set(region, Region{data, bytes});
}

bool ShmTransport::remove_region(Peer peer, std::uint32_t region) {
  if (peer >= sessions_.size()) return true;
  auto& regions = sessions_[peer].regions;
  Region* removed = regions.find(region);
  if (removed == nullptr) return true;
  removed->data = nullptr;
  removed->bytes = 0;
  if (removed->views > 0) return false;
  regions.erase(region);
  return true;
}

std::byte* ShmTransport::at(const Range& range) const {
  if (!serves(range.peer)) return nullptr;
  const Region* region = sessions_[range.peer].regions.find(range.region);
  if (region == nullptr || region->data == nullptr) return nullptr;
  const bool inside = range.offset <= region->bytes && range.bytes <= region->bytes - range.offset;
  return inside ? region->data + range.offset : nullptr;
}

bool ShmTransport::covers(const Range& range) const {
  return at(range) != nullptr;
}

std::size_t ShmTransport::receive(std::span<Received> out) {
  std::array<RingEntry, kBurst> entries;
  std::size_t filled = 0;
  const std::size_t sessions = attached_.size();
  for (std::size_t i = 0; i < sessions && filled < out.size(); ++i) {
    const Peer peer = attached_[(turn_ + i) % sessions];
    Session& session = sessions_[peer];
    if (session.broken) continue;
    const std::size_t room = std::min(kBurst, out.size() - filled);
    const std::size_t count = session.notices.pop(std::span(entries).first(room));
    for (const RingEntry& entry : std::span(entries).first(count))
      out[filled++] = Received{peer, entry};
    if (session.notices.broken()) refuse(session, "it broke the ring of its notices");
  }
  ++turn_;
  return filled;
}

void ShmTransport::pull(std::span<const Pull> pulls) {
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
      ++session.regions.find(pull.source.region)->views;
      Out& out = views_[answer.handle];
      out = {{data, pull.source.bytes}, pull.source.peer, pull.source.region, session.attachment};
      answer.view = View(&out.span, 1);
    }
    pulled_.push_back(answer);
  }
}

std::size_t ShmTransport::pulled(std::span<Pulled> out) {
  return take(pulled_, out);
}

// Does not count the view when its session has ended, because another session may have the number.
void ShmTransport::release(std::uint32_t handle) {
  const Out& out = views_[handle];
  Session& session = sessions_[out.peer];
  if (session.attachment == out.attachment) --session.regions.find(out.region)->views;
  free_views_.push_back(handle);
}

// One half of the fence. This side sets storing, then reads the fence. The client sets the fence,
// then reads storing. Both sides are sequentially consistent, so one of the two sees the other.
Peer ShmTransport::begin_access(std::span<const Peer> peers) {
  for (std::size_t i = 0; i < peers.size(); ++i) {
    Session& session = sessions_[peers[i]];
    if (serves(peers[i])) {
      session.block->storing.store(1, std::memory_order_seq_cst);
      if (session.header->fence.load(std::memory_order_seq_cst) == 0) continue;
    }
    end_access(peers.first(i + 1));
    return peers[i];
  }
  return kNoPeer;
}

Peer ShmTransport::end_access(std::span<const Peer> peers) {
  Peer faulted = kNoPeer;
  for (const Peer peer : peers) {
    if (peer >= sessions_.size() || !sessions_[peer].attached) continue;
    // Release: the kernels' stores come before it.
    sessions_[peer].block->storing.store(0, std::memory_order_release);
    if (has_faulted(sessions_[peer])) faulted = peer;
  }
  return faulted;
}

// Another shard's thread may have met the fault while this thread read the pages that replaced the
// mapping. The fault handler sets the word before it replaces the mapping. The fence orders this
// thread's reads of the memory before its read of the word.
bool ShmTransport::has_faulted(Session& session) {
  std::atomic_thread_fence(std::memory_order_acquire);
  if (session.faulted->load(std::memory_order_relaxed) == 0) return false;
  refuse(session, "it removed memory that the node has mapped");
  return true;
}

void ShmTransport::locate(std::span<Landing> landings) {
  for (Landing& landing : landings) landing.direct = at(landing.target);
}

// Where the kernels stored, the bytes are placed. Where they could not, the region is gone.
void ShmTransport::push(std::span<const Push> pushes) {
  for (const Push& push : pushes) {
    const bool placed = push.landing.direct != nullptr;
    pushed_.push_back(Pushed{push.user, placed ? Status::kOk : Status::kBadRegion});
  }
}

std::size_t ShmTransport::pushed(std::span<Pushed> out) {
  return take(pushed_, out);
}

void ShmTransport::complete(std::span<const Message> messages) {
  for (const Message& message : messages) {
    if (!serves(message.peer)) continue;
    Session& session = sessions_[message.peer];
    if (!session.completions.push(message.message)) {
      refuse(session, "it does not take its completions");
    }
  }
  for (const Message& message : messages) {
    if (!serves(message.peer)) continue;
    Session& session = sessions_[message.peer];
    if (ring_needed(session.block->client_sleeps)) ring(session.doorbell.get());
  }
}

void ShmTransport::disconnect(Peer peer, std::string_view why) {
  if (serves(peer)) refuse(sessions_[peer], std::string(why));
}

// Takes the bytes off the doorbells, and finds peers that are gone.
void ShmTransport::take_doorbells() {
  std::array<epoll_event, kBurst> events;
  const int count = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), 0);
  for (int i = 0; i < count; ++i) {
    Session& session = sessions_[events[static_cast<std::size_t>(i)].data.u32];
    std::array<char, 64> bytes;
    const ssize_t got = ::recv(session.doorbell.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    const bool alive = got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR));
    if (alive) continue;
    refuse(session, "it closed its socket, as at the end of its process");
    ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, session.doorbell.get(), nullptr);
  }
}

void ShmTransport::refuse(Session& session, std::string why) {
  if (!session.broken) session.why = std::move(why);
  session.broken = true;
}

std::string ShmTransport::why_lost(Peer peer) const {
  return peer < sessions_.size() ? sessions_[peer].why : "";
}

std::size_t ShmTransport::lost(std::span<Peer> out) {
  take_doorbells();
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

bool ShmTransport::arm() {
  for (const Peer peer : attached_) {
    if (!sessions_[peer].broken) fall_asleep(sessions_[peer].block->shard_sleeps);
  }
  return std::all_of(attached_.begin(), attached_.end(), [&](Peer peer) {
    Session& session = sessions_[peer];
    return session.broken ? session.reported : session.notices.empty();
  });
}

void ShmTransport::disarm() {
  for (const Peer peer : attached_) {
    if (!sessions_[peer].broken) wake_up(sessions_[peer].block->shard_sleeps);
  }
}

}  // namespace tally::transport::shm
