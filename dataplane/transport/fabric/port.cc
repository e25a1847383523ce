#include "dataplane/transport/fabric/port.h"

#include <fmt/format.h>
#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include "dataplane/transport/answers.h"

namespace tally::transport::fabric {
namespace {

constexpr std::size_t kBurst = 64;
constexpr int kMostBursts = 64;
// Completions that a peer does not take: more than its credit is a peer that does not read.
constexpr std::size_t kMaxWaitingCompletions = 8192;
// Notices that the shard has not taken: more than any credit, with as many cancels.
constexpr std::size_t kMaxWaitingNotices = 8192;

// A peer of whose operations none has ended for so long is lost: stopped, cut off or gone without a
// word. Verdicts wait for what is under way, so this must be shorter than clients wait for theirs.
constexpr Nanos kStalled = 4 * kSecond;
constexpr Nanos kLongestGap = 1 * kSecond;

}  // namespace

Result<std::unique_ptr<Port>> Port::open(const PortOptions& options) {
  auto domain = Domain::open(options.domain);
  if (!domain) return domain.error();
  return std::unique_ptr<Port>(new Port(options, std::move(domain).value()));
}

Port::Port(const PortOptions& options, std::unique_ptr<Domain> model)
    : shard_(options.shard),
      host_(options.domain.address),
      landing_(options.landing_bytes, 2 * options.window_bytes),
      epoll_(::epoll_create1(EPOLL_CLOEXEC)),
      model_(std::move(model)) {
  if (!epoll_) throw std::system_error(errno, std::generic_category(), "epoll for a shard");
}

// Endpoints go before what they lie in.
Port::~Port() {
  for (Peer peer = 0; peer < sessions_.size(); ++peer) detach(peer);
}

Port::Session* Port::serving(Peer peer) const {
  Session* session = attached(peer);
  return session != nullptr && !session->broken ? session : nullptr;
}

std::size_t Port::sessions() const {
  return static_cast<std::size_t>(std::count_if(
      sessions_.begin(), sessions_.end(), [](const auto& session) { return session != nullptr; }));
}

const Port::Region* Port::region_of(const Range& range) const {
  const Session* session = serving(range.peer);
  if (session == nullptr || range.region >= session->regions.size()) return nullptr;
  const Region& region = session->regions[range.region];
  const bool inside = range.offset <= region.bytes && range.bytes <= region.bytes - range.offset;
  return inside && region.bytes > 0 ? &region : nullptr;
}

bool Port::covers(const Range& range) const {
  return region_of(range) != nullptr;
}

std::uint32_t Port::take_operation(Context::Kind kind, const Range& range, std::uint64_t user) {
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
  if (const Region* region = region_of(range)) {
    operation.address = region->base + range.offset;
    operation.key = region->key;
  }
  return index;
}

void Port::pull(std::span<const Pull> pulls) {
  for (const Pull& pull : pulls) {
    if (region_of(pull.source) == nullptr) {
      const bool served = serving(pull.source.peer) != nullptr;
      pulled_.push_back({pull.user, served ? Status::kBadRegion : Status::kPeerLost, {}, 0});
      continue;
    }
    unplaced_.push_back(take_operation(Context::Kind::kPull, pull.source, pull.user));
  }
  place_pulls();
}

// In order: a tile that has part of its blocks gets the rest before a later one gets any.
void Port::place_pulls() {
  while (!unplaced_.empty()) {
    Operation& operation = operations_[unplaced_.front()];
    const auto block = landing_.allocate(operation.bytes);
    if (!block) return;
    unplaced_.pop_front();
    operation.local = block->data;
    operation.landing = block->number;
    operation.placed = true;
    Session* session = serving(operation.peer);
    if (session == nullptr) {
      end(operation, Status::kPeerLost);
      continue;
    }
    session->waiting.push_back(operation.index);
    send_waiting(*session);
  }
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
    const std::uint32_t index = take_operation(Context::Kind::kPush, target, push.user);
    operations_[index].local = const_cast<std::byte*>(push.source);
    Session& session = *serving(target.peer);
    session.waiting.push_back(index);
    send_waiting(session);
  }
}

void Port::complete(std::span<const Message> messages) {
  for (const Message& message : messages) {
    Session* session = serving(message.peer);
    if (session == nullptr) continue;
    session->completions.push_back(message.message);
    send_waiting(*session);
    if (session->completions.size() > kMaxWaitingCompletions) {
      refuse(*session, "it does not take its completions");
    }
  }
}

void Port::send_waiting(Session& session) {
  while (!session.broken && !session.waiting.empty()) {
    if (!start(session, operations_[session.waiting.front()])) break;
    session.waiting.pop_front();
  }
  while (!session.broken && !session.completions.empty()) {
    if (!send(session, session.completions.front())) break;
    session.completions.pop_front();
  }
  backlog_ |= !session.broken && !(session.waiting.empty() && session.completions.empty());
}

// False: not yet (the connection is being made, or the queue is full).
bool Port::start(Session& session, Operation& operation) {
  iovec local{operation.local, operation.bytes};
  fi_rma_iov remote{operation.address, operation.bytes, operation.key};
  fi_msg_rma message{};
  message.msg_iov = &local;
  message.iov_count = 1;
  message.addr = session.address;
  message.rma_iov = &remote;
  message.rma_iov_count = 1;
  message.context = &operation.room;
  const ssize_t error =
      operation.kind == Context::Kind::kPull
          ? ::fi_readmsg(session.endpoint.get(), &message, FI_COMPLETION)
          : ::fi_writemsg(session.endpoint.get(), &message, FI_COMPLETION | FI_DELIVERY_COMPLETE);
  if (error == -FI_EAGAIN) return false;
  operation.under_way = error == 0;
  session.under_way += operation.under_way ? 1 : 0;
  if (error != 0) refuse(session, "cannot start an operation: " + model_->library().text(error));
  return error == 0;
}

bool Port::send(Session& session, const RingSlot& message) {
  const MessageBytes bytes = seal({session.secret, shard_, 0}, message);
  const ssize_t error =
      ::fi_inject(session.endpoint.get(), bytes.data(), bytes.size(), session.address);
  if (error != 0 && error != -FI_EAGAIN) {
    refuse(session, "cannot send: " + model_->library().text(error));
  }
  return error == 0;
}

void Port::refuse(Session& session, std::string why) {
  if (!session.broken) session.why = std::move(why);
  session.broken = true;
}

std::string Port::why_lost(Peer peer) const {
  const Session* session = attached(peer);
  return session != nullptr ? session->why : "";
}

void Port::progress() {
  for (const auto& [number, job] : jobs_) progress(*job.domain);
}

// As good as to the end: an operation whose end is told twice (port.h says why) hears both before
// another takes its place.
void Port::progress(Domain& domain) {
  std::array<fi_cq_data_entry, kBurst> entries;
  for (int burst = 0; burst < kMostBursts; ++burst) {
    const ssize_t count = ::fi_cq_read(&domain.completions(), entries.data(), entries.size());
    if (count == -FI_EAVAIL) {
      if (!on_error(domain)) break;
      continue;
    }
    if (count <= 0) break;
    for (const auto& entry : std::span(entries).first(static_cast<std::size_t>(count))) {
      on_completion(entry);
    }
  }
}

void Port::on_completion(const fi_cq_data_entry& entry) {
  if (entry.op_context == nullptr) return;  // of an injected message
  auto& context = *reinterpret_cast<Context*>(entry.op_context);
  if (context.kind != Context::Kind::kReceive) {
    return end(static_cast<Operation&>(context), Status::kOk);
  }
  Session* session = serving(context.peer);
  if (session == nullptr) return;
  if ((entry.flags & FI_RECV) != 0 && entry.len > 0) {
    on_message(*session, context.peer, {static_cast<const std::byte*>(entry.buf), entry.len});
  }
  if ((entry.flags & FI_MULTI_RECV) == 0) return;
  if (auto posted = post_receive(*session, static_cast<ReceiveBuffer&>(context)); !posted) {
    refuse(*session, posted.error().message);
  }
}

// Anybody can send to an endpoint: what does not know the session's secret is not from its peer.
void Port::on_message(Session& session, Peer peer, std::span<const std::byte> bytes) {
  const auto message = open_message(bytes);
  if (!message || message->envelope.secret != session.secret || message->envelope.shard != shard_) {
    return;
  }
  received_.push_back({peer, message->content});
  if (++session.notices > kMaxWaitingNotices) refuse(session, "it sends more than its credit");
}

// False: there was none after all.
bool Port::on_error(Domain& domain) {
  fi_cq_err_entry error{};
  if (::fi_cq_readerr(&domain.completions(), &error, 0) <= 0) return false;
  if (error.op_context == nullptr) return true;
  auto& context = *reinterpret_cast<Context*>(error.op_context);
  Session* session = attached(context.peer);
  const bool receive = context.kind == Context::Kind::kReceive;
  if (session != nullptr) {
    refuse(*session, fmt::format("{} failed: {}",
                                 receive                                ? "receiving"
                                 : context.kind == Context::Kind::kPull ? "reading its memory"
                                                                        : "writing to its memory",
                                 model_->library().text(error.err)));
  }
  if (!receive) end(static_cast<Operation&>(context), Status::kPeerLost);
  return true;
}

void Port::end(Operation& operation, Status status) {
  if (operation.answered) return;
  if (operation.under_way) {
    Session& session = *sessions_[operation.peer];
    --session.under_way;
    ++session.ended;
  }
  operation.under_way = false;
  operation.answered = true;
  if (operation.kind == Context::Kind::kPush) {
    pushed_.push_back({operation.user, status});
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
  if (operation.placed) landing_.release(operation.landing);
  operation.placed = false;
  operation.bytes = 0;
  free_operations_.push_back(operation.index);
}

std::size_t Port::receive(std::span<Received> out) {
  progress();
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

// A broken session's endpoint stays until control detaches it; what it had under way is answered
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
  const bool idle = session.under_way == 0 && session.waiting.empty();
  if (idle || session.ended != session.ended_seen) {
    session.ended_seen = session.ended;
    session.stalled = 0;
    return;
  }
  session.stalled += std::min(passed, kLongestGap);
  if (session.stalled > kStalled) {
    refuse(session, fmt::format("none of {} operations on its memory has ended for {} s",
                                session.under_way + session.waiting.size(), kStalled / kSecond));
  }
}

void Port::disconnect(Peer peer) {
  if (Session* session = serving(peer)) refuse(*session, "it broke the protocol");
}

bool Port::arm() {
  const bool news = !received_.empty() || !pulled_.empty() || !pushed_.empty() ||
                    std::any_of(sessions_.begin(), sessions_.end(), [](const auto& session) {
                      return session != nullptr && session->broken && !session->reported;
                    });
  return !news && std::all_of(jobs_.begin(), jobs_.end(),
                              [](const auto& entry) { return entry.second.domain->may_sleep(); });
}

}  // namespace tally::transport::fabric
