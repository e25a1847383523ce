#include "dataplane/transport/fabric/fabric_transport.h"

#include <fmt/format.h>

#include <algorithm>

namespace tally::transport::fabric {
namespace {

constexpr std::size_t kBurst = 64;
constexpr int kMostBursts = 64;
// Memory for contributions that come with their notices, of all sessions. A contribution that finds
// no room is read.
constexpr std::size_t kPayloadBytes = 1 << 20;
// Memory for results that go with completions. A result that finds no room is written.
constexpr std::size_t kEagerResultBytes = 1 << 20;

}  // namespace

Result<std::unique_ptr<FabricTransport>> FabricTransport::open(const TransportOptions& options) {
  take_messages_one_by_one();
  std::unique_ptr<FabricTransport> transport(new FabricTransport(options));
  DomainOptions wanted = options.domain;
  wanted.memory = {transport->landing().memory(), options.tiles};
  auto domain = Domain::open(wanted);
  if (!domain) return domain.error();
  transport->model_ = std::move(domain).value();
  return transport;
}

FabricTransport::FabricTransport(const TransportOptions& options)
    : onesided::OneSidedTransport(
          {options.landing_bytes, kPayloadBytes, options.tiles, options.hugepages}),
      host_(options.domain.address),
      eager_results_(kEagerResultBytes) {}

// Endpoints must end before the domains to which they belong.
FabricTransport::~FabricTransport() {
  for (Peer peer = 0; peer < sessions().all().size(); ++peer) detach(peer);
}

// Returns false when the operation cannot start yet: the connection is being made, the queue is
// full, or there is no room for a copy. Also returns false when it has refused the session.
bool FabricTransport::start(Session& session, Operation& operation) {
  static_assert(sizeof(fi_context2) <= sizeof operation.room);
  Connected& to = connected(session);
  if (model_->registers() && !known(operation)) return false;
  void* descriptor = model_->descriptor(operation.local);
  iovec local{operation.local, operation.bytes};
  fi_rma_iov remote{operation.remote.address, operation.bytes, operation.remote.key};
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
    session.refuse("cannot start an operation: " + model_->library().text(error));
  }
  return error == 0;
}

void FabricTransport::progress() {
  for (const auto& [number, group] : groups_) progress(*group.domain);
}

bool FabricTransport::may_sleep() {
  return std::all_of(groups_.begin(), groups_.end(),
                     [](const auto& entry) { return entry.second.domain->may_sleep(); });
}

// Reads almost always to the end of the queue. So when the end of an operation is reported twice
// (fabric_transport.h has the reason), both reports come before another operation takes its place.
void FabricTransport::progress(Domain& domain) {
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

void FabricTransport::on_completion(const fi_cq_data_entry& entry) {
  if (entry.op_context == nullptr) return;  // an injected message has ended
  auto& context = *reinterpret_cast<Context*>(entry.op_context);
  if (context.kind != Kind::kReceive) return end(static_cast<Operation&>(context), Status::kOk);
  Session* session = sessions().serving(context.peer);
  if (session == nullptr) return;
  Connected& from = connected(*session);
  if ((entry.flags & FI_RECV) != 0 && entry.len > 0) {
    on_message(from, context.peer, {static_cast<const std::byte*>(entry.buf), entry.len});
  }
  if ((entry.flags & FI_MULTI_RECV) != 0) post_again(from);
}

void FabricTransport::post_again(Connected& session) {
  if (auto posted = post_receive(session); !posted) session.refuse(posted.error().message);
}

// Any process can send to an endpoint. A message without the session's secret is not from its peer.
void FabricTransport::on_message(Connected& session, Peer peer, std::span<const std::byte> bytes) {
  const auto message = open_message(bytes);
  const bool hers = message && message->envelope.secret == session.secret &&
                    message->envelope.shard == session.tree;
  if (!hers) return;
  on_notice(session, peer, message->content, message->behind);
}

// Returns false when there was no error after all.
bool FabricTransport::on_error(Domain& domain) {
  fi_cq_err_entry error{};
  if (::fi_cq_readerr(&domain.completions(), &error, 0) <= 0) return false;
  if (error.op_context == nullptr) return true;
  auto& context = *reinterpret_cast<Context*>(error.op_context);
  if (context.kind == Kind::kReceive) {
    Session* session = sessions().serving(context.peer);
    if (session != nullptr) on_failed_receive(connected(*session), error);
    return true;
  }
  if (Session* session = sessions().attached(context.peer)) {
    session->refuse(
        fmt::format("{} failed: {}",
                    context.kind == Kind::kPull ? "reading its memory" : "writing to its memory",
                    model_->library().text(error.err)));
  }
  end(static_cast<Operation&>(context), Status::kPeerLost);
  return true;
}

// The session goes on when only a message failed, because it may have been a stranger's message.
void FabricTransport::on_failed_receive(Connected& session, const fi_cq_err_entry& error) {
  const auto used = used_up(error);
  if (!used) return session.refuse("receiving failed: " + model_->library().text(error.err));
  if (*used) post_again(session);
}

}  // namespace tally::transport::fabric
