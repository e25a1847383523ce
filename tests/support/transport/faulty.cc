#include "tests/support/transport/faulty.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "dataplane/transport/contract.h"

namespace tally::transport {
namespace {

constexpr std::size_t kBurst = 16;

}  // namespace

std::string_view name(FaultEvent event) {
  static constexpr std::array<std::string_view, 12> kNames = {
      "notice",      "completion",  "lost",      "duplicated", "garbled", "flipped",
      "pull failed", "push failed", "corrupted", "dropped",    "stopped", "resumed"};
  return kNames[static_cast<std::size_t>(event)];
}

Faulty::Faulty(Transport& inner, const FaultyConfig& config)
    : inner_(inner), config_(config), random_(config.seed) {}

// -- faults by hand ----------------------------------------------------------------------------

void Faulty::set_rates(Peer peer, const FaultRates& rates) {
  state(peer).rates = rates;
}

void Faulty::drop(Peer peer) {
  PeerState& peer_state = state(peer);
  peer_state.stopped = false;
  if (peer_state.life != Life::kAlive) return;
  note(FaultEvent::kDropped, peer);
  inner_.disconnect(peer, "dropped");
}

void Faulty::stop(Peer peer) {
  if (state(peer).life != Life::kAlive || state(peer).stopped) return;
  state(peer).stopped = true;
  note(FaultEvent::kStopped, peer);
}

void Faulty::resume(Peer peer) {
  if (!state(peer).stopped) return;
  state(peer).stopped = false;
  note(FaultEvent::kResumed, peer);
}

std::size_t Faulty::held() const {
  return notices_.size() + pulls_.size() + pushes_.size() + pulled_.size() + pushed_.size();
}

// -- the machinery -------------------------------------------------------------------------------

Faulty::PeerState& Faulty::state(Peer peer) {
  while (peer >= peers_.size()) peers_.push_back({.rates = config_.rates});
  return peers_[peer];
}

// A peer that the shard may name.
Faulty::PeerState& Faulty::usable(Peer peer) {
  PeerState& peer_state = state(peer);
  require(peer_state.life != Life::kReported, "a peer whose loss was reported is not used again");
  return peer_state;
}

void Faulty::note(FaultEvent event, Peer peer, const RingEntry* message) const {
  if (observer_) observer_(event, peer, message);
}

std::uint32_t Faulty::delay(double probability) {
  if (!random_.chance(probability)) return 0;
  return static_cast<std::uint32_t>(random_.between(1, config_.longest_delay));
}

std::uint64_t Faulty::issue(const Range& range, std::uint64_t user) {
  if (free_tickets_.empty()) {
    free_tickets_.push_back(tickets_.size());
    tickets_.emplace_back();
  }
  const std::uint64_t ticket = free_tickets_.back();
  free_tickets_.pop_back();
  tickets_[ticket] = {range.peer, user, range};
  return ticket;
}

Faulty::Ticket Faulty::redeem(std::uint64_t ticket) {
  free_tickets_.push_back(ticket);
  return tickets_[ticket];
}

// A request may be the last thing that its peer sees.
void Faulty::strike(Peer peer) {
  const FaultRates& rates = state(peer).rates;
  if (random_.chance(rates.drop_peer)) drop(peer);
  if (random_.chance(rates.stop_peer)) stop(peer);
}

template <typename T>
bool Faulty::held_back(Waiting<T>& waiting) {
  const PeerState& peer = state(waiting.peer);
  if (peer.life == Life::kAlive && peer.stopped) return true;
  if (waiting.polls == 0) return false;
  --waiting.polls;
  return true;
}

template <typename Request, typename Forward>
void Faulty::forward(std::vector<Waiting<Request>>& requests, Forward&& to_inner) {
  std::size_t kept = 0;
  for (auto& request : requests) {
    if (held_back(request)) {
      requests[kept++] = request;
    } else {
      to_inner(request);
    }
  }
  requests.resize(kept);
}

// What is due, in a random order.
template <typename Answer>
std::size_t Faulty::deliver(std::vector<Waiting<Answer>>& answers, std::span<Answer> out) {
  std::size_t count = 0;
  std::size_t kept = 0;
  for (auto& answer : answers) {
    if (count == out.size() || held_back(answer)) {
      answers[kept++] = answer;
    } else {
      out[count++] = answer.what;
    }
  }
  answers.resize(kept);
  auto delivered = out.first(count);
  random_.shuffle(delivered);
  return count;
}

// -- notices -------------------------------------------------------------------------------------

void Faulty::garble(Received& received) {
  const FaultRates& rates = state(received.peer).rates;
  if (random_.chance(rates.garbage_notice)) {
    for (std::byte& byte : received.message.bytes) byte = static_cast<std::byte>(random_.next());
    received.message.bytes[0] = std::byte{0xff};  // no version that there is
    note(FaultEvent::kGarbled, received.peer, &received.message);
  } else if (random_.chance(rates.flip_notice)) {
    const std::uint64_t bit = random_.below(sizeof received.message.bytes * 8);
    received.message.bytes[bit / 8] ^= static_cast<std::byte>(1u << (bit % 8));
    note(FaultEvent::kFlipped, received.peer, &received.message);
  }
}

void Faulty::take_notices() {
  std::array<Received, kBurst> burst;
  while (const std::size_t count = inner_.receive(burst)) {
    for (Received& received : std::span(burst).first(count)) {
      const FaultRates rates = state(received.peer).rates;
      strike(received.peer);
      garble(received);
      notices_.push_back({received, received.peer, delay(rates.delay_notice)});
      if (!random_.chance(rates.duplicate_notice)) continue;
      note(FaultEvent::kDuplicated, received.peer, &received.message);
      notices_.push_back({received, received.peer, delay(0.5)});
    }
  }
}

// Peers overtake each other; within one, the order stands.
std::size_t Faulty::receive(std::span<Received> out) {
  take_notices();
  blocked_.clear();
  std::size_t count = 0;
  std::size_t kept = 0;
  for (auto& notice : notices_) {
    if (state(notice.peer).life != Life::kAlive) continue;
    const bool blocked = std::find(blocked_.begin(), blocked_.end(), notice.peer) != blocked_.end();
    if (count == out.size() || blocked || held_back(notice)) {
      if (!blocked) blocked_.push_back(notice.peer);
      notices_[kept++] = notice;
      continue;
    }
    note(FaultEvent::kNotice, notice.peer, &notice.what.message);
    out[count++] = notice.what;
  }
  notices_.resize(kept);
  return count;
}

bool Faulty::covers(const Range& range) const {
  require(range.peer < peers_.size() && peers_[range.peer].life == Life::kAlive,
          "covers() is asked for notices that were received");
  return inner_.covers(range);
}

// -- pulls and pushes ----------------------------------------------------------------------------

void Faulty::pull(std::span<const Pull> pulls) {
  for (Pull pull : pulls) {
    const Peer peer = pull.source.peer;
    usable(peer);
    strike(peer);
    const FaultRates rates = state(peer).rates;
    if (random_.chance(rates.fail_pull)) {
      note(FaultEvent::kPullFailed, peer);
      pulled_.push_back({{pull.user, rates.fail_status, {}, 0}, peer, delay(rates.delay_pull)});
      continue;
    }
    pull.user = issue(pull.source, pull.user);
    pulls_.push_back({pull, peer, delay(rates.delay_pull)});
  }
}

std::size_t Faulty::pulled(std::span<Pulled> out) {
  forward(pulls_, [&](const Waiting<Pull>& waiting) {
    if (state(waiting.peer).life == Life::kAlive) return inner_.pull({&waiting.what, 1});
    const std::uint64_t user = redeem(waiting.what.user).user;
    pulled_.push_back({{user, Status::kPeerLost, {}, 0}, waiting.peer, 0});
  });
  take_pulled();
  return deliver<Pulled>(pulled_, out);
}

void Faulty::take_pulled() {
  std::array<Pulled, kBurst> burst;
  while (const std::size_t count = inner_.pulled(burst)) {
    for (Pulled pulled : std::span(burst).first(count)) {
      const Ticket ticket = redeem(pulled.user);
      pulled.user = ticket.user;
      const PeerState& peer = state(ticket.peer);
      // The bytes of the dead: sometimes they came in time, sometimes not.
      if (peer.life != Life::kAlive && pulled.status == Status::kOk && random_.chance(0.5)) {
        inner_.release(pulled.handle);
        pulled = {ticket.user, Status::kPeerLost, {}, 0};
      }
      if (pulled.status == Status::kOk) corrupt(pulled, ticket.source);
      pulled_.push_back({pulled, ticket.peer, delay(peer.rates.delay_pull)});
    }
  }
}

// Draws nothing where nothing is to be corrupted: seeds mean what they did.
void Faulty::corrupt(Pulled& pulled, const Range& source) {
  const double rate = state(source.peer).rates.corrupt_pull;
  if (rate == 0 || source.bytes == 0 || !random_.chance(rate)) return;
  if (config_.spares && config_.spares(source)) return;
  Corrupted& copy = corrupted_[pulled.handle];
  copy.bytes.clear();
  for (const Span& piece : pulled.view) {
    copy.bytes.insert(copy.bytes.end(), piece.data, piece.data + piece.bytes);
  }
  const std::uint64_t bit = random_.below(copy.bytes.size() * 8);
  copy.bytes[bit / 8] ^= static_cast<std::byte>(1u << (bit % 8));
  copy.span = {copy.bytes.data(), copy.bytes.size()};
  pulled.view = View(&copy.span, 1);
  note(FaultEvent::kCorrupted, source.peer);
}

void Faulty::release(std::uint32_t handle) {
  corrupted_.erase(handle);
  inner_.release(handle);
}

// A direct landing of a peer that is gone is none: the bytes would go nowhere.
void Faulty::locate(std::span<Landing> landings) {
  for (Landing& landing : landings) {
    landing.direct = nullptr;
    if (usable(landing.target.peer).life == Life::kAlive) inner_.locate({&landing, 1});
  }
}

Peer Faulty::begin_access(std::span<const Peer> peers) {
  for (const Peer peer : peers) {
    if (usable(peer).life != Life::kAlive) return peer;
  }
  return inner_.begin_access(peers);
}

void Faulty::push(std::span<const Push> pushes) {
  for (Push push : pushes) {
    const Peer peer = push.landing.target.peer;
    usable(peer);
    strike(peer);
    const FaultRates rates = state(peer).rates;
    if (random_.chance(rates.fail_push)) {
      note(FaultEvent::kPushFailed, peer);
      pushed_.push_back({{push.user, rates.fail_status}, peer, delay(rates.delay_push)});
      continue;
    }
    push.user = issue(push.landing.target, push.user);
    pushes_.push_back({push, peer, delay(rates.delay_push)});
  }
}

std::size_t Faulty::pushed(std::span<Pushed> out) {
  forward(pushes_, [&](const Waiting<Push>& waiting) {
    if (state(waiting.peer).life == Life::kAlive) return inner_.push({&waiting.what, 1});
    const std::uint64_t user = redeem(waiting.what.user).user;
    pushed_.push_back({{user, Status::kPeerLost}, waiting.peer, 0});
  });
  take_pushed();
  return deliver<Pushed>(pushed_, out);
}

void Faulty::take_pushed() {
  std::array<Pushed, kBurst> burst;
  while (const std::size_t count = inner_.pushed(burst)) {
    for (Pushed pushed : std::span(burst).first(count)) {
      const Ticket ticket = redeem(pushed.user);
      pushed.user = ticket.user;
      pushed_.push_back({pushed, ticket.peer, delay(state(ticket.peer).rates.delay_push)});
    }
  }
}

// -- the rest ------------------------------------------------------------------------------------

void Faulty::take_lost() {
  std::array<Peer, kBurst> burst;
  while (const std::size_t count = inner_.lost(burst)) {
    for (const Peer peer : std::span(burst).first(count)) {
      state(peer).life = Life::kDead;
      state(peer).stopped = false;
      state(peer).report_in = delay(0.5);
    }
  }
}

std::size_t Faulty::lost(std::span<Peer> out) {
  take_lost();
  std::size_t count = 0;
  for (Peer peer = 0; peer < peers_.size() && count < out.size(); ++peer) {
    PeerState& peer_state = peers_[peer];
    if (peer_state.life != Life::kDead) continue;
    if (peer_state.report_in > 0) {
      --peer_state.report_in;
      continue;
    }
    peer_state.life = Life::kReported;
    note(FaultEvent::kLost, peer);
    out[count++] = peer;
  }
  return count;
}

void Faulty::complete(std::span<const Message> messages) {
  for (const Message& message : messages) {
    if (usable(message.peer).life != Life::kAlive) continue;
    note(FaultEvent::kCompletion, message.peer, &message.message);
    inner_.complete({&message, 1});
  }
}

void Faulty::disconnect(Peer peer, std::string_view why) {
  if (usable(peer).life == Life::kAlive) inner_.disconnect(peer, why);
}

bool Faulty::arm() {
  const bool quiet = inner_.arm();
  return quiet && held() == 0 && std::none_of(peers_.begin(), peers_.end(), [](const auto& peer) {
           return peer.life == Life::kDead;
         });
}

}  // namespace tally::transport
