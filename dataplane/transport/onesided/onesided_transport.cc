#include "dataplane/transport/onesided/onesided_transport.h"

#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>

namespace tally::transport::onesided {
namespace {

// How many small results may be on their way to a peer. A peer that takes none holds no more
// memory than these.
constexpr std::size_t kMostEager = 16;

bool within(const std::byte* data, std::size_t bytes, std::span<const std::byte> memory) {
  return data >= memory.data() && data + bytes <= memory.data() + memory.size();
}

}  // namespace

OneSidedTransport::OneSidedTransport(const Memory& memory)
    : landing_(memory.landing_bytes, memory.hugepages),
      payloads_(memory.payload_bytes),
      tiles_(memory.tiles),
      epoll_(::epoll_create1(EPOLL_CLOEXEC)),
      operations_(payloads_),
      outgoing_(*this, operations_) {
  if (!epoll_) throw std::system_error(errno, std::generic_category(), "epoll for a shard");
}

// -- peers and their memory ----------------------------------------------------------------------

void OneSidedTransport::remove(Peer peer) {
  operations_.for_each_open(peer,
                            [this](Operation& operation) { end(operation, Status::kPeerLost); });
  inbox_.forget(peer);
  payloads_.forget(peer);
  sessions_.remove(peer);
}

void OneSidedTransport::add_region(Peer peer, std::uint32_t number, const Region& region) {
  if (Session* session = sessions_.attached(peer)) session->regions.set(number, region);
}

void OneSidedTransport::remove_region(Peer peer, std::uint32_t number) {
  if (Session* session = sessions_.attached(peer)) session->regions.erase(number);
}

bool OneSidedTransport::covers(const Range& range) const {
  const Session* session = sessions_.serving(range.peer);
  const bool in_region = session != nullptr && session->remote(range).has_value();
  return in_region || payloads_.find(range).has_value();
}

std::string OneSidedTransport::why_lost(Peer peer) const {
  const Session* session = sessions_.attached(peer);
  return session != nullptr ? session->why : "";
}

void OneSidedTransport::disconnect(Peer peer, std::string_view why) {
  if (Session* session = sessions_.serving(peer)) session->refuse(std::string(why));
}

// -- pulls ---------------------------------------------------------------------------------------

void OneSidedTransport::pull(std::span<const Pull> pulls) {
  for (const Pull& pull : pulls) {
    if (pull_payload(pull)) continue;
    const Range& source = pull.source;
    const Session* session = sessions_.serving(source.peer);
    const auto remote = session != nullptr ? session->remote(source) : std::nullopt;
    if (!remote) {
      const Status why = session != nullptr ? Status::kBadRegion : Status::kPeerLost;
      inbox_.add(Pulled{pull.user, why, {}, 0});
      continue;
    }
    if (source.bytes > landing_.bytes()) {
      inbox_.add(Pulled{pull.user, Status::kNoMemory, {}, 0});
      continue;
    }
    Operation& operation = operations_.take(Kind::kPull, source.peer, source.bytes, pull.user);
    operation.remote = *remote;
    unplaced_.push_back(operation.index);
  }
  place_pulls();
}

// A payload that is here already needs no landing memory and no transfer.
bool OneSidedTransport::pull_payload(const Pull& pull) {
  const Range& source = pull.source;
  const auto found = payloads_.find(source);
  if (!found || sessions_.serving(source.peer) == nullptr) return false;
  Operation& operation = operations_.take(Kind::kPull, source.peer, source.bytes, pull.user);
  operation.payload = source.region;
  payloads_.hold(operation.payload);
  operation.view = *found;
  operation.answered = true;
  inbox_.add(Pulled{operation.user, Status::kOk, View(&operation.view, 1), operation.index});
  return true;
}

// Places pulls in order: a tile that has part of its memory gets the rest before a later tile gets
// any. A pull of a partial sum comes when the child node has made the sum, after pulls of later
// tiles. Its tile holds landing memory already. If it waited behind pulls that wait for that
// memory, it would wait for ever. Therefore there is as much landing memory as the windows of all
// heights allow in flight (control/daemon/networks.cc). A pull that waits here waits for a gap that
// is long enough, not for room.
void OneSidedTransport::place_pulls() {
  while (!unplaced_.empty()) {
    Operation& operation = operations_[unplaced_.front()];
    operation.local = landing_.allocate(operation.bytes);
    if (operation.local == nullptr) break;
    unplaced_.pop_front();
    operation.memory = &landing_;
    if (Session* session = sessions_.serving(operation.peer)) {
      outgoing_.read(*session, operation);
    } else {
      end(operation, Status::kPeerLost);
    }
  }
  outgoing_.send();
}

void OneSidedTransport::release(std::uint32_t handle) {
  done_with(operations_[handle]);
  operations_.give_back(operations_[handle]);
  place_pulls();
}

// -- pushes and completions ----------------------------------------------------------------------

void OneSidedTransport::push(std::span<const Push> pushes) {
  for (const Push& push : pushes) {
    const Range& target = push.landing.target;
    Session* session = sessions_.serving(target.peer);
    const auto remote = session != nullptr ? session->remote(target) : std::nullopt;
    if (!remote) {
      const Status why = session != nullptr ? Status::kBadRegion : Status::kPeerLost;
      inbox_.add(Pushed{push.user, why});
      continue;
    }
    if (push.landing.operation_bytes > 0 && take_eagerly(*session, push)) {
      inbox_.add(Pushed{push.user, Status::kOk});
      continue;
    }
    Operation& operation = operations_.take(Kind::kPush, target.peer, target.bytes, push.user);
    operation.remote = *remote;
    operation.local = const_cast<std::byte*>(push.source);
    outgoing_.write(*session, operation);
  }
  outgoing_.send();
}

OneSidedTransport::Operation* OneSidedTransport::eager_operation(Session& session, Peer peer,
                                                                 LandingMemory* memory,
                                                                 std::size_t bytes) {
  if (session.eager >= kMostEager) return nullptr;
  std::byte* local = memory != nullptr ? memory->allocate(bytes) : nullptr;
  if (memory != nullptr && local == nullptr) return nullptr;
  Operation& operation = operations_.take(Kind::kPush, peer, bytes, 0);
  operation.local = local;
  operation.memory = memory;
  operation.eager = true;
  ++session.eager;
  return &operation;
}

bool OneSidedTransport::eager_write(Session& session, const Push& push) {
  const Range& target = push.landing.target;
  const auto remote = session.remote(target);
  Operation* operation =
      remote ? eager_operation(session, target.peer, &landing_, target.bytes) : nullptr;
  if (operation == nullptr) return false;
  operation->remote = *remote;
  std::memcpy(operation->local, push.source, target.bytes);
  outgoing_.write(session, *operation);
  return true;
}

std::optional<OneSidedTransport::Known> OneSidedTransport::known(Operation& operation) {
  if (within(operation.local, operation.bytes, landing_.memory())) return Known::kLanding;
  if (within(operation.local, operation.bytes, tiles_)) return Known::kTiles;
  std::byte* copy = landing_.allocate(operation.bytes);
  if (copy == nullptr) return std::nullopt;
  std::memcpy(copy, operation.local, operation.bytes);
  operation.local = copy;
  operation.memory = &landing_;
  return Known::kLanding;
}

void OneSidedTransport::complete(std::span<const Message> messages) {
  for (const Message& message : messages) {
    Session* session = sessions_.serving(message.peer);
    if (session == nullptr) continue;
    payloads_.completed(message);
    outgoing_.complete(*session, message.message);
  }
  outgoing_.send();
}

// -- what comes in -------------------------------------------------------------------------------

void OneSidedTransport::end(Operation& operation, Status status) {
  if (operation.answered) return;
  if (operation.eager || operation.under_way) sessions_.attached(operation.peer)->ended(operation);
  operation.answered = true;
  if (operation.kind == Kind::kPush) {
    if (!operation.eager) inbox_.add(Pushed{operation.user, status});
    return operations_.give_back(operation);
  }
  if (status != Status::kOk) {
    inbox_.add(Pulled{operation.user, status, {}, 0});
    std::erase(unplaced_, operation.index);
    done_with(operation);
    return operations_.give_back(operation);
  }
  inbox_.add(Pulled{operation.user, Status::kOk, result_of(operation), operation.index});
}

View OneSidedTransport::result_of(Operation& operation) {
  operation.view = Span{operation.local, operation.bytes};
  return {&operation.view, 1};
}

void OneSidedTransport::on_notice(Session& session, Peer peer, const RingEntry& notice,
                                  std::span<const std::byte> contribution,
                                  const std::shared_ptr<const void>& kept) {
  const bool fits = inbox_.add(Received{
      peer, contribution.empty() ? notice : payloads_.store(peer, notice, contribution, kept)});
  if (!fits) session.refuse("it sends more than its credit");
}

std::size_t OneSidedTransport::receive(std::span<Received> out) {
  progress();
  if (!unplaced_.empty()) place_pulls();  // failed operations have left room
  outgoing_.send_again(sessions_);
  return inbox_.take(out);
}

// What the transport receives while it prepares the sleep counts too.
bool OneSidedTransport::arm() {
  const bool may = may_sleep();
  return may && inbox_.empty() && !sessions_.has_lost();
}

}  // namespace tally::transport::onesided
