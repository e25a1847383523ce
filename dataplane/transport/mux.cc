#include "dataplane/transport/mux.h"

#include <sys/epoll.h>

#include <cerrno>
#include <system_error>

#include "base/system/epoll.h"

namespace tally::transport {
namespace {

constexpr std::uint32_t kWayShift = 28;
constexpr std::uint32_t kHandle = (1u << kWayShift) - 1;

}  // namespace

Mux::Mux(std::vector<Transport*> ways) : epoll_(::epoll_create1(EPOLL_CLOEXEC)) {
  if (!epoll_) throw std::system_error(errno, std::generic_category(), "epoll for a shard");
  for (Transport* transport : ways) {
    ways_.push_back({transport});
    if (transport->fd() < 0) continue;
    if (!watch(epoll_.get(), transport->fd(), EPOLLIN)) {
      throw std::system_error(errno, std::generic_category(), "watching a transport");
    }
  }
}

void Mux::route(Peer peer, std::size_t way) {
  if (peer >= way_of_.size()) way_of_.resize(peer + 1, kNowhere);
  way_of_[peer] = static_cast<std::uint8_t>(way);
  use(way);
}

void Mux::forget(Peer peer) {
  if (peer >= way_of_.size() || way_of_[peer] == kNowhere) return;
  end_use(way_of_[peer]);
  if (way_of_[peer] != 0) {
    draining_ = true;
    all_pulled_ = false;
  }
  way_of_[peer] = kNowhere;
}

void Mux::use(std::size_t way) {
  ++ways_[way].users;
  if (way != 0) ++others_;
}

void Mux::end_use(std::size_t way) {
  --ways_[way].users;
  if (way != 0) --others_;
}

// For an unknown peer this is the first way, which refuses it.
std::size_t Mux::index_of(Peer peer) const {
  return peer < way_of_.size() && way_of_[peer] != kNowhere ? way_of_[peer] : 0;
}

Transport* Mux::way_of(Peer peer) const {
  return ways_[index_of(peer)].transport;
}

std::size_t Mux::receive(std::span<Received> out) {
  if (only_first()) return ways_[0].transport->receive(out);
  std::size_t count = 0;
  for (std::size_t i = 0; i < ways_.size(); ++i) {
    const Way& way = ways_[(turn_ + i) % ways_.size()];
    if (way.users > 0) count += way.transport->receive(out.subspan(count));
  }
  ++turn_;
  return count;
}

std::size_t Mux::pulled(std::span<Pulled> out) {
  if (only_first()) return ways_[0].transport->pulled(out);
  std::size_t count = 0;
  for (std::size_t i = 0; i < ways_.size(); ++i) {
    const std::size_t more = ways_[i].transport->pulled(out.subspan(count));
    for (Pulled& pulled : out.subspan(count, more)) {
      pulled.handle |= static_cast<std::uint32_t>(i) << kWayShift;
    }
    count += more;
  }
  all_pulled_ = count < out.size();
  return count;
}

std::size_t Mux::pushed(std::span<Pushed> out) {
  if (only_first()) return ways_[0].transport->pushed(out);
  std::size_t count = 0;
  for (const Way& way : ways_) count += way.transport->pushed(out.subspan(count));
  draining_ &= count > 0 || !all_pulled_;
  return count;
}

std::size_t Mux::lost(std::span<Peer> out) {
  std::size_t count = 0;
  for (const Way& way : ways_) {
    if (way.users > 0) count += way.transport->lost(out.subspan(count));
  }
  return count;
}

bool Mux::covers(const Range& range) const {
  return way_of(range.peer)->covers(range);
}

void Mux::pull(std::span<const Pull> pulls) {
  if (only_first()) return ways_[0].transport->pull(pulls);
  for (const Pull& pull : pulls) ways_[index_of(pull.source.peer)].pulls.push_back(pull);
  for (Way& way : ways_) {
    if (!way.pulls.empty()) way.transport->pull(way.pulls);
    way.pulls.clear();
  }
}

void Mux::release(std::uint32_t handle) {
  ways_[handle >> kWayShift].transport->release(handle & kHandle);
}

Peer Mux::begin_access(std::span<const Peer> peers) {
  if (only_first()) return ways_[0].transport->begin_access(peers);
  for (Way& way : ways_) way.opened.clear();
  for (const Peer peer : peers) ways_[index_of(peer)].opened.push_back(peer);
  for (std::size_t i = 0; i < ways_.size(); ++i) {
    const Peer fenced = ways_[i].transport->begin_access(ways_[i].opened);
    if (fenced == kNoPeer) continue;
    for (std::size_t before = 0; before < i; ++before) {
      ways_[before].transport->end_access(ways_[before].opened);
    }
    return fenced;
  }
  return kNoPeer;
}

Peer Mux::end_access(std::span<const Peer> peers) {
  if (only_first()) return ways_[0].transport->end_access(peers);
  Peer faulted = kNoPeer;
  for (Way& way : ways_) way.opened.clear();
  for (const Peer peer : peers) ways_[index_of(peer)].opened.push_back(peer);
  for (const Way& way : ways_) {
    const Peer found = way.transport->end_access(way.opened);
    if (found != kNoPeer) faulted = found;
  }
  return faulted;
}

// A transport sets all landings that it gets, so each transport gets only its own.
void Mux::locate(std::span<Landing> landings) {
  if (only_first()) return ways_[0].transport->locate(landings);
  for (Landing& landing : landings) {
    way_of(landing.target.peer)->locate(std::span(&landing, 1));
  }
}

void Mux::push(std::span<const Push> pushes) {
  if (only_first()) return ways_[0].transport->push(pushes);
  for (const Push& push : pushes) ways_[index_of(push.landing.target.peer)].pushes.push_back(push);
  for (Way& way : ways_) {
    if (!way.pushes.empty()) way.transport->push(way.pushes);
    way.pushes.clear();
  }
}

void Mux::complete(std::span<const Message> messages) {
  if (only_first()) return ways_[0].transport->complete(messages);
  for (const Message& message : messages) ways_[index_of(message.peer)].messages.push_back(message);
  for (Way& way : ways_) {
    if (!way.messages.empty()) way.transport->complete(way.messages);
    way.messages.clear();
  }
}

void Mux::disconnect(Peer peer, std::string_view why) {
  way_of(peer)->disconnect(peer, why);
}

// Arms all transports, also when one refuses, because disarm() is called for all. Also arms those
// without users, because events of their devices would keep the shard awake.
bool Mux::arm() {
  bool all = true;
  for (const Way& way : ways_) all &= way.transport->arm();
  return all;
}

void Mux::disarm() {
  for (const Way& way : ways_) way.transport->disarm();
}

}  // namespace tally::transport
