#include "dataplane/transport/fabric/port.h"

#include <fmt/format.h>

#include <algorithm>

namespace tally::transport::fabric {
namespace {

constexpr std::size_t kBurst = 64;
constexpr int kMostBursts = 64;
// Of contributions that come with their notices, of all sessions; what finds no room is read.
constexpr std::size_t kPayloadBytes = 1 << 20;
// And of results that go with completions; what finds none is written.
constexpr std::size_t kLetterBytes = 1 << 20;

}  // namespace

Result<std::unique_ptr<Port>> Port::open(const PortOptions& options) {
  take_messages_one_by_one();
  std::unique_ptr<Port> port(new Port(options));
  DomainOptions wanted = options.domain;
  wanted.memory = {port->landing().memory(), options.tiles};
  auto domain = Domain::open(wanted);
  if (!domain) return domain.error();
  port->model_ = std::move(domain).value();
  return port;
}

Port::Port(const PortOptions& options)
    : onesided::Port({options.landing_bytes, kPayloadBytes, options.tiles, options.hugepages}),
      host_(options.domain.address),
      letters_(kLetterBytes) {}

// Endpoints go before what they lie in.
Port::~Port() {
  for (Peer peer = 0; peer < all_sessions().size(); ++peer) detach(peer);
}

// False: not yet (the connection is being made, the queue is full, or there is no room for a copy).
bool Port::start(Session& session, Operation& operation) {
  static_assert(sizeof(fi_context2) <= sizeof operation.room);
  Connected& to = connected(session);
  if (model_->registers() && !known(operation)) return false;
  void* descriptor = model_->descriptor(operation.local);
  iovec local{operation.local, operation.bytes};
  fi_rma_iov remote{operation.address, operation.bytes, operation.key};
  fi_msg_rma message{};
  message.msg_iov = &local;
  message.desc = &descriptor;
  message.iov_count = 1;
  message.addr = to.address;
  message.rma_iov = &remote;
  message.rma_iov_count = 1;
  message.context = operation.room.data();
  const ssize_t error =
      operation.kind == Kind::kPull
          ? ::fi_readmsg(to.endpoint.get(), &message, FI_COMPLETION)
          : ::fi_writemsg(to.endpoint.get(), &message, FI_COMPLETION | FI_DELIVERY_COMPLETE);
  if (error != 0 && error != -FI_EAGAIN) {
    refuse(session, "cannot start an operation: " + model_->library().text(error));
  }
  return error == 0;
}

void Port::progress() {
  for (const auto& [number, group] : groups_) progress(*group.domain);
}

bool Port::may_sleep() {
  return std::all_of(groups_.begin(), groups_.end(),
                     [](const auto& entry) { return entry.second.domain->may_sleep(); });
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
  if (context.kind != Kind::kReceive) return end(static_cast<Operation&>(context), Status::kOk);
  Session* session = serving(context.peer);
  if (session == nullptr) return;
  Connected& from = connected(*session);
  if ((entry.flags & FI_RECV) != 0 && entry.len > 0) {
    on_message(from, context.peer, {static_cast<const std::byte*>(entry.buf), entry.len});
  }
  if ((entry.flags & FI_MULTI_RECV) != 0) post_again(from);
}

void Port::post_again(Connected& session) {
  if (auto posted = post_receive(session); !posted) refuse(session, posted.error().message);
}

// Anybody can send to an endpoint: what does not know the session's secret is not from its peer.
void Port::on_message(Connected& session, Peer peer, std::span<const std::byte> bytes) {
  const auto message = open_message(bytes);
  const bool hers = message && message->envelope.secret == session.secret &&
                    message->envelope.shard == session.tree;
  if (!hers) return;
  if (message->behind.empty()) return on_notice(session, peer, message->content);
  on_notice(session, peer, message->content, message->behind, nullptr);
}

// False: there was none after all.
bool Port::on_error(Domain& domain) {
  fi_cq_err_entry error{};
  if (::fi_cq_readerr(&domain.completions(), &error, 0) <= 0) return false;
  if (error.op_context == nullptr) return true;
  auto& context = *reinterpret_cast<Context*>(error.op_context);
  if (context.kind == Kind::kReceive) {
    if (Session* session = serving(context.peer)) on_failed_receive(connected(*session), error);
    return true;
  }
  if (Session* session = attached(context.peer)) {
    refuse(*session,
           fmt::format("{} failed: {}",
                       context.kind == Kind::kPull ? "reading its memory" : "writing to its memory",
                       model_->library().text(error.err)));
  }
  end(static_cast<Operation&>(context), Status::kPeerLost);
  return true;
}

// The session goes on: it may have been a stranger's message.
void Port::on_failed_receive(Connected& session, const fi_cq_err_entry& error) {
  const auto used = used_up(error);
  if (!used) return refuse(session, "receiving failed: " + model_->library().text(error.err));
  if (*used) post_again(session);
}

}  // namespace tally::transport::fabric
