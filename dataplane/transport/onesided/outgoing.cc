#include "dataplane/transport/onesided/outgoing.h"

#include <utility>

namespace tally::transport::onesided {
namespace {

// How many completions may wait for a peer. This is more than its credit, so a peer with more does
// not read them.
constexpr std::size_t kMaxWaitingCompletions = 8192;

}  // namespace

void Outgoing::read(Session& session, const Operation& operation) {
  session.reads.push_back(operation.index);
  mark(session);
}

void Outgoing::write(Session& session, const Operation& operation) {
  session.writes.push_back(operation.index);
  session.eager_writes += operation.eager ? 1 : 0;
  mark(session);
}

void Outgoing::complete(Session& session, const RingEntry& message) {
  session.completions.push_back(message);
  mark(session);
  if (session.completions.size() > kMaxWaitingCompletions) {
    session.refuse("it does not take its completions");
  }
}

void Outgoing::mark(Session& session) {
  if (std::exchange(session.marked, true)) return;
  marked_.push_back(&session);
}

void Outgoing::send() {
  for (Session* session : marked_) {
    session->marked = false;
    send_waiting(*session);
  }
  marked_.clear();
}

void Outgoing::send_again(const Sessions& sessions) {
  if (!std::exchange(backlog_, false)) return;
  for (const auto& session : sessions.all()) {
    if (session != nullptr) send_waiting(*session);
  }
}

// Sends completions first, because clients wait for them, but not before the results that they
// report. Then starts writes before reads, because a write ends a tile and a read begins one.
void Outgoing::send_waiting(Session& session) {
  if (session.eager_writes > 0) start_all(session, session.writes);
  while (!session.broken && session.eager_writes == 0 && !session.completions.empty()) {
    if (!network_.send(session, session.completions.front())) break;
    session.completions.pop_front();
  }
  const bool all_writes = start_all(session, session.writes);
  const bool all_reads = start_all(session, session.reads);
  if (!session.broken) network_.flush(session);
  const bool all = all_writes && all_reads && session.completions.empty();
  backlog_ |= !session.broken && !all;
}

// Returns true when nothing waits any more.
bool Outgoing::start_all(Session& session, Fifo<std::uint32_t>& waiting) {
  while (!session.broken && !waiting.empty()) {
    Operation& operation = operations_[waiting.front()];
    if (!network_.start(session, operation)) break;
    session.started(operation);
    session.eager_writes -= operation.eager ? 1 : 0;
    waiting.pop_front();
  }
  return waiting.empty();
}

}  // namespace tally::transport::onesided
