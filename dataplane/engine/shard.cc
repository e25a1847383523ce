#include "dataplane/engine/shard.h"

#include <poll.h>

#include <algorithm>
#include <array>
#include <new>

#include "base/debug_steps.h"

namespace tally::engine {
namespace {

// Chores make system calls, so not every idle turn does them.
constexpr Nanos kChoresEvery = 100 * kMicrosecond;
constexpr Nanos kLongestSleep = 1 * kSecond;
constexpr std::size_t kOwnSources = 2;  // a sleep polls the transport, the mailbox, and the parents

}  // namespace

Shard::Shard(const ShardConfig& config, transport::Transport& transport)
    : checks_checksums_(config.crc32c != nullptr),
      transport_(transport),
      protocol_(config.protocol),
      pipeline_(config, transport, protocol_, parents_, counters_, clock_),
      received_(kBurst) {
  messages_.reserve(2 * std::size_t{config.max_ranks});
  polled_.reserve(kOwnSources);
}

// When the transport answers immediately, a small operation passes every stage in one turn.
// Therefore the shard issues pulls right after the notices that make them possible.
bool Shard::turn(Nanos now) {
  clock_.reach(now);
  std::size_t work = 0;
  work += receive_notices(now);                     // announcements into the protocol
  work += receive_from_parents(now);                // requests, results and verdicts of parents
  work += pipeline_.start_downs();                  // results of parents to hand on
  work += pipeline_.start_tiles();                  // the next tiles
  work += pipeline_.handle_events();                // partial sums are ready to be pulled
  work += pipeline_.poll_pulls();                   // inputs have arrived: sum, push the result
  work += pipeline_.handle_events();                // child nodes have room for results
  work += pipeline_.poll_pushes();                  // results are placed
  work += send_completions();                       // operations have ended
  work += send_tree_messages();                     // to parent nodes and child nodes
  if (work == 0) work += run_tasks();               // control, only when idle
  if (now >= next_chores_) work += do_chores(now);  // lost peers, deadlines
  counters_.turns.add();
  if (work == 0) counters_.idle_turns.add();
  return work > 0;
}

std::size_t Shard::receive_notices(Nanos now) {
  const std::size_t count = transport_.receive(received_);
  for (const transport::Received& received : std::span(received_).first(count)) {
    wire::Notice notice;
    if (wire::parse(received.message, notice) != Status::kOk) {
      receive_tree_message(received, now);
      continue;
    }
    debug_step(DebugStep::kNodeNoticeTaken);
    protocol_.announce(received.peer, notice, admissible(received.peer, notice), now);
  }
  counters_.notices.add(count);
  return count;
}

// Only child nodes send messages that are not notices.
void Shard::receive_tree_message(const transport::Received& received, Nanos now) {
  if (protocol_.handle_child_message(received.peer, received.message, now) == Status::kOk) return;
  counters_.notices_refused.add();
  transport_.disconnect(received.peer, "it broke the protocol");
}

Status Shard::admissible(transport::Peer peer, const wire::Notice& notice) const {
  if (notice.kind == wire::Kind::kCancel) return Status::kOk;
  const bool checked = (notice.flags & wire::kHasChecksums) != 0;
  if (checked && !checks_checksums_) return Status::kUnsupported;
  const auto extents = protocol_.extents(peer, notice);
  for (const protocol::Endpoint* endpoint : {&extents.in, &extents.out, &extents.side}) {
    if (endpoint->bytes > 0 && !transport_.covers(range_of(*endpoint))) return Status::kBadRegion;
  }
  return Status::kOk;
}

// The transport has answered what was under way when it let go of the job's peers. These answers
// belong to the job's tiles, so the shard takes them first. Then it sends the job's last messages
// to the parents that are left.
void Shard::remove_job(protocol::JobId job) {
  pipeline_.handle_events();
  pipeline_.poll_pulls(UINT64_MAX);
  pipeline_.poll_pushes();
  pipeline_.handle_events();
  send_tree_messages();
  protocol_.remove_job(job);
}

void Shard::add_parent_connection(protocol::ParentId parent_id, ParentConnection& parent_connection,
                                  std::uint32_t shard, const protocol::BufferLayout& layout) {
  parents_.add(parent_id, parent_connection, shard, layout);
  polled_.reserve(kOwnSources + parents_.size());
  pipeline_.pool().reserve_down(parents_.tiles_down());
}

// Sends the messages of the protocol to the parent first, because its id is unknown afterwards.
void Shard::remove_parent_connection(protocol::ParentId parent_id) {
  send_tree_messages();
  parents_.remove(parent_id);
}

std::size_t Shard::receive_from_parents(Nanos now) {
  std::size_t total = 0;
  for (protocol::ParentId id = 0; id < parents_.size(); ++id) {
    const auto messages = parents_.receive(id);
    for (const RingEntry& message : messages) {
      if (protocol_.handle_parent_message(id, message, now) == Status::kOk) continue;
      counters_.notices_refused.add();
      parents_.disconnect(id);
      break;
    }
    total += messages.size();
  }
  return total;
}

std::size_t Shard::send_completions() {
  const auto outbox = protocol_.outbox().completions();
  if (outbox.empty()) return 0;
  messages_.clear();
  for (const protocol::Outgoing& outgoing : outbox) {
    const bool ok = outgoing.completion.status == Status::kOk;
    (ok ? counters_.completions : counters_.failures).add();
    messages_.push_back({outgoing.member, wire::encode(outgoing.completion)});
  }
  protocol_.outbox().clear_completions();
  debug_step(DebugStep::kNodeCompletionQueued);
  transport_.complete(messages_);
  debug_step(DebugStep::kNodeCompletionSent);
  return messages_.size();
}

std::size_t Shard::send_tree_messages() {
  const auto down = protocol_.outbox().messages_down();
  const auto up = protocol_.outbox().messages_up();
  if (down.empty() && up.empty()) return 0;
  messages_.clear();
  for (const protocol::TreeMessage& message : down) {
    messages_.push_back({message.to, message.message});
  }
  transport_.complete(messages_);
  for (const protocol::TreeMessage& message : up) parents_.send(message);
  const std::size_t total = down.size() + up.size();
  protocol_.outbox().clear_tree_messages();
  return total;
}

std::size_t Shard::do_chores(Nanos now) {
  next_chores_ = now + kChoresEvery;
  protocol_.expire(clock_.now());
  disconnect_stuck();
  // The transport still knows the peers of these events.
  const std::size_t tile_events = pipeline_.handle_events();
  const std::size_t lost = report_lost_peers() + report_lost_parents();
  const std::size_t tasks = run_tasks();
  return tile_events + lost + tasks + protocol_.outbox().completions().size() +
         protocol_.outbox().messages_down().size() + protocol_.outbox().messages_up().size();
}

// Each of these operations has failed, and some of its tiles do not end. The transport answers the
// operations of a peer when it has lost the peer.
void Shard::disconnect_stuck() {
  constexpr const char* kWhy =
      "it is too slow: its operation has failed, and the node's access to its memory has not ended "
      "in time";
  for (const protocol::Stuck& stuck : protocol_.outbox().stuck()) {
    for (const protocol::SessionId member : pipeline_.awaited(stuck)) {
      protocol_.waited_for(stuck, member);
      transport_.disconnect(member, kWhy);
    }
  }
  protocol_.outbox().clear_stuck();
}

protocol::Health Shard::health(protocol::JobId job, Nanos now) const {
  return protocol_.health(job, now, [&](protocol::PoolIndex operation) {
    return pipeline_.awaited({job, operation});
  });
}

// Takes one lost peer at a time. Its loss can release events about another lost peer, and the
// transport forgets a peer as soon as it has reported it.
std::size_t Shard::report_lost_peers() {
  std::size_t total = 0;
  std::array<transport::Peer, 1> lost;
  for (; transport_.lost(lost) > 0; ++total) {
    counters_.peers_lost.add();
    protocol_.gone(lost[0], Status::kPeerLost, clock_.now());
    if (on_lost_) on_lost_(lost[0]);
    pipeline_.handle_events();
  }
  return total;
}

std::size_t Shard::report_lost_parents() {
  std::size_t total = 0;
  for (; const auto lost = parents_.next_lost(); ++total) {
    counters_.parents_lost.add();
    protocol_.parent_gone(*lost, Status::kPeerLost, clock_.now());
    if (on_parent_lost_) on_parent_lost_(*lost);
    pipeline_.handle_events();
  }
  return total;
}

std::size_t Shard::run_tasks() {
  const std::size_t tasks = mailbox_.run();
  if (tasks > 0) pipeline_.handle_events();
  return tasks;
}

// When memory runs out, the turn leaves its current work undone: that operation ends with its
// deadline, and the others go on. Tiles get their memory before they begin (TilePool::next_up(),
// TileReducer::reserve_results()).
bool Shard::turn_within_memory(Nanos now) {
  try {
    return turn(now);
  } catch (const std::bad_alloc&) {
    counters_.out_of_memory.add();
    return true;
  }
}

void Shard::run(const std::atomic<bool>& stop, bool busy) {
  clock_ = CycleClock::calibrated();
  IdlePolicy idle;
  YieldPolicy yield_policy;
  while (!stop.load(std::memory_order_relaxed)) {
    const Nanos now = clock_.now();
    if (turn_within_memory(now)) {
      idle.worked(now);
      // Without more tiles the next turn is idle.
      if (!busy && protocol_.tiles().has_tiles())
        yield_policy.offer([this] { return clock_.now(); });
      continue;
    }
    if (!busy) idle.rest(now, [&] { sleep(now); });
  }
  mailbox_.run();
}

// Arms all sources before the sleep. Each source refuses when something has arrived already, so the
// shard does not sleep through anything that arrives in between. `polled_` has room for all sources
// before, because no caller catches std::bad_alloc here.
void Shard::sleep(Nanos now) {
  bool armed = transport_.arm() && mailbox_.arm();
  polled_.assign({{transport_.fd(), POLLIN, 0}, {mailbox_.fd(), POLLIN, 0}});
  armed = armed && parents_.arm(polled_);
  if (armed) {
    counters_.sleeps.add();
    const Nanos wait = std::clamp<Nanos>(protocol_.next_deadline() - now, 0, kLongestSleep);
    const timespec timeout{wait / kSecond, wait % kSecond};
    ::ppoll(polled_.data(), polled_.size(), &timeout, nullptr);
    next_chores_ = 0;  // a lost peer wakes the shard too
  }
  transport_.disarm();
  mailbox_.disarm();
  parents_.disarm();
}

}  // namespace tally::engine
