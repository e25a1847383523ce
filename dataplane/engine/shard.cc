#include "dataplane/engine/shard.h"

#include <poll.h>

#include <algorithm>
#include <array>

#include "base/debug_steps.h"

namespace tally::engine {
namespace {

constexpr std::size_t kBurst = 64;
// Chores make system calls: not in every idle turn.
constexpr Nanos kChoresEvery = 100 * kMicrosecond;
constexpr Nanos kLongestSleep = 1 * kSecond;

}  // namespace

Shard::Shard(const ShardConfig& config, transport::Transport& transport)
    : config_(config),
      transport_(transport),
      protocol_(config.protocol),
      received_(kBurst),
      pulled_(kBurst),
      pushed_(kBurst),
      incoming_(kBurst) {
  const std::uint32_t tiles = protocol::tile_slots(config.protocol);
  slots_.reserve(tiles);
  for (std::uint32_t i = 0; i < tiles; ++i) slots_.emplace_back(config.memory);
  for (std::uint32_t i = tiles; i-- > 0;) free_slots_.push_back(i);
  // Inputs and checksums; results and statistics.
  const std::size_t endpoints = std::size_t{config.max_ranks} * 2;
  pulls_.reserve(endpoints);
  pushes_.reserve(endpoints);
  landings_.reserve(endpoints);
  outputs_.reserve(endpoints);
  messages_.reserve(endpoints);
}

// Small operations pass every stage in one turn where the transport answers at once; therefore
// pulls are issued right after the notices that make them possible.
bool Shard::turn(Nanos now) {
  clock_.reach(now);
  std::size_t work = 0;
  work += take_notices(now);                        // announcements into the protocol
  work += hear_parents(now);                        // what they want, their results and verdicts
  work += issue_downs();                            // results to be handed on
  work += issue_pulls();                            // the tiles that are next
  work += take_steps();                             // partial sums are there to be pulled
  work += take_pulled();                            // inputs are there: sum, and push the result
  work += take_steps();                             // branches have room for results
  work += take_pushed();                            // results are placed
  work += send_completions();                       // operations have ended
  work += send_letters();                           // to vertices above and below
  if (work == 0) work += run_tasks();               // control, only when idle
  if (now >= next_chores_) work += do_chores(now);  // the dead, deadlines
  counters_.turns.add();
  if (work == 0) counters_.idle_turns.add();
  return work > 0;
}

std::size_t Shard::take_notices(Nanos now) {
  const std::size_t count = transport_.receive(received_);
  for (const transport::Received& received : std::span(received_).first(count)) {
    wire::Notice notice;
    if (wire::parse(received.message, notice) != Status::kOk) {
      heard(received, now);
      continue;
    }
    debug_step(DebugStep::kNodeNoticeTaken);
    protocol_.announce(received.peer, notice, admissible(received.peer, notice), now);
  }
  counters_.notices.add(count);
  return count;
}

// Only branches say what is no notice.
void Shard::heard(const transport::Received& received, Nanos now) {
  if (protocol_.heard(received.peer, received.message, now) == Status::kOk) return;
  counters_.notices_refused.add();
  transport_.disconnect(received.peer);
}

Status Shard::admissible(transport::Peer peer, const wire::Notice& notice) const {
  if (notice.kind == wire::Kind::kCancel) return Status::kOk;
  const bool checked = (notice.flags & wire::kHasChecksums) != 0;
  if (checked && config_.crc32c == nullptr) return Status::kUnsupported;
  const auto extents = protocol_.extents(peer, notice);
  for (const protocol::Endpoint* endpoint : {&extents.in, &extents.out, &extents.side}) {
    if (endpoint->bytes > 0 && !transport_.covers(range_of(*endpoint))) return Status::kBadRegion;
  }
  return Status::kOk;
}

// Letting go of them has answered what was under way; these answers belong to its tiles. Its last
// words go to the parents that are left.
void Shard::remove_job(protocol::JobSlot job) {
  take_steps();
  take_pulled();
  take_pushed();
  take_steps();
  send_letters();
  protocol_.remove_job(job);
}

std::size_t Shard::send_completions() {
  const auto outbox = protocol_.outbox();
  if (outbox.empty()) return 0;
  messages_.clear();
  for (const protocol::Outgoing& outgoing : outbox) {
    const bool ok = outgoing.completion.status == Status::kOk;
    (ok ? counters_.completions : counters_.failures).add();
    messages_.push_back({outgoing.member, wire::encode(outgoing.completion)});
  }
  protocol_.clear_outbox();
  debug_step(DebugStep::kNodeCompletionQueued);
  transport_.complete(messages_);
  debug_step(DebugStep::kNodeCompletionSent);
  return messages_.size();
}

std::size_t Shard::do_chores(Nanos now) {
  next_chores_ = now + kChoresEvery;
  protocol_.expire(clock_.now());
  const std::size_t steps = take_steps();  // while the transport knows those whom they are about
  const std::size_t lost = report_lost() + lose_parents();
  const std::size_t tasks = run_tasks();
  return steps + lost + tasks + protocol_.outbox().size() + protocol_.letters_down().size() +
         protocol_.letters_up().size();
}

// One by one: what the loss of one lets go on may be about another who is lost too, and whom the
// transport forgets as soon as it has reported him.
std::size_t Shard::report_lost() {
  std::size_t total = 0;
  std::array<transport::Peer, 1> lost;
  for (; transport_.lost(lost) > 0; ++total) {
    counters_.peers_lost.add();
    protocol_.gone(lost[0], Status::kPeerLost, clock_.now());
    if (on_lost_) on_lost_(lost[0]);
    take_steps();
  }
  return total;
}

std::size_t Shard::run_tasks() {
  const std::size_t tasks = mailbox_.run();
  if (tasks > 0) take_steps();
  return tasks;
}

void Shard::run(const std::atomic<bool>& stop, bool busy) {
  clock_ = CycleClock::calibrated();
  IdlePolicy idle;
  Courtesy courtesy;
  while (!stop.load(std::memory_order_relaxed)) {
    const Nanos now = clock_.now();
    if (turn(now)) {
      idle.worked(now);
      // Without more to do the next turn is an idle one.
      if (!busy && protocol_.has_tiles()) courtesy.offer([this] { return clock_.now(); });
      continue;
    }
    if (!busy) idle.rest(now, [&] { sleep(now); });
  }
  mailbox_.run();
}

// All sources are armed before the sleep, and each refuses when something is there already: nothing
// that comes in between is slept through.
void Shard::sleep(Nanos now) {
  bool armed = transport_.arm() && mailbox_.arm();
  polled_.assign({{transport_.fd(), POLLIN, 0}, {mailbox_.fd(), POLLIN, 0}});
  for (const Parent& parent : parents_) {
    if (parent.uplink == nullptr || parent.lost) continue;
    armed = armed && parent.uplink->arm();
    polled_.push_back({parent.uplink->fd(), POLLIN, 0});
  }
  if (armed) {
    counters_.sleeps.add();
    const Nanos wait = std::clamp<Nanos>(protocol_.next_deadline() - now, 0, kLongestSleep);
    const timespec timeout{wait / kSecond, wait % kSecond};
    ::ppoll(polled_.data(), polled_.size(), &timeout, nullptr);
    next_chores_ = 0;  // a death wakes too
  }
  transport_.disarm();
  mailbox_.disarm();
  for (const Parent& parent : parents_) {
    if (parent.uplink != nullptr) parent.uplink->disarm();
  }
}

}  // namespace tally::engine
