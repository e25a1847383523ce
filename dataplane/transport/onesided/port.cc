#include "dataplane/transport/onesided/port.h"

#include <fmt/format.h>
#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include "dataplane/transport/answers.h"
#include "dataplane/wire/completion.h"

namespace tally::transport::onesided {
namespace {

// Completions that a peer does not take: more than its credit is a peer that does not read.
constexpr std::size_t kMaxWaitingCompletions = 8192;
// Notices that the shard has not taken: more than any credit, with as many cancels.
constexpr std::size_t kMaxWaitingNotices = 8192;

// Small results that a peer may have on their way: who takes none holds no more memory than that.
constexpr std::size_t kMostEager = 16;

// A peer of whose operations none has ended for so long is lost: stopped, cut off or gone without a
// word. Verdicts wait for what is under way, so this must be shorter than clients wait for theirs.
constexpr Nanos kStalled = 4 * kSecond;
constexpr Nanos kLongestGap = 1 * kSecond;

bool within(const std::byte* data, std::size_t bytes, std::span<const std::byte> memory) {
  return data >= memory.data() && data + bytes <= memory.data() + memory.size();
}

}  // namespace

Port::Port(const Memory& memory)
    : landing_(memory.landing_bytes, memory.hugepages),
      payloads_(memory.payload_bytes),
      tiles_(memory.tiles),
      epoll_(::epoll_create1(EPOLL_CLOEXEC)) {
  if (!epoll_) throw std::system_error(errno, std::generic_category(), "epoll for a shard");
}

// -- peers and their memory ----------------------------------------------------------------------

void Port::add(Peer peer, std::unique_ptr<Session> session) {
  if (peer >= sessions_.size()) sessions_.resize(peer + 1);
  if (session->regions.empty()) session->regions.resize(1);
  sessions_[peer] = std::move(session);
}

void Port::remove(Peer peer) {
  for (Operation& operation : operations_) {
    const bool open = operation.bytes > 0 && operation.peer == peer && !operation.answered;
    if (open) end(operation, Status::kPeerLost);
  }
  std::erase_if(received_, [peer](const Received& received) { return received.peer == peer; });
  payloads_.forget(peer);
  sessions_[peer].reset();
}

Port::Session* Port::serving(Peer peer) const {
  Session* session = attached(peer);
  return session != nullptr && !session->broken ? session : nullptr;
}

std::size_t Port::sessions() const {
  return static_cast<std::size_t>(std::count_if(
      sessions_.begin(), sessions_.end(), [](const auto& session) { return session != nullptr; }));
}

void Port::add_region(Peer peer, std::uint32_t number, const Region& region) {
  Session* session = attached(peer);
  if (session == nullptr) return;
  auto& regions = session->regions;
  if (number >= regions.size()) regions.resize(number + 1);
  regions[number] = region;
}

void Port::remove_region(Peer peer, std::uint32_t number) {
  Session* session = attached(peer);
  if (session == nullptr) return;
  auto& regions = session->regions;
  if (number < regions.size()) regions[number] = Region{};
}

const Region* Port::region_of(const Range& range) const {
  const Session* session = serving(range.peer);
  if (session == nullptr || range.region >= session->regions.size()) return nullptr;
  const Region& region = session->regions[range.region];
  const bool inside = range.offset <= region.bytes && range.bytes <= region.bytes - range.offset;
  return inside && region.bytes > 0 ? &region : nullptr;
}

bool Port::covers(const Range& range) const {
  return region_of(range) != nullptr || payloads_.find(range).has_value();
}

// -- operations ----------------------------------------------------------------------------------

std::uint32_t Port::take_operation(Kind kind, const Range& range, std::uint64_t user) {
  if (free_operations_.empty()) {
    free_operations_.push_back(static_cast<std::uint32_t>(operations_.size()));
    operations_.emplace_back();
  }
  const std::uint32_t index = free_operations_.back();
  free_operations_.pop_back();
  Operation& operation = operations_[index];
  operation = Operation{};
  operation.kind = kind;
  operation.peer = range.peer;
  operation.user = user;
  operation.bytes = range.bytes;
  operation.index = index;
  const Remote there = remote(range);
  operation.address = there.address;
  operation.key = there.key;
  return index;
}

Port::Remote Port::remote(const Range& range) const {
  const Region* region = region_of(range);
  return region != nullptr ? Remote{region->base + range.offset, region->key} : Remote{};
}

void Port::pull(std::span<const Pull> pulls) {
  for (const Pull& pull : pulls) {
    if (pull_payload(pull)) continue;
    if (region_of(pull.source) == nullptr) {
      const bool served = serving(pull.source.peer) != nullptr;
      pulled_.push_back({pull.user, served ? Status::kBadRegion : Status::kPeerLost, {}, 0});
      continue;
    }
    if (pull.source.bytes > landing_.bytes()) {
      pulled_.push_back({pull.user, Status::kNoMemory, {}, 0});
      continue;
    }
    unplaced_.push_back(take_operation(Kind::kPull, pull.source, pull.user));
  }
  place_pulls();
}

// What is here already needs no room and no time.
bool Port::pull_payload(const Pull& pull) {
  const auto found = payloads_.find(pull.source);
  if (!found || serving(pull.source.peer) == nullptr) return false;
  Operation& operation = operations_[take_operation(Kind::kPull, pull.source, pull.user)];
  operation.payload = pull.source.region;
  payloads_.hold(operation.payload);
  operation.view = *found;
  operation.answered = true;
  pulled_.push_back({operation.user, Status::kOk, View(&operation.view, 1), operation.index});
  return true;
}

// In order: a tile that has part of its memory gets the rest before a later one gets any. Partial
// sums come here when branches have made them, behind later tiles' inputs, and of tiles that hold
// memory: behind what waits for that memory they would wait for ever. Therefore there is as much as
// the windows of all heights let be under way (control/networks.cc), and whoever waits here does so
// for a gap that is long enough, not for room.
void Port::place_pulls() {
  while (!unplaced_.empty()) {
    Operation& operation = operations_[unplaced_.front()];
    operation.local = landing_.allocate(operation.bytes);
    if (operation.local == nullptr) break;
    unplaced_.pop_front();
    operation.memory = &landing_;
    Session* session = serving(operation.peer);
    if (session == nullptr) {
      end(operation, Status::kPeerLost);
      continue;
    }
    session->reads.push_back(operation.index);
    mark(*session);
  }
  start_marked();
}

void Port::release(std::uint32_t handle) {
  give_back(operations_[handle]);
  place_pulls();
}

void Port::push(std::span<const Push> pushes) {
  for (const Push& push : pushes) {
    const Range& target = push.landing.target;
    if (region_of(target) == nullptr) {
      const bool served = serving(target.peer) != nullptr;
      pushed_.push_back({push.user, served ? Status::kBadRegion : Status::kPeerLost});
      continue;
    }
    Session& session = *serving(target.peer);
    if (push.landing.operation_bytes > 0 && take_eagerly(session, push)) {
      pushed_.push_back({push.user, Status::kOk});
      continue;
    }
    Operation& operation = operations_[take_operation(Kind::kPush, target, push.user)];
    operation.local = const_cast<std::byte*>(push.source);
    session.writes.push_back(operation.index);
    mark(session);
  }
  start_marked();
}

Port::Operation* Port::eager_operation(Session& session, const Range& target, LandingMemory* memory,
                                       std::size_t bytes) {
  if (session.eager >= kMostEager) return nullptr;
  std::byte* local = memory != nullptr ? memory->allocate(bytes) : nullptr;
  if (memory != nullptr && local == nullptr) return nullptr;
  Operation& operation = operations_[take_operation(Kind::kPush, target, 0)];
  operation.local = local;
  operation.memory = memory;
  operation.eager = true;
  ++session.eager;
  return &operation;
}

bool Port::eager_write(Session& session, const Push& push) {
  const Range& target = push.landing.target;
  Operation* operation = eager_operation(session, target, &landing_, target.bytes);
  if (operation == nullptr) return false;
  std::memcpy(operation->local, push.source, target.bytes);
  session.writes.push_back(operation->index);
  ++session.eager_writes;
  mark(session);
  return true;
}

void Port::complete(std::span<const Message> messages) {
  for (const Message& message : messages) {
    Session* session = serving(message.peer);
    if (session == nullptr) continue;
    if (payloads_.size() > 0) end_payload(message);
    session->completions.push_back(message.message);
    mark(*session);
    if (session->completions.size() > kMaxWaitingCompletions) {
      refuse(*session, "it does not take its completions");
    }
  }
  start_marked();
}

// Of a notice that came twice the first goes on.
void Port::end_payload(const Message& message) {
  wire::Completion completion;
  const bool readable = wire::parse(message.message, completion) == Status::kOk;
  if (readable && completion.status != Status::kDuplicate) {
    payloads_.ended(message.peer, completion.cookie);
  }
}

// A burst for many peers goes to each in one piece.
void Port::mark(Session& session) {
  if (std::exchange(session.marked, true)) return;
  marked_.push_back(&session);
}

void Port::start_marked() {
  for (Session* session : marked_) {
    session->marked = false;
    send_waiting(*session);
  }
  marked_.clear();
}

void Port::under_way(Session& session, Operation& operation) {
  operation.under_way = true;
  ++session.under_way;
}

bool Port::start_all(Session& session, Fifo<std::uint32_t>& waiting) {
  while (!session.broken && !waiting.empty()) {
    Operation& operation = operations_[waiting.front()];
    if (!start(session, operation)) break;
    under_way(session, operation);
    session.eager_writes -= operation.eager ? 1 : 0;
    waiting.pop_front();
  }
  return waiting.empty();
}

// Completions first: somebody waits for them; but not before the results that they speak of. Then
// what ends a tile before what begins one.
void Port::send_waiting(Session& session) {
  if (session.eager_writes > 0) start_all(session, session.writes);
  while (!session.broken && session.eager_writes == 0 && !session.completions.empty()) {
    if (!send(session, session.completions.front())) break;
    session.completions.pop_front();
  }
  const bool all_writes = start_all(session, session.writes);
  const bool all_reads = start_all(session, session.reads);
  if (!session.broken) flush(session);
  const bool all = all_writes && all_reads && session.completions.empty();
  backlog_ |= !session.broken && !all;
}

std::optional<Port::Known> Port::known(Operation& operation) {
  if (within(operation.local, operation.bytes, landing_.memory())) return Known::kLanding;
  if (within(operation.local, operation.bytes, tiles_)) return Known::kTiles;
  std::byte* copy = landing_.allocate(operation.bytes);
  if (copy == nullptr) return std::nullopt;
  std::memcpy(copy, operation.local, operation.bytes);
  operation.local = copy;
  operation.memory = &landing_;
  return Known::kLanding;
}

void Port::end(Operation& operation, Status status) {
  if (operation.answered) return;
  if (operation.eager) --sessions_[operation.peer]->eager;
  if (operation.under_way) {
    Session& session = *sessions_[operation.peer];
    --session.under_way;
    ++session.ended;
  }
  operation.under_way = false;
  operation.answered = true;
  if (operation.kind == Kind::kPush) {
    if (!operation.eager) pushed_.push_back({operation.user, status});
    return give_back(operation);
  }
  if (status != Status::kOk) {
    pulled_.push_back({operation.user, status, {}, 0});
    std::erase(unplaced_, operation.index);
    return give_back(operation);
  }
  operation.view = Span{operation.local, operation.bytes};
  pulled_.push_back({operation.user, Status::kOk, View(&operation.view, 1), operation.index});
}

void Port::give_back(Operation& operation) {
  if (operation.memory != nullptr) operation.memory->release(operation.local);
  if (operation.payload != 0) payloads_.release(operation.payload);
  operation.memory = nullptr;
  operation.bytes = 0;
  free_operations_.push_back(operation.index);
}

void Port::on_notice(Session& session, Peer peer, const RingSlot& notice) {
  received_.push_back({peer, notice});
  if (++session.notices > kMaxWaitingNotices) refuse(session, "it sends more than its credit");
}

void Port::on_notice(Session& session, Peer peer, const RingSlot& slot,
                     std::span<const std::byte> contribution,
                     const std::shared_ptr<const void>& kept) {
  wire::Notice notice;
  std::optional<std::uint32_t> region;
  if (wire::parse(slot, notice) == Status::kOk && notice.kind != wire::Kind::kCancel) {
    region = kept ? payloads_.lend(peer, notice.cookie, contribution, kept)
                  : payloads_.keep(peer, notice.cookie, contribution);
  }
  if (!region) return on_notice(session, peer, slot);
  notice.in_region = *region;
  notice.in_offset = 0;
  on_notice(session, peer, wire::encode(notice));
}

// -- the shard's turn ----------------------------------------------------------------------------

std::size_t Port::receive(std::span<Received> out) {
  progress();
  if (!unplaced_.empty()) place_pulls();  // what has failed has left room
  if (std::exchange(backlog_, false)) {
    for (const auto& session : sessions_) {
      if (session != nullptr) send_waiting(*session);
    }
  }
  const std::size_t count = take(received_, out);
  for (const Received& received : out.first(count)) --sessions_[received.peer]->notices;
  return count;
}

std::size_t Port::pulled(std::span<Pulled> out) {
  return take(pulled_, out);
}

std::size_t Port::pushed(std::span<Pushed> out) {
  return take(pushed_, out);
}

// What the transport hears on the way to sleep is news, too.
bool Port::arm() {
  const bool may = may_sleep();
  const bool news = !received_.empty() || !pulled_.empty() || !pushed_.empty() ||
                    std::any_of(sessions_.begin(), sessions_.end(), [](const auto& session) {
                      return session != nullptr && session->broken && !session->reported;
                    });
  return may && !news;
}

// -- peers that are lost -------------------------------------------------------------------------

void Port::refuse(Session& session, std::string why) {
  if (!session.broken) session.why = std::move(why);
  session.broken = true;
}

std::string Port::why_lost(Peer peer) const {
  const Session* session = attached(peer);
  return session != nullptr ? session->why : "";
}

// A broken session's connection stays until control detaches it; what it had under way is answered
// then.
std::size_t Port::lost(std::span<Peer> out) {
  std::size_t count = 0;
  const Nanos now = monotonic_now();
  const Nanos passed = now - std::exchange(last_watch_, now);
  for (Peer peer = 0; peer < sessions_.size() && count < out.size(); ++peer) {
    Session* session = sessions_[peer].get();
    if (session == nullptr) continue;
    watch(*session, passed);
    if (!session->broken || session->reported) continue;
    session->reported = true;
    out[count++] = peer;
  }
  return count;
}

// Time in which this thread slept, or was stopped itself, is not held against the peer.
void Port::watch(Session& session, Nanos passed) {
  const std::size_t open = session.under_way + session.reads.size() + session.writes.size();
  if (open == 0 || session.ended != session.ended_seen) {
    session.ended_seen = session.ended;
    session.stalled = 0;
    return;
  }
  session.stalled += std::min(passed, kLongestGap);
  if (session.stalled > kStalled) {
    refuse(session, fmt::format("none of {} operations on its memory has ended for {} s", open,
                                kStalled / kSecond));
  }
}

void Port::disconnect(Peer peer) {
  if (Session* session = serving(peer)) refuse(*session, "it broke the protocol");
}

}  // namespace tally::transport::onesided
