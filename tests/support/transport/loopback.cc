#include "tests/support/transport/loopback.h"

#include <algorithm>
#include <cstring>

#include "dataplane/transport/contract.h"
#include "tests/support/transport/poison.h"

namespace tally::transport {

Loopback::~Loopback() {
  for (Held& held : held_) unpoison(held.buffer.data(), held.buffer.size());
}

// -- the workers' side -------------------------------------------------------------------------

void Loopback::connect(Peer peer) {
  if (peer >= peers_.size()) peers_.resize(peer + 1);
  require(peers_[peer].life == Life::kAbsent, "a peer number is used once");
  peers_[peer].life = Life::kConnected;
}

void Loopback::add_region(Peer peer, std::uint32_t region, std::span<std::byte> memory) {
  auto& regions = known(peer).regions;
  if (region >= regions.size()) regions.resize(region + 1);
  regions[region] = memory;
}

void Loopback::remove_region(Peer peer, std::uint32_t region) {
  known(peer).regions[region] = {};
}

void Loopback::send(Peer peer, const RingEntry& notice) {
  if (peers_[peer].life == Life::kConnected) notices_.push_back({peer, notice});
}

std::size_t Loopback::take(Peer peer, std::span<RingEntry> out) {
  auto& completions = peers_[peer].completions;
  const std::size_t count = std::min(out.size(), completions.size());
  std::copy_n(completions.begin(), count, out.begin());
  completions.erase(completions.begin(), completions.begin() + static_cast<std::ptrdiff_t>(count));
  return count;
}

void Loopback::drop(Peer peer) {
  if (peers_[peer].life == Life::kConnected) peers_[peer].life = Life::kLost;
}

void Loopback::fence(Peer peer) {
  peers_[peer].fenced = true;
}

void Loopback::take_memory(Peer peer) {
  known(peer).holed = true;
}

// -- Transport -----------------------------------------------------------------------------------

const Loopback::PeerState& Loopback::known(Peer peer) const {
  require(peer < peers_.size() && peers_[peer].life != Life::kAbsent, "no such peer");
  require(peers_[peer].life != Life::kReported, "a peer whose loss was reported is not used again");
  return peers_[peer];
}

Loopback::PeerState& Loopback::known(Peer peer) {
  return const_cast<PeerState&>(static_cast<const Loopback*>(this)->known(peer));
}

// Empty when the region does not have the whole range.
std::span<std::byte> Loopback::memory_of(const Range& range) const {
  const auto& regions = peers_[range.peer].regions;
  if (range.region >= regions.size()) return {};
  const auto memory = regions[range.region];
  if (range.offset > memory.size() || range.bytes > memory.size() - range.offset) return {};
  return memory.subspan(range.offset, range.bytes);
}

std::size_t Loopback::receive(std::span<Received> out) {
  std::size_t count = 0;
  while (count < out.size() && !notices_.empty()) {
    const Received& next = notices_.front();
    if (peers_[next.peer].life == Life::kConnected) out[count++] = next;
    notices_.pop_front();
  }
  return count;
}

bool Loopback::covers(const Range& range) const {
  known(range.peer);
  return range.bytes > 0 && !memory_of(range).empty();
}

void Loopback::pull(std::span<const Pull> pulls) {
  for (const Pull& pull : pulls) {
    known(pull.source.peer);
    pulls_.push_back(pull);
  }
}

std::size_t Loopback::pulled(std::span<Pulled> out) {
  if (config_.mode == LoopbackConfig::Mode::kDirect) ripe_pulls_ = pulls_.size();
  std::size_t count = 0;
  for (; count < out.size() && ripe_pulls_ > 0; ++count, --ripe_pulls_) {
    out[count] = answer(pulls_.front());
    pulls_.pop_front();
  }
  if (count == 0) ripe_pulls_ = pulls_.size();
  return count;
}

Loopback::Held& Loopback::hold(std::uint32_t& handle) {
  if (free_held_.empty()) {
    require(held_.size() < 0x10000, "no more than 65536 views are held");
    free_held_.push_back(static_cast<std::uint32_t>(held_.size()));
    held_.emplace_back();
  }
  const std::uint32_t index = free_held_.back();
  free_held_.pop_back();
  Held& held = held_[index];
  held.held = true;
  handle = std::uint32_t{++held.generation} << 16 | index;
  ++views_held_;
  return held;
}

Pulled Loopback::answer(const Pull& pull) {
  Pulled pulled{pull.user, Status::kOk, {}, 0};
  const PeerState& peer = peers_[pull.source.peer];
  const auto memory = memory_of(pull.source);
  if (peer.life != Life::kConnected) pulled.status = Status::kPeerLost;
  if (pulled.status == Status::kOk && memory.empty()) pulled.status = Status::kBadRegion;
  if (pulled.status != Status::kOk) return pulled;

  Held& held = hold(pulled.handle);
  const std::byte* data = memory.data();
  if (config_.mode == LoopbackConfig::Mode::kStaged) {
    unpoison(held.buffer.data(), held.buffer.size());
    held.buffer.assign(memory.begin(), memory.end());
    data = held.buffer.data();
  }
  const std::size_t piece = config_.span_bytes == 0 ? memory.size() : config_.span_bytes;
  held.spans.clear();
  for (std::size_t at = 0; at < memory.size(); at += piece) {
    held.spans.push_back({data + at, std::min(piece, memory.size() - at)});
  }
  pulled.view = held.spans;
  return pulled;
}

void Loopback::release(std::uint32_t handle) {
  const std::uint32_t index = handle & 0xffff;
  require(index < held_.size(), "a handle is one that was given");
  Held& held = held_[index];
  require(held.held && held.generation == handle >> 16, "a view is released once");
  held.held = false;
  std::fill(held.spans.begin(), held.spans.end(), Span{});
  poison(held.buffer.data(), held.buffer.size());
  free_held_.push_back(index);
  --views_held_;
}

Peer Loopback::begin_access(std::span<const Peer> peers) {
  require(!storing_, "stores are closed before they are opened again");
  for (const Peer peer : peers) {
    if (known(peer).fenced) return peer;
  }
  storing_ = true;
  return kNoPeer;
}

Peer Loopback::end_access(std::span<const Peer> peers) {
  require(storing_, "stores are opened before they are closed");
  storing_ = false;
  for (const Peer peer : peers) {
    if (!known(peer).holed) continue;
    drop(peer);
    return peer;
  }
  return kNoPeer;
}

void Loopback::locate(std::span<Landing> landings) {
  for (Landing& landing : landings) {
    known(landing.target.peer);
    const auto memory = memory_of(landing.target);
    const bool direct = config_.mode == LoopbackConfig::Mode::kDirect && !memory.empty();
    landing.direct = direct ? memory.data() : nullptr;
  }
}

void Loopback::push(std::span<const Push> pushes) {
  require(!storing_, "stores are closed before the results are pushed");
  for (const Push& push : pushes) {
    known(push.landing.target.peer);
    const auto memory = memory_of(push.landing.target);
    require(push.landing.direct == nullptr || push.landing.direct == memory.data(),
            "a landing is pushed where locate() put it");
    require(push.landing.direct != nullptr || push.source != nullptr, "a push has a source");
    pushes_.push_back(push);
  }
}

// The bytes travel as late as they may: a shard that reuses `source` too early is found out.
Status Loopback::place(const Push& push) {
  const PeerState& peer = peers_[push.landing.target.peer];
  if (peer.life != Life::kConnected || peer.fenced) return Status::kPeerLost;
  if (push.landing.direct != nullptr) return Status::kOk;
  const auto memory = memory_of(push.landing.target);
  if (memory.empty()) return Status::kBadRegion;
  std::memcpy(memory.data(), push.source, memory.size());
  return Status::kOk;
}

std::size_t Loopback::pushed(std::span<Pushed> out) {
  if (config_.mode == LoopbackConfig::Mode::kDirect) ripe_pushes_ = pushes_.size();
  std::size_t count = 0;
  for (; count < out.size() && ripe_pushes_ > 0; ++count, --ripe_pushes_) {
    out[count] = {pushes_.front().user, place(pushes_.front())};
    pushes_.pop_front();
  }
  if (count == 0) ripe_pushes_ = pushes_.size();
  return count;
}

// Before what is outstanding with the peer has been answered: the seam promises no order.
std::size_t Loopback::lost(std::span<Peer> out) {
  std::size_t count = 0;
  for (Peer peer = 0; peer < peers_.size() && count < out.size(); ++peer) {
    if (peers_[peer].life != Life::kLost) continue;
    peers_[peer].life = Life::kReported;
    out[count++] = peer;
  }
  return count;
}

void Loopback::complete(std::span<const Message> messages) {
  for (const Message& message : messages) {
    PeerState& peer = known(message.peer);
    if (peer.life != Life::kConnected) continue;
    if (config_.completion_entries != 0 && peer.completions.size() == config_.completion_entries) {
      peer.life = Life::kLost;
      continue;
    }
    peer.completions.push_back(message.message);
  }
}

void Loopback::disconnect(Peer peer, std::string_view) {
  known(peer);
  drop(peer);
}

bool Loopback::arm() {
  armed_ = true;
  return notices_.empty() && pulls_.empty() && pushes_.empty() &&
         std::none_of(peers_.begin(), peers_.end(),
                      [](const PeerState& peer) { return peer.life == Life::kLost; });
}

}  // namespace tally::transport
